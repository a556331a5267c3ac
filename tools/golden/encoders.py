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
    "qwen3_embedding": ("Qwen3", dict(num_key_value_heads=2, head_dim=32, rms_norm_eps=1e-5,
                                      tie_word_embeddings=True), "lasttoken", True, 64),
}
# name -> (configuration class, its options): models that give a text, or two, a number for each label
CLASSIFIERS = {
    "bert_rank": ("Bert", dict(id2label={0: "LABEL_0"})),
    "xlm_roberta_classes": ("XLMRoberta", dict(
        max_position_embeddings=61, pad_token_id=0, type_vocab_size=1, layer_norm_eps=1e-5,
        id2label={0: "calm", 1: "cold", 2: "old"})),
}
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


def write_tokenizer(folder, size):
    pieces = SPECIAL + WORDS
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
    tokenizer.add_special_tokens(SPECIAL)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        file.write(tokenizer.to_str(pretty=False) + "\n")
    write_json(folder, "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]", "sep_token": "[SEP]",
                "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"})


def write_modules(folder, size, pooling, normalize, tokens):
    kinds = ["Transformer", "Pooling"] + (["Normalize"] if normalize else [])
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


def make(name, seed):
    kind, options, pooling, normalize, tokens = CASES[name]
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config = getattr(transformers, kind + "Config")(**{**BASE, **options})
    pooler = {} if kind == "Qwen3" else {"add_pooling_layer": False}
    model = getattr(transformers, kind + "Model")(config, **pooler).eval()
    randomize(model, seed)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()},
              os.path.join(folder, "model.safetensors"), {"format": "pt"})
    # As the published Qwen3-Embedding says.
    config.architectures = [kind + ("ForCausalLM" if kind == "Qwen3" else "Model")]
    config.save_pretrained(folder)
    write_tokenizer(folder, config.vocab_size)
    write_modules(folder, config.hidden_size, pooling, normalize, tokens)
    reference = SentenceTransformer(folder, device="cpu")
    vectors = reference.encode(TEXTS, batch_size=5)
    write_json(folder, "expected.json", {
        "texts": TEXTS,
        "tokens": [min(len(ids), tokens) for ids in
                   (reference.tokenizer(text)["input_ids"] for text in TEXTS)],
        "vectors": [[float(f"{x:.8g}") for x in vector] for vector in vectors]})
    print(name, vectors.shape)


def logits(model, tokenizer, *texts):
    # As BERT's own tokenizer does; RoBERTa's models have no types to tell apart.
    types = model.config.type_vocab_size > 1
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
    write_tokenizer(folder, config.vocab_size)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [text for text in TEXTS if len(tokenizer(text)["input_ids"]) < 30]
    pairs = [texts, texts[1:] + texts[:1]]
    write_json(folder, "expected.json", {
        "texts": texts, "tokens": [len(ids) for ids in tokenizer(texts)["input_ids"]],
        "vectors": logits(model, tokenizer, texts),
        "second_texts": pairs[1], "pair_tokens": [len(ids) for ids in tokenizer(*pairs)["input_ids"]],
        "pair_vectors": logits(model, tokenizer, *pairs)})
    print(name, len(texts))


for number, (case, maker) in enumerate([*((name, make) for name in CASES),
                                        *((name, make_classifier) for name in CLASSIFIERS)]):
    if len(sys.argv) < 2 or case in sys.argv[1:]:
        maker(case, 50 + number)
