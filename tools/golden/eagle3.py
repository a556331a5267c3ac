#!/usr/bin/env python3
"""A tiny model with two heads of EAGLE-3's form, in the files that SpecForge writes for them.

Usage: python tools/golden/eagle3.py      (needs tools/golden/requirements.txt)

The model is transformers' Llama. The head is written here in plain PyTorch after the published form
(SGLang, python/sglang/srt/models/llama_eagle3.py): for the token behind position i + 1 it reads what
three layers of the model gave at position i, brought to its own width by one product, beside the
embedding of token i + 1; applied again it reads what it gave itself, before its final norm. Model and
one head learn the language of mimo.py, so that a test sees it when the head is fed the wrong states;
the other head has random weights, a width and an embedding of its own, and the whole vocabulary.
Writes tests/golden/drafts/; tests/golden/README.md tells what is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.llama.modeling_llama import (LlamaAttention, LlamaMLP, LlamaRMSNorm,
                                                      LlamaRotaryEmbedding)

from mimo import LENGTH, SEQUENCES, Language, fit
from model_cases import BASE, rope
from models import TOKENS, randomize, write_json
from tiny_tokenizer import write_tokenizer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden/drafts")
SEED = 60
DRAFTS = 4  # that a head gives behind the prompt
LAYERS = [0, 2, 3]  # whose outputs it reads
LEAST_RIGHT = 0.6  # of the first drafts
# Of them, with states of the position before; its attention makes up for some.
LEAST_LOST = 0.05
PRUNED = 8  # every so many-th token is none of the learned head's


class MidLayer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        norm = lambda: LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm = norm(), norm(), norm()
        self.self_attn = LlamaAttention(config, 0)
        for name, heads in [("q_proj", config.num_attention_heads),
                            ("k_proj", config.num_key_value_heads),
                            ("v_proj", config.num_key_value_heads)]:
            wide = torch.nn.Linear(2 * config.hidden_size, heads * config.head_dim, bias=False)
            setattr(self.self_attn, name, wide)
        self.mlp = LlamaMLP(config)


class Head(torch.nn.Module):
    def __init__(self, config, width):
        """`width`: of the model's hidden states."""
        super().__init__()
        self.fc = torch.nn.Linear(len(LAYERS) * width, config.hidden_size, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.angles = [LlamaRotaryEmbedding(config)]  # none of its parameters

    def forward(self, embedded, states):
        """`states` in the head's width, beside the embeddings of one token further."""
        layer, length = self.midlayer, states.shape[1]
        joined = torch.cat([layer.input_layernorm(embedded), layer.hidden_norm(states)], dim=-1)
        mask = torch.full((length, length), float("-inf"), dtype=joined.dtype).triu(1)[None, None]
        angles = self.angles[0](joined, torch.arange(length)[None])
        states = states + layer.self_attn(joined, attention_mask=mask, position_embeddings=angles)[0]
        states = states + layer.mlp(layer.post_attention_layernorm(states))
        return torch.log_softmax(self.lm_head(self.norm(states)), dim=-1), states


def randomize_head(head, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in head.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data.copy_(1.0 + 0.25 * noise if "norm" in name else 0.125 * noise)


def run_model(model, ids):
    """Log-probs, and the outputs of LAYERS side by side."""
    kept = {}
    hooks = [model.model.layers[i].register_forward_hook(
        lambda module, args, out, i=i: kept.__setitem__(i, out[0] if isinstance(out, tuple) else out))
        for i in LAYERS]
    expected = torch.log_softmax(model(input_ids=ids).logits, dim=-1)
    for hook in hooks:
        hook.remove()
    return expected, torch.cat([kept[i] for i in LAYERS], dim=-1)


def train_model(model, language):
    def loss():
        ids = language.write(SEQUENCES, LENGTH)
        return torch.nn.functional.cross_entropy(model(input_ids=ids).logits[:, 1:-1].flatten(0, 1),
                                                 ids[:, 2:].flatten())

    fit(model.parameters(), 800, loss)
    for parameter in model.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())
        parameter.requires_grad = False


def train_head(model, head, kept, language):
    def loss():
        ids = language.write(SEQUENCES, LENGTH)
        with torch.no_grad():
            expected, hidden = run_model(model, ids)
        states, total = head.fc(hidden)[:, :-1], 0.0
        for behind in (1, 2):  # applied once, and once more to what it gave
            wanted = expected[:, behind:, kept]
            given, states = head(model.model.embed_tokens(ids[:, behind:]), states[:, :LENGTH - behind])
            total = total - (wanted.exp() * given).sum(-1).mean()
            states = states[:, :-1]
        return total

    fit(head.parameters(), 500, loss)
    for parameter in head.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())


