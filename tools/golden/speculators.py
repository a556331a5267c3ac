#!/usr/bin/env python3
"""Heads for the model of eagle3.py in the format of vLLM's library speculators.

Usage: python tools/golden/speculators.py   (needs tools/golden/requirements.txt, and what eagle3.py wrote)

The heads are written here in plain PyTorch after the published forms (speculators,
src/speculators/models/eagle3 and peagle, and models/eagle.py of its version 0.2), with random weights
in BF16: one of EAGLE-3's form with a layer of Qwen3's, a vocabulary cut short, and norms: of all that
it reads, of the states that its residual stream begins with, and of what it gives before it reads that;
one of parallel EAGLE's form with two layers of Qwen3's, a norm for each layer of the model that it reads,
and an embedding of its own; and two of EAGLE's first form, whose names this library spells in its own way, without
and with the norms that it adds ("layernorms"): of the embedding, before the attention of the layer, and before the
output matrix. Writes tests/golden/drafts/speculators_*; tests/golden/README.md tells what is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.qwen3.modeling_qwen3 import (Qwen3Attention, Qwen3DecoderLayer, Qwen3MLP,
                                                      Qwen3RMSNorm, Qwen3RotaryEmbedding)

import eagle1
from eagle3 import DRAFTS, LAYERS, PRUNED, ROOT, SEED, randomize_head, run_model
from model_cases import BASE, rope
from models import TOKENS, write_json

MASK = 2


class FirstLayer(torch.nn.Module):
    def __init__(self, config, norm_before_residual):
        super().__init__()
        norm = lambda: Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm = norm(), norm(), norm()
        self.self_attn = Qwen3Attention(config, 0)
        for name, heads in [("q_proj", config.num_attention_heads),
                            ("k_proj", config.num_key_value_heads),
                            ("v_proj", config.num_key_value_heads)]:
            wide = torch.nn.Linear(2 * config.hidden_size, heads * config.head_dim, bias=False)
            setattr(self.self_attn, name, wide)
        self.mlp = Qwen3MLP(config)
        self.norm_before_residual = norm_before_residual

    def forward(self, embedded, states, mask, angles):
        normed = self.hidden_norm(states)
        joined = torch.cat([self.input_layernorm(embedded), normed], dim=-1)
        x = normed if self.norm_before_residual else states
        x = x + self.self_attn(joined, attention_mask=mask, position_embeddings=angles)[0]
        return x + self.mlp(self.post_attention_layernorm(x))


class Head(torch.nn.Module):
    def __init__(self, config, width, parallel, norm_before_residual, norm_before_fc, fc_norm,
                 norm_output):
        """`width`: of the model's hidden states."""
        super().__init__()
        self.fc = torch.nn.Linear(len(LAYERS) * width, config.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([FirstLayer(config, norm_before_residual)])
        for index in range(1, config.num_hidden_layers):
            self.layers.append(Qwen3DecoderLayer(config, index))
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        if parallel:
            self.mask_hidden = torch.nn.Parameter(torch.zeros(1, 1, len(LAYERS) * width))
        norm = lambda size: Qwen3RMSNorm(size, eps=config.rms_norm_eps)
        if norm_before_fc:
            self.input_norm = norm(len(LAYERS) * width)
        if fc_norm:
            self.fc_norm = torch.nn.ModuleList([norm(width) for _ in LAYERS])
        self.norm_output = norm_output
        self.angles = [Qwen3RotaryEmbedding(config)]  # none of its parameters

    def join(self, hidden):
        if hasattr(self, "input_norm"):
            hidden = self.input_norm(hidden)
        if hasattr(self, "fc_norm"):
            parts = hidden.chunk(len(LAYERS), dim=-1)
            hidden = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts)], dim=-1)
        return self.fc(hidden)

    def forward(self, embedded, states):
        """Log-probs, and what it gives; `states` in the head's width."""
        length = states.shape[1]
        mask = torch.full((length, length), float("-inf"), dtype=states.dtype).triu(1)[None, None]
        angles = self.angles[0](states, torch.arange(length)[None])
        x = self.layers[0](embedded, states, mask, angles)
        for layer in self.layers[1:]:
            x = layer(x, attention_mask=mask, position_embeddings=angles)
            x = x[0] if isinstance(x, tuple) else x
        normed = self.norm(x)
        return torch.log_softmax(self.lm_head(normed), dim=-1), normed if self.norm_output else x


def drafts_of(model, head, embedding, kept, ids):
    """Log-probs along the prompt, then of the drafts behind it; the token drawn; and the drafts."""
    expected, hidden = run_model(model, ids)
    drawn = expected[:, -1:].argmax(-1)
    joined, states, rows, drafts = torch.cat([ids[:, 1:], drawn], dim=1), head.join(hidden), [], []
    if hasattr(head, "mask_hidden"):
        count = (1, DRAFTS - 1)
        joined = torch.cat([joined, torch.full(count, MASK)], dim=1)
        states = torch.cat([states, head.join(head.mask_hidden.expand(*count, -1))], dim=1)
        given = head(embedding(joined), states)[0][0]
        return given, drawn.item(), kept[given[-DRAFTS:].argmax(-1)].tolist()
    for number in range(DRAFTS):
        given, out = head(embedding(joined), states)
        rows.append(given[0] if number == 0 else given[0, -1:])
        drafts.append(kept[given[0, -1].argmax()].item())
        joined = torch.cat([joined, torch.tensor([[drafts[-1]]])], dim=1)
        states = torch.cat([states, out[:, -1:]], dim=1)
    return torch.cat(rows), drawn.item(), drafts


