#!/usr/bin/env python3
"""Tiny random encoders, with the vectors that sentence-transformers gives for some texts.

Usage: python tools/golden/encoders.py [NAME...]      (needs tools/golden/requirements.txt)

Writes tests/golden/encoders/<name>/ as sentence-transformers lays a model out; tests/golden/README.md
tells what is in there. Weights are drawn from a fixed seed and rounded to bfloat16.
"""
import json
import os
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden/encoders")

# name -> (configuration class, its options, pooling, normalize, tokens of a text at most)
BASE = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=64)
CASES = {
    "bert": ("Bert", dict(layer_norm_eps=1e-12), "mean", True, 48),
    "bert_cls": ("Bert", dict(hidden_act="gelu_new", num_hidden_layers=3, type_vocab_size=1),
                 "cls", False, 64),
    "xlm_roberta": ("XLMRoberta", dict(max_position_embeddings=61, pad_token_id=0, type_vocab_size=1,
                                       layer_norm_eps=1e-5), "mean", True, 60),
    "mpnet": ("MPNet", dict(max_position_embeddings=514, bos_token_id=2, eos_token_id=3),
              "mean", True, 200),
    # Published checkpoints have the names of the authors' own code, and so has what transformers
    # saves; their config.json has GPT-2's keys.
    "nomic_bert": ("NomicBert", dict(layer_norm_eps=1e-12), "mean", True, 64),
    # Windows of 8 tokens on each side in two layers of three.
    "modernbert": ("ModernBert", dict(num_hidden_layers=4, local_attention=16,
                                      max_position_embeddings=256, pad_token_id=0, cls_token_id=2,
                                      sep_token_id=3, bos_token_id=2, eos_token_id=3), "cls", False,
                   200),
    "bert_dense": ("Bert", dict(layer_norm_eps=1e-12), "mean", True, 48),
    "qwen3_embedding": ("Qwen3", dict(num_key_value_heads=2, head_dim=32, rms_norm_eps=1e-5,
                                      tie_word_embeddings=True), "lasttoken", True, 64),
}
# name -> (configuration class, its options): models that give a text, or two, a number for each label
CLASSIFIERS = {
    "bert_rank": ("Bert", dict(id2label={0: "LABEL_0"})),
    "modernbert_rank": ("ModernBert", dict(
        num_hidden_layers=4, local_attention=16, pad_token_id=0, cls_token_id=2, sep_token_id=3,
        bos_token_id=2, eos_token_id=3, classifier_pooling="mean", id2label={0: "LABEL_0"})),
    "mpnet_classes": ("MPNet", dict(id2label={0: "calm", 1: "cold"}, bos_token_id=2,
                                    eos_token_id=3)),
    "xlm_roberta_classes": ("XLMRoberta", dict(
        max_position_embeddings=61, pad_token_id=0, type_vocab_size=1, layer_norm_eps=1e-5,
        id2label={0: "calm", 1: "cold", 2: "old"})),
}
# name -> options of a model that answers yes or no, asked in the form of Qwen3-Reranker's model card
JUDGES = {
    "qwen3_reranker": dict(num_key_value_heads=2, head_dim=32, rms_norm_eps=1e-5, vocab_size=160,
                           max_position_embeddings=512, tie_word_embeddings=True),
}
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
JUDGE_PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
JUDGE_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "a", "river", "stone", "runs", "under", "bridge", "old", "and", "of", "water", "is",
         "cold", "we", "walk", "to", "town", "ing", "##ing", "##s", "##er", "##ly"]
TEXTS = [
    "the river", "a", "The old bridge is of stone, and the water runs under it.", "cold!",
    "we walk to the town", "walking to towns", "STONE", "water " * 12, "the " * 80, "?",
    "unknown \u00e9t\u00e9 \u4e2d\u6587 words", "rivers and stones, bridges and towns; we walked slowly",
]


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def write_tokenizer(folder, size, more=(), padding=0):
    special = SPECIAL[1:padding + 1] + SPECIAL[:1] + SPECIAL[padding + 1:]
    pieces = special + WORDS + list(more)
    for letter in [chr(c) for c in range(ord("a"), ord("z") + 1)]:
        pieces += [letter, "##" + letter]
    pieces += list(".,;!?'-0123456789")
    pieces += [f"[unused{i}]" for i in range(size - len(pieces))]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)},
                                           unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.add_special_tokens(SPECIAL + [piece for piece in more if piece.startswith("<|")])
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        file.write(tokenizer.to_str(pretty=False) + "\n")
    write_json(folder, "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]", "sep_token": "[SEP]",
                "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"})


def padding_of(kind):
    """MPNet's code takes the token 1 for padding, whatever the files say."""
    return 1 if kind == "MPNet" else 0


