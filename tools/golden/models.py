#!/usr/bin/env python3
"""Tiny random checkpoints of every architecture, with the log-probs that transformers gives for them.

Usage: python tools/golden/models.py [NAME...]      (needs tools/golden/requirements.txt)

Writes tests/golden/models/<name>/; tests/golden/README.md tells what is in there. Weights are drawn
from a fixed seed and rounded to bfloat16, so the files are the same at every run and compress well.
"""
import json
import os
import shutil
import sys

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

from fp8 import quantize
from model_cases import BASE, CASES
from tiny_tokenizer import write_tokenizer
from transformers4 import config_of_transformers4

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden/models")
TOKENS = 48       # of the prompt; longer than every window and original context below
TOLERANCE = 3e-5  # between one prefill and step-by-step decode, both in float32


def lower_first(scores, k, dim=-1, largest=True, sorted=True):
    """Tensor.topk, which leaves open which of equal numbers it takes, as the indexers of the models here
    have it: the first. Products below zero count as zero, so equal scores are common."""
    assert largest
    values, indices = torch.sort(scores, dim=dim, descending=True, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), indices.narrow(dim, 0, k)))


torch.Tensor.topk = lower_first


# Buffers of MiniMax that follow from the config.
COMPUTED = ("slope_rate", "_decay")
EMBEDDINGS = ("embed_tokens", "embed_in", "word_embeddings.", "wte", "backbone.embeddings")


