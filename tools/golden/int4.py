#!/usr/bin/env python3
"""Tiny Llama checkpoints with matrices in 4 bits, and the log-probs of their dequantized weights.

Usage: python tools/golden/int4.py      (needs tools/golden/requirements.txt; models.py first)

AWQ and GPTQ are packed here by the definition of their formats; compressed-tensors by the package of
that name. The weights are those of the checkpoint `llama_mha`, rounded to codes by their smallest and
largest value in each group; lm_head and the embedding stay as they are, as published files have them.
Writes tests/golden/int4/; tests/golden/README.md tells what is in there.
"""
import os
import shutil

import numpy
import torch
import transformers
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import save_file

from models import ROOT as MODELS, log_probs, read_json, write_json

ROOT = os.path.join(MODELS, "../int4")
SOURCE = os.path.join(MODELS, "llama_mha")
GROUP = 32
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # which column each nibble of an int32 holds, lowest first


def codes_of(weight, symmetric):
    """Codes [rows, columns], scales and zero points [rows, groups], all as they are stored."""
    rows, columns = weight.shape
    groups = weight.reshape(rows, columns // GROUP, GROUP)
    if symmetric:
        scales = groups.abs().amax(-1) / 7.5
        zeros = torch.full_like(scales, 8)
    else:
        low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
        scales = (high - low) / 15
        zeros = (-low / scales).round().clamp(1, 15)  # GPTQ stores them less 1
    scales = scales.half().float()
    codes = (groups / scales[..., None] + zeros[..., None]).round().clamp(0, 15)
    return codes.reshape(rows, columns).int(), scales, zeros.int()


def pack(codes, order):
    """int32 of eight codes each along the last dimension; nibble i is code order[i]."""
    eight = codes.reshape(*codes.shape[:-1], -1, 8)[..., order].long()
    words = sum(eight[..., i] << 4 * i for i in range(8))
    return words.numpy().astype(numpy.uint32).view(numpy.int32)


def awq(codes, scales, zeros):
    return {"qweight": pack(codes.T.contiguous(), AWQ_ORDER),
            "qzeros": pack(zeros.T.contiguous(), AWQ_ORDER), "scales": scales.T.half()}


def gptq(codes, scales, zeros):
    plain = list(range(8))
    columns = codes.shape[1]
    return {"qweight": pack(codes, plain).T.copy(), "qzeros": pack(zeros.T - 1, plain),
            "scales": scales.T.half(), "g_idx": (torch.arange(columns) // GROUP).int()}


def compressed(codes, scales, zeros):
    stored = {"weight_packed": pack_to_int32((codes - 8).to(torch.int8), 4),
              "weight_scale": scales.bfloat16().half(), "weight_shape": torch.tensor(codes.shape)}
    if (zeros != 8).any():
        stored["weight_zero_point"] = pack_to_int32((zeros - 8).to(torch.int8), 4, packed_dim=0)
    return stored


def weights_config(symmetric):
    return {"config_groups": {"group_0": {
        "targets": ["Linear"], "input_activations": None, "output_activations": None,
        "weights": {"num_bits": 4, "type": "int", "symmetric": symmetric, "strategy": "group",
                    "group_size": GROUP, "dynamic": False}}},
        "format": "pack-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors"}


# name -> (how it is packed, whether zero points are all 8, quantization_config)
CASES = {
    "awq": (awq, False, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm",
                         "zero_point": True, "modules_to_not_convert": None}),
    "gptq": (gptq, False, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": False,
                           "desc_act": False, "checkpoint_format": "gptq"}),
    "gptq_sym": (gptq, True, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True,
                              "desc_act": False}),
    "ct_w4a16": (compressed, True, weights_config(True)),
    "ct_w4a16_asym": (compressed, False, weights_config(False)),
}


def as_tensor(value):
    return torch.from_numpy(value).contiguous() if isinstance(value, numpy.ndarray) else value.contiguous()


def generate(name):
    packed, symmetric, quantization = CASES[name]
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        SOURCE, dtype=torch.float32, attn_implementation="eager").eval()
    stored = {}
    for key, parameter in model.named_parameters():
        if "proj" not in key:
            stored[key] = parameter.data.half()
            continue
        codes, scales, zeros = codes_of(parameter.data, symmetric)
        if packed is compressed:
            scales = scales.bfloat16().float()
        for part, value in packed(codes, scales, zeros).items():
            stored[key.removesuffix("weight") + part] = as_tensor(value)
        values = (codes - zeros.repeat_interleave(GROUP, 1)) * scales.repeat_interleave(GROUP, 1)
        parameter.data.copy_(values)
    save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    config = read_json(SOURCE, "config.json")
    write_json(folder, "config.json", {**config, "quantization_config": quantization})
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(SOURCE, file), folder)
    expected = read_json(SOURCE, "expected.json")
    with torch.no_grad():
        result = log_probs(model, torch.tensor([expected["prompt"]]))
    result.numpy().astype("<f4").tofile(os.path.join(folder, "logprobs.bin"))
    write_json(folder, "expected.json", {key: expected[key] for key in ("prompt", "rope_length")})
    print(name, flush=True)


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in CASES:
        generate(name)


if __name__ == "__main__":
    main()