def write_dense(folder, seed, inputs, outputs, activation, bias):
    generator = torch.Generator().manual_seed(seed)
    tensors = {"linear.weight": torch.randn(outputs, inputs, generator=generator) / inputs ** 0.5}
    if bias:
        tensors["linear.bias"] = 0.3 * torch.randn(outputs, generator=generator)
    os.makedirs(folder)
    save_file({name: value.bfloat16().float() for name, value in tensors.items()},
              os.path.join(folder, "model.safetensors"), {"format": "pt"})
    write_json(folder, "config.json", {"in_features": inputs, "out_features": outputs, "bias": bias,
                                       "activation_function": "torch.nn.modules." + activation})


# Wider than the model, then narrower.
DENSE = [(64, 160, "activation.Tanh", True), (160, 24, "linear.Identity", False)]


def write_modules(folder, size, pooling, normalize, tokens, dense=()):
    kinds = ["Transformer", "Pooling"] + ["Dense"] * len(dense) + (["Normalize"] if normalize else [])
    for i, options in enumerate(dense):
        write_dense(os.path.join(folder, f"{i + 2}_Dense"), 90 + i, *options)
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "",
                "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    write_json(folder, "modules.json", modules)
    os.makedirs(os.path.join(folder, "1_Pooling"))
    write_json(folder, "1_Pooling/config.json",
               {"word_embedding_dimension": size, "pooling_mode_cls_token": pooling == "cls",
                "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_max_tokens": False,
                "pooling_mode_mean_sqrt_len_tokens": False,
                "pooling_mode_lasttoken": pooling == "lasttoken"})
    write_json(folder, "sentence_bert_config.json", {"max_seq_length": tokens, "do_lower_case": False})


def randomize(model, seed):
    """Weights that make every part of the model matter: sharp attention, norms and biases at work."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name.lower() and not name.endswith("bias"):
            value = 1.0 + 0.25 * noise
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "embed" in name:
            value = noise
        else:
            value = 1.3 * noise / parameter.shape[-1] ** 0.5
        parameter.data.copy_(value.bfloat16().float())


def names_of_authors(kind, tensors):
    """A NomicBERT's tensors as its published checkpoints call them; others as they are."""
    if kind != "NomicBert":
        return {name: value.contiguous() for name, value in tensors.items()}
    renamed = [("layers.", "encoder.layers."), ("embeddings.LayerNorm", "emb_ln"),
               ("self_attn.o_proj", "attn.out_proj"), ("up_proj", "fc11"), ("gate_proj", "fc12"),
               ("down_proj", "fc2"), ("post_attention_layernorm", "norm1"),
               ("post_mlp_layernorm", "norm2")]
    found = {}
    for name, value in tensors.items():
        if "k_proj" in name or "v_proj" in name:
            continue
        if "q_proj" in name:
            value = torch.cat([tensors[name.replace("q_proj", part)]
                               for part in ("q_proj", "k_proj", "v_proj")])
            name = name.replace("self_attn.q_proj", "attn.Wqkv")
        for ours, theirs in renamed:
            name = name.replace(ours, theirs)
        found[name] = value.contiguous()
    return found


def nomic_config(config):
    """With the keys of the published config.json of Nomic Embed 1.5."""
    return {"activation_function": "swiglu", "architectures": ["NomicBertModel"], "causal": False,
            "layer_norm_epsilon": config.layer_norm_eps, "max_trained_positions": 2048,
            "mlp_fc1_bias": False, "mlp_fc2_bias": False, "model_type": "nomic_bert",
            "n_embd": config.hidden_size, "n_head": config.num_attention_heads,
            "n_inner": config.intermediate_size, "n_layer": config.num_hidden_layers,
            "n_positions": config.max_position_embeddings, "parallel_block": False, "prenorm": False,
            "qkv_proj_bias": False, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
            "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
            "rotary_scaling_factor": None, "type_vocab_size": config.type_vocab_size,
            "use_rms_norm": False, "vocab_size": config.vocab_size}