def exactly(run, modules):
    """What `run` gives, which must be near what it gives in F64."""
    with torch.no_grad():
        rows, drawn, drafts = run()
        for module in modules:
            module.double()
        exact = (run()[0] - rows).abs().max().item()
        for module in modules:
            module.float()
    assert exact < 3e-5, exact
    return rows, drawn, drafts


def round_weights(*modules):
    for module in modules:
        for parameter in module.parameters():
            parameter.data.copy_(parameter.data.bfloat16().float())


def write_folder(kind, of_head, config, tensors, given, ids, suffix=""):
    folder = os.path.join(ROOT, "speculators_" + kind + suffix)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    rows, drawn, drafts = given
    tensors = {name: tensor.bfloat16().contiguous() if tensor.is_floating_point() else tensor
               for name, tensor in tensors.items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(folder, "config.json", {
        **of_head, "speculators_model_type": kind, "speculators_version": "0.5.0",
        "speculators_config": {
            "algorithm": kind, "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": DRAFTS}],
            "verifier": {"architectures": ["LlamaForCausalLM"], "name_or_path": "target"}},
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "transformer_layer_config": {key: value for key, value in config.to_diff_dict().items()
                                     if key not in ("transformers_version", "draft_vocab_size")}})
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "drawn": drawn, "drafts": drafts,
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}"})


def write_layers_head(kind, model, config, kept, ids, seed, norms, **of_head):
    parallel = kind == "peagle"
    norms = {key: key in norms for key in ("norm_before_residual", "norm_before_fc", "fc_norm",
                                           "norm_output")}
    head = Head(config, model.config.hidden_size, parallel, **norms)
    randomize_head(head, seed)
    embedding = model.model.embed_tokens
    if parallel:
        embedding = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        generator = torch.Generator().manual_seed(seed + 100)
        embedding.weight.data.copy_(torch.randn(embedding.weight.shape, generator=generator))
    round_weights(head, *([embedding] if parallel else []))
    given = exactly(lambda: drafts_of(model, head, embedding, kept, ids),
                    (head, model, embedding, head.angles[0]))
    tensors = dict(head.state_dict())
    if parallel:
        tensors["embed_tokens.weight"] = embedding.weight.data
    tensors["d2t"] = kept - torch.arange(len(kept))
    tensors["t2d"] = torch.isin(torch.arange(config.vocab_size), kept)
    write_folder(kind, {
        "draft_vocab_size": len(kept), "target_hidden_size": None, "embed_requires_grad": parallel,
        # Counted by what the layers are given.
        "eagle_aux_hidden_state_layer_ids": [layer + 1 for layer in LAYERS], **norms,
        **of_head},
        config, tensors, given, ids)


def write_first_head(model, config, ids, seed, norms=()):
    head = eagle1.Head(config, fc_bias=not norms, attention_bias=False, norms=norms)
    randomize_head(head, seed)
    if not norms:
        head.fc.weight.data.mul_(0.25)  # no norm stands before the logits, which would be very large
    round_weights(head)
    given = exactly(lambda: eagle1.drafts_of(model, head, model.model.embed_tokens, ids),
                    (head, model, head.angles[0]))
    spelled = [("fc.", "fusion_fc."), ("layers.0.", "transformer."),
               ("embed_layernorm", "embedding_layernorm"),
               ("lm_head_layernorm", "pre_lm_head_layernorm")]
    tensors = {}
    for name, tensor in head.state_dict().items():
        for ours, theirs in spelled:
            name = theirs + name.removeprefix(ours) if name.startswith(ours) else name
        tensors[name] = tensor
    write_folder("eagle", {"architectures": ["EagleSpeculator"], "fusion_bias": not norms,
                           "layernorms": bool(norms),
                           "transformer_layer_architecture": "LlamaDecoderLayer"},
                 config, tensors, given, ids, "_norms" if norms else "")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that every run adds in the same order
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.LlamaForCausalLM.from_pretrained(
        os.path.join(ROOT, "target"), dtype=torch.float32, attn_implementation="eager").eval()
    for parameter in model.parameters():
        parameter.requires_grad = False
    vocab = model.config.vocab_size
    ids = torch.randint(3, vocab, (1, TOKENS), generator=torch.Generator().manual_seed(SEED + 5000))
    every = torch.arange(vocab)

    def head_config(of, **options):
        made = of(**{**BASE, "rope_parameters": rope("default"), "head_dim": 16, **options})
        made._attn_implementation = "eager"
        return made

    kept = every[every % PRUNED != 3]
    one = head_config(transformers.Qwen3Config, num_hidden_layers=1, draft_vocab_size=len(kept))
    write_layers_head("eagle3", model, one, kept, ids, SEED + 7,
                      ("norm_before_residual", "norm_before_fc", "norm_output"),
                      architectures=["Eagle3DraftModel"])
    two = head_config(transformers.Qwen3Config, num_hidden_layers=2, draft_vocab_size=vocab)
    write_layers_head("peagle", model, two, every, ids, SEED + 8, ("fc_norm",),
                      architectures=["PEagleDraftModel"], mask_token_id=MASK)
    llama = head_config(transformers.LlamaConfig, num_hidden_layers=1)
    write_first_head(model, llama, ids, SEED + 9)
    write_first_head(model, llama, ids, SEED + 11, norms=("embed", "layer", "lm_head"))


if __name__ == "__main__":
    main()