def randomize(model, seed):
    """Weights that make every part of the model matter: sharp attention, norms and biases at work."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if ("norm" in name or ".ln_" in name) and not name.endswith("bias"):
            kind = type(model).__name__
            adds_one = kind.startswith(("Gemma2", "Gemma3F")) or kind == "NemotronForCausalLM" or (("Qwen3Next" in kind or "Qwen3_5" in kind) and
                                                                "linear_attn" not in name)
            value = (0.0 if adds_one else 1.0) + 0.25 * noise
        elif name.endswith("router.scale"):
            value = parameter.shape[0] ** 0.5 * (1.0 + 0.25 * noise)
        elif name.endswith("per_expert_scale"):
            value = 1.0 + 0.25 * noise
        elif name.endswith("correct_output_scale"):
            value = 0.6 + 0.25 * noise
        elif name.endswith("modality_router.weight"):
            value = 0.8 * noise * parameter.shape[-1] ** 0.5  # what it reads is divided by the width
        elif name.endswith("_coefs.weight"):
            value = 0.2 * noise
        elif name.endswith("A_log"):
            value = noise - 3.0  # states that last for dozens of tokens, and some that don't
        elif name.endswith("gate_up_proj_bias"):
            value = 4.0 * noise  # some beyond the clamp
        elif name.endswith("sinks"):
            value = 2.0 * noise
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif any(part in name for part in EMBEDDINGS):
            value = (0.2 if model.config.tie_word_embeddings else 1.0) * noise
        else:
            value = 1.3 * noise / parameter.shape[-1] ** 0.5
        parameter.data.copy_(value.bfloat16().float())
    for name, buffer in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            buffer.data.copy_((0.3 * torch.randn(buffer.shape, generator=generator)).bfloat16())
        elif name.endswith("layer_scalar"):
            buffer.data.copy_((0.4 + torch.rand(buffer.shape, generator=generator)).bfloat16())


def log_probs(model, ids, **more):
    return torch.log_softmax(model(input_ids=ids, **more).logits.float(), dim=-1)[0]


def check_decode(model, ids, expected, first):
    """Largest difference between `expected` and a prefill of `first` tokens with single steps after."""
    cache = transformers.DynamicCache(config=model.config)
    if model.config.model_type == "minimax":
        cache = transformers.models.minimax.modeling_minimax.MiniMaxCache()
    alone = model.config.model_type in ("mamba2", "mamba", "falcon_mamba")
    name = "cache_params" if alone else "past_key_values"
    more = {name: cache, "use_cache": True}
    rows = [log_probs(model, ids[:, :first], **more)]
    for at in range(first, ids.shape[1]):
        rows.append(log_probs(model, ids[:, at:at + 1], **more))
    return (torch.cat(rows) - expected).abs().max().item()


def check_float64(model, ids, expected):
    """How far float32 is from the exact result: the fixture must leave room below 1e-4."""
    model.double()
    difference = (log_probs(model, ids) - expected).abs().max().item()
    model.float()
    return difference


def check_old_config(model, old, ids, expected):
    """transformers reads its own older configs: the hand-made one must mean the same."""
    again = type(model)(type(model.config)(**old)).float().eval()
    again.config._experts_implementation = "eager"
    again.config._attn_implementation = model.config._attn_implementation
    again.load_state_dict(model.state_dict())
    difference = (log_probs(again, ids) - expected).abs().max().item()
    assert difference < TOLERANCE, f"the transformers 4 config gives another model: {difference}"


def store_weights(model, folder, dtype, shard):
    """The checkpoint as save_pretrained writes it; then the matrices in `dtype`, if not float32."""
    if dtype.startswith("float8"):
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "proj" in name:
                parameter.data.copy_(parameter.data.to(torch.float8_e4m3fn).float())
    config = {}
    quantized = quantize(dtype, model, config) if dtype[:3] in ("fp8", "ct_") else {}
    model.save_pretrained(folder, max_shard_size=shard)
    if dtype == "float32":
        return
    path = os.path.join(folder, "model.safetensors")
    stored = {name: tensor for name, tensor in load_file(path).items() if not name.endswith(COMPUTED)}
    for name, tensor in stored.items():
        if quantized:
            stored[name] = tensor.bfloat16()
        elif dtype != "float8_e4m3fn" or ("proj" in name and tensor.dim() == 2):
            stored[name] = tensor.to(getattr(torch, dtype))
    save_file({**stored, **quantized}, path, metadata={"format": "pt"})
    written = read_json(folder, "config.json")
    written["dtype"] = "bfloat16" if dtype.startswith("float8") else dtype
    write_json(folder, "config.json", {**written, **config})


def read_json(folder, name):
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def generate(name, seed):
    kind, options, fixture = CASES[name]
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    base = fixture.get("base", BASE)
    config = getattr(transformers, kind.removesuffix("LMHead") + "Config")(**{**base, **options})
    config._experts_implementation = "eager"
    config._attn_implementation = fixture.get("attention", "eager")
    model_class = kind.removesuffix("Text")
    if not kind.endswith("LMHead"):
        model_class += "ForCausalLM"
    else:
        model_class += "Model"
    model = getattr(transformers, model_class)(config).float().eval()
    randomize(model, seed)
    store_weights(model, folder, fixture.get("dtype", "float32"), fixture.get("shard", "2MB"))
    tokens = fixture.get("tokens", TOKENS)
    generator = torch.Generator().manual_seed(seed + 1000)
    ids = torch.randint(3, config.vocab_size, (1, tokens), generator=generator)
    ids[0, 0] = config.bos_token_id

    with torch.no_grad():
        expected = log_probs(model, ids)
        decode = None
        if fixture.get("decode", True):
            decode = check_decode(model, ids, expected, fixture.get("decode_from", 1))
            assert decode < TOLERANCE, f"{name}: decode differs from prefill by {decode}"
        exact = check_float64(model, ids, expected)
        assert exact < TOLERANCE, f"{name}: float32 is {exact} from float64"
    expected.numpy().astype("<f4").tofile(os.path.join(folder, "logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(),
        "shape": list(expected.shape),
        "decode_from": fixture.get("decode_from", 1) if fixture.get("decode", True) else None,
        "rope_length": tokens,
        "float64_difference": float(f"{exact:.1e}"),
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}",
    })
    old = config_of_transformers4(read_json(folder, "config.json"))
    write_json(folder, "config.v4.json", old)
    with torch.no_grad():
        check_old_config(model, old, ids, expected)
    write_tokenizer(folder, config.vocab_size, fixture.get("full_bytes", False))
    top = expected.max(dim=-1).values.exp()
    size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
    print(f"{name:20} {size / 1024:6.0f} KiB  decode {decode or 0:.1e}  float64 {exact:.1e}  "
          f"top-1 probability {top.min():.3f} to {top.max():.3f}", flush=True)


def main():
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    numpy.seterr(all="raise")
    for seed, name in enumerate(CASES):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            generate(name, seed)


if __name__ == "__main__":
    main()