def share_right(model, head, kept, language, shift=0):
    """Of first drafts; with states of a position `shift` further off."""
    ids = language.write(SEQUENCES, LENGTH)
    expected, hidden = run_model(model, ids)
    given, _ = head(model.model.embed_tokens(ids[:, 1:]), head.fc(hidden.roll(shift, 1))[:, :-1])
    return (kept[given.argmax(-1)] == expected[:, 1:].argmax(-1))[:, 8:].float().mean().item()


def drafts_of(model, head, embedding, kept, ids):
    """Log-probs of the head along the prompt, then of the drafts behind it; and the drafts."""
    expected, hidden = run_model(model, ids)
    drawn = expected[:, -1:].argmax(-1)
    joined, states, rows, drafts = torch.cat([ids[:, 1:], drawn], dim=1), head.fc(hidden), [], []
    for number in range(DRAFTS):
        given, out = head(embedding(joined), states)
        rows.append(given[0] if number == 0 else given[0, -1:])
        drafts.append(kept[given[0, -1].argmax()].item())
        joined = torch.cat([joined, torch.tensor([[drafts[-1]]])], dim=1)
        states = torch.cat([states, out[:, -1:]], dim=1)
    return torch.cat(rows), drawn.item(), drafts


def write_head(name, config, model, head, embedding, kept, ids):
    folder = os.path.join(ROOT, name)
    os.makedirs(folder)
    own = embedding is not model.model.embed_tokens
    with torch.no_grad():
        rows, drawn, drafts = drafts_of(model, head, embedding, kept, ids)
        for module in (head, model, embedding, head.angles[0]):
            module.double()
        exact = (drafts_of(model, head, embedding, kept, ids)[0] - rows).abs().max().item()
        for module in (head, model, embedding, head.angles[0]):
            module.float()
    assert exact < 3e-5, exact
    tensors = {key: tensor.contiguous() for key, tensor in head.state_dict().items()}
    if own:
        tensors["embed_tokens.weight"] = embedding.weight.data
    if len(kept) < config.vocab_size:
        tensors["d2t"] = kept - torch.arange(len(kept))
        in_draft = torch.zeros(config.vocab_size, dtype=torch.bool)
        in_draft[kept] = True
        tensors["t2d"] = in_draft
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(folder, "config.json", {
        **{key: value for key, value in config.to_diff_dict().items() if key != "transformers_version"},
        "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": len(kept),
        "target_hidden_size": model.config.hidden_size, "tie_word_embeddings": False,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": LAYERS, "use_aux_hidden_state": True}})
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "drawn": drawn, "drafts": drafts,
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}"})


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that every run adds in the same order
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in ("target", "eagle3", "eagle3_own"):
        shutil.rmtree(os.path.join(ROOT, name), ignore_errors=True)
    target = os.path.join(ROOT, "target")
    os.makedirs(target)
    config = transformers.LlamaConfig(**{**BASE, "num_hidden_layers": 4, "intermediate_size": 64,
                                         "rope_parameters": rope("default")})
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).float().eval()
    randomize(model, SEED)
    language = Language(config.vocab_size)
    train_model(model, language)
    generator = torch.Generator().manual_seed(SEED + 1000)
    ids = torch.randint(3, config.vocab_size, (1, TOKENS), generator=generator)
    every = torch.arange(config.vocab_size)

    def head_config(**options):
        made = transformers.LlamaConfig(**{**BASE, "num_hidden_layers": 1,
                                           "rope_parameters": rope("default"), **options})
        made._attn_implementation = "eager"
        return made

    kept = every[every % PRUNED != 5]
    learned = head_config(num_key_value_heads=1, draft_vocab_size=len(kept))
    head = Head(learned, config.hidden_size)
    randomize_head(head, SEED + 2)
    train_head(model, head, kept, language)
    with torch.no_grad():
        right = share_right(model, head, kept, language)
        off = share_right(model, head, kept, language, 1)
    print(f"first drafts are right in {right:.2f} of all cases, with states of the position before in "
          f"{off:.2f}")
    assert right > LEAST_RIGHT and off < right - LEAST_LOST
    model.save_pretrained(target)
    write_tokenizer(target, config.vocab_size, False)
    write_head("eagle3", learned, model, head, model.model.embed_tokens, kept, ids)
    wide = head_config(hidden_size=96, head_dim=16, draft_vocab_size=config.vocab_size)
    head = Head(wide, config.hidden_size)
    randomize_head(head, SEED + 3)
    embedding = torch.nn.Embedding(config.vocab_size, wide.hidden_size)
    embedding.weight.data.copy_(torch.randn(embedding.weight.shape, generator=generator))
    write_head("eagle3_own", wide, model, head, embedding, every, ids)


if __name__ == "__main__":
    main()
