#!/usr/bin/env python3
"""Tiny random checkpoints of models that transformers does not have, but that are Llamas under other names.

Usage: python tools/golden/llama_forms.py [NAME...]      (needs tools/golden/requirements.txt)

InternLM 2 and 3 and Baichuan are published with code of their own. What that code computes is what
transformers' Llama (for InternLM 3, Seed-OSS, whose biases are as free) computes with the weights in other
places: each KV head's rows of Q, K and V together, or Q, K and V stacked. Baichuan 13B has ALiBi instead of
RoPE: here a Llama whose rotation has the frequency 0, with what ALiBi adds to scores in its mask.
Writes tests/golden/models/<name>/ like tools/golden/models.py; tools/golden/exact.py reads them by this file.
"""
import os
import re
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file

SIZES = dict(vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=2, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0,
             tie_word_embeddings=False, hidden_act="silu")
# name -> what its config.json says beside SIZES.
FORMS = {
    "internlm2": dict(architectures=["InternLM2ForCausalLM"], model_type="internlm2", bias=False,
                      num_attention_heads=4, hidden_size=64, num_key_value_heads=2,
                      num_hidden_layers=1, max_position_embeddings=256, rope_theta=1000000.0),
    "internlm3": dict(architectures=["InternLM3ForCausalLM"], model_type="internlm3", bias=False,
                      qkv_bias=True, head_dim=32, num_key_value_heads=1, max_position_embeddings=256,
                      rope_theta=50000.0),
    "baichuan": dict(architectures=["BaiChuanForCausalLM"], model_type="baichuan",
                     max_position_embeddings=256),
    "baichuan_alibi": dict(architectures=["BaichuanForCausalLM"], model_type="baichuan", hidden_size=48,
                           num_attention_heads=3, model_max_length=256),
}
INTERNLM2 = {"model.embed_tokens": "model.tok_embeddings", "lm_head": "output", "self_attn.o_proj": "attention.wo",
             "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
             "mlp.down_proj": "feed_forward.w2", "post_attention_layernorm": "ffn_norm",
             "input_layernorm": "attention_norm"}
PARTS = ("q_proj", "k_proj", "v_proj")


def has_alibi(config):
    return config["model_type"] == "baichuan" and "max_position_embeddings" not in config


def reference(config):
    """The model of transformers that computes the same, with random weights."""
    options = {key: config[key] for key in SIZES}
    options.update(num_key_value_heads=config.get("num_key_value_heads", config["num_attention_heads"]),
                   head_dim=config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]),
                   max_position_embeddings=256,
                   rope_parameters={"rope_type": "default", "rope_theta": config.get("rope_theta", 10000.0)})
    kind = "Llama"
    if config["model_type"] == "internlm3":
        kind = "SeedOss"
        options.update(attention_bias=config["qkv_bias"], attention_out_bias=config["bias"],
                       mlp_bias=config["bias"])
    made = getattr(transformers, kind + "Config")(**options)
    made._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(made).eval()
    if has_alibi(config):
        model.model.rotary_emb.inv_freq.zero_()
    return model


def alibi_slopes(heads):
    """As the paper has them, for any number of heads."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (head + 1) / power) for head in range(power)]
    return slopes + [2.0 ** (-8.0 * (2 * head + 1) / (2 * power)) for head in range(heads - power)]


def options_of(config, length, dtype):
    """What the reference is called with, besides tokens."""
    if not has_alibi(config):
        return {}
    behind = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    slopes = torch.tensor(alibi_slopes(config["num_attention_heads"]), dtype=dtype)
    bias = -slopes[:, None, None] * behind.to(dtype)
    return {"attention_mask": bias.masked_fill(behind < 0, torch.finfo(dtype).min)[None]}


def heads_together(parts, config):
    """Rows of Q, K and V, of each KV head together."""
    kv_heads = config["num_key_value_heads"]
    return torch.cat([part.unflatten(0, (kv_heads, -1)) for part in parts], dim=1).flatten(0, 1)


def heads_apart(fused, config):
    kv_heads, shared = config["num_key_value_heads"], config["num_attention_heads"] // config["num_key_value_heads"]
    by_head = fused.unflatten(0, (kv_heads, -1))
    dim = by_head.shape[1] // (shared + 2)
    return [part.flatten(0, 1) for part in by_head.split([shared * dim, dim, dim], dim=1)]


def to_published(weights, config):
    published = {}
    for name, tensor in weights.items():
        if config["model_type"] == "internlm3" or not any(part in name for part in PARTS):
            renames = INTERNLM2 if config["model_type"] == "internlm2" else {}
            for ours, theirs in renames.items():
                name = name.replace(ours, theirs)
            published[name] = tensor
        elif "q_proj" in name:
            parts = [weights[name.replace("q_proj", part)] for part in PARTS]
            if config["model_type"] == "internlm2":
                published[name.replace("self_attn.q_proj", "attention.wqkv")] = heads_together(parts, config)
            else:
                published[name.replace("q_proj", "W_pack")] = torch.cat(parts)
    return published


def from_published(weights, config):
    """What to_published was given."""
    back = {}
    for name, tensor in weights.items():
        fused = re.sub(r"attention\.wqkv", "self_attn.W_pack", name)
        if "W_pack" in fused:
            parts = heads_apart(tensor, config) if fused != name else tensor.chunk(3)
            back.update({fused.replace("W_pack", part): rows for part, rows in zip(PARTS, parts)})
            continue
        if config["model_type"] == "internlm2":
            for ours, theirs in INTERNLM2.items():
                name = name.replace(theirs, ours)
        back[name] = tensor
    return back


def generate(name, seed):
    from model_cases import SMALL
    from models import ROOT, TOLERANCE, log_probs, randomize, write_json, write_tokenizer
    config = {**SIZES, **FORMS[name], "torch_dtype": SMALL["dtype"]}
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model = reference(config).float()
    randomize(model, seed)
    tokens = SMALL["tokens"]
    ids = torch.randint(3, config["vocab_size"], (1, tokens), generator=torch.Generator().manual_seed(seed + 1000))
    ids[0, 0] = config["bos_token_id"]
    with torch.no_grad():
        expected = log_probs(model, ids, **options_of(config, tokens, torch.float32))
        exact = log_probs(model.double(), ids, **options_of(config, tokens, torch.float64))
    difference = (exact - expected).abs().max().item()
    assert difference < TOLERANCE, f"{name}: float32 is {difference} from float64"
    weights = {key: value.bfloat16().contiguous() for key, value in model.state_dict().items()}
    save_file(to_published(weights, config), os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    expected.numpy().astype("<f4").tofile(os.path.join(folder, "logprobs.bin"))
    for file in ("config.json", "config.v4.json"):
        write_json(folder, file, config)
    write_json(folder, "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "shape": list(expected.shape), "decode_from": 1, "rope_length": tokens,
        "float64_difference": float(f"{difference:.1e}"),
        "generator": f"tools/golden/llama_forms.py, transformers {transformers.__version__}, "
                     f"torch {torch.__version__}"})
    write_tokenizer(folder, config["vocab_size"], False)
    print(f"{name:20} float64 {difference:.1e}", flush=True)


def main():
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    for seed, name in enumerate(FORMS, start=5000):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            generate(name, seed)


if __name__ == "__main__":
    main()