@torch.no_grad()
def make_judge(name, seed):
    """The logits of no and yes behind each pair, asked as Qwen3-Reranker's model card does it."""
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config = transformers.Qwen3Config(**{**BASE, **JUDGES[name]})
    model = transformers.Qwen3ForCausalLM(config).eval()
    randomize(model, seed)
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"},
              os.path.join(folder, "model.safetensors"), {"format": "pt"})
    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(folder)
    write_tokenizer(folder, config.vocab_size,
                    ["yes", "no", "query", "document", "<|im_start|>", "<|im_end|>", "<", ">", "|",
                     ":", '"', "/"])
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write("# Qwen3-Reranker's form, with random weights\n")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def ids(text, special=True):
        return tokenizer(text, add_special_tokens=False, split_special_tokens=not special)["input_ids"]

    no, yes = tokenizer.convert_tokens_to_ids(["no", "yes"])
    first = [text for text in TEXTS if len(ids(text)) < 30]
    second, pair_tokens, vectors = first[1:] + first[:1], [], []
    for query, document in zip(first, second):
        middle = f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}"
        prompt = ids(JUDGE_PREFIX) + ids(middle, special=False) + ids(JUDGE_SUFFIX)
        logits = model(torch.tensor([prompt])).logits[0, -1]
        pair_tokens.append(len(prompt))
        vectors.append([float(f"{x:.8g}") for x in (logits[no].item(), logits[yes].item())])
    write_json(folder, "expected.json", {
        "texts": first, "tokens": [], "vectors": [], "second_texts": second,
        "pair_tokens": pair_tokens, "pair_vectors": vectors})
    print(name, len(vectors), vectors[:2])


def make(name, seed):
    kind, options, pooling, normalize, tokens = CASES[name]
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config = getattr(transformers, kind + "Config")(**{**BASE, **options})
    pooler = {} if kind in ("Qwen3", "ModernBert") else {"add_pooling_layer": False}
    model = getattr(transformers, kind + "Model")(config, **pooler).eval()
    randomize(model, seed)
    save_file(names_of_authors(kind, model.state_dict()),
              os.path.join(folder, "model.safetensors"), {"format": "pt"})
    # As the published Qwen3-Embedding says.
    config.architectures = [kind + ("ForCausalLM" if kind == "Qwen3" else "Model")]
    config.save_pretrained(folder)
    write_tokenizer(folder, config.vocab_size, padding=padding_of(kind))
    write_modules(folder, config.hidden_size, pooling, normalize, tokens,
                  DENSE if name == "bert_dense" else ())
    reference = SentenceTransformer(folder, device="cpu", model_kwargs={"attn_implementation": "eager"})
    texts = TEXTS + (["water " * 150, "stone and river " * 40] if tokens > 100 else [])
    vectors = reference.encode(texts, batch_size=5)
    if kind == "NomicBert":
        write_json(folder, "config.json", nomic_config(config))
    write_json(folder, "expected.json", {
        "texts": texts,
        "tokens": [min(len(ids), tokens) for ids in
                   (reference.tokenizer(text)["input_ids"] for text in texts)],
        "vectors": [[float(f"{x:.8g}") for x in vector] for vector in vectors]})
    print(name, vectors.shape)


def logits(model, tokenizer, *texts):
    # As BERT's own tokenizer does; RoBERTa's models have no types to tell apart.
    types = getattr(model.config, "type_vocab_size", 1) > 1
    inputs = tokenizer(*texts, padding=True, return_tensors="pt", return_token_type_ids=types)
    return [[float(f"{x:.8g}") for x in row] for row in model(**inputs).logits.tolist()]


@torch.no_grad()
def make_classifier(name, seed):
    kind, options = CLASSIFIERS[name]
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    labels = options["id2label"]
    config = getattr(transformers, kind + "Config")(
        **{**BASE, **options}, label2id={label: i for i, label in labels.items()})
    model = getattr(transformers, kind + "ForSequenceClassification")(config).eval()
    randomize(model, seed)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()},
              os.path.join(folder, "model.safetensors"), {"format": "pt"})
    config.architectures = [kind + "ForSequenceClassification"]
    config.save_pretrained(folder)
    write_tokenizer(folder, config.vocab_size, padding=padding_of(kind))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [text for text in TEXTS if len(tokenizer(text)["input_ids"]) < 30]
    pairs = [texts, texts[1:] + texts[:1]]
    write_json(folder, "expected.json", {
        "texts": texts, "tokens": [len(ids) for ids in tokenizer(texts)["input_ids"]],
        "vectors": logits(model, tokenizer, texts),
        "second_texts": pairs[1], "pair_tokens": [len(ids) for ids in tokenizer(*pairs)["input_ids"]],
        "pair_vectors": logits(model, tokenizer, *pairs)})
    print(name, len(texts))


# Seeds go by the order in which the checkpoints came.
MAKERS = {**{name: make for name in ("bert", "bert_cls", "xlm_roberta", "qwen3_embedding")},
          **{name: make_classifier for name in ("bert_rank", "xlm_roberta_classes")},
          **{name: make for name in CASES}, **{name: make_classifier for name in CLASSIFIERS},
          **{name: make_judge for name in JUDGES}}
for number, (case, maker) in enumerate(MAKERS.items()):
    if len(sys.argv) < 2 or case in sys.argv[1:]:
        maker(case, 50 + number)
