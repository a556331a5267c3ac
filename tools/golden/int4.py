#!/usr/bin/env python3
"""Tiny Llama checkpoints with matrices in 4 bits or in integers of 8, and the log-probs of their
dequantized weights.

Usage: python tools/golden/int4.py [NAME ...]     (needs tools/golden/requirements.txt; models.py first)

AWQ, GPTQ and ModelOpt's NVFP4 are packed here by the definition of their formats; compressed-tensors
by the package of that name, its integers of 8 bits, which it leaves as they are, here. The weights are
those of the checkpoint `llama_mha`, rounded to codes by their smallest and largest value in each group;
lm_head and the embedding stay as they are, as published files have them, and beside NVFP4 the down
projections, whose 96 columns are no whole blocks of 64.
Writes tests/golden/int4/; tests/golden/README.md tells what is in there.
"""
import os
import shutil
import sys

import numpy
import torch
import transformers
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8
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


def gptq_act(codes, scales, zeros):
    """As `gptq`, with the columns of each group spread over the matrix, alike where matrices read the
    same activations."""
    columns = codes.shape[1]
    order = numpy.random.default_rng(columns).permutation(columns)
    stored = gptq(codes[:, numpy.argsort(order)], scales, zeros)
    return {**stored, "g_idx": torch.from_numpy(numpy.argsort(order) // GROUP).int()}


FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
FP4_GROUP = 16


def nvfp4_of(weight):
    """Values that floats of 4 bits can have, their scales in E4M3 for each 16, and that of all."""
    groups = weight.reshape(weight.shape[0], -1, FP4_GROUP)
    scale = (weight.abs().amax() / (6 * 448)).float()
    blocks = (groups.abs().amax(-1) / 6 / scale).clamp(2**-9, 448).to(torch.float8_e4m3fn)
    wanted = groups / (blocks.float() * scale)[..., None]
    nearest = (wanted.abs()[..., None] - FP4).abs().argmin(-1)
    values = FP4[nearest] * torch.where(wanted < 0, -1.0, 1.0)
    return values.reshape(weight.shape), blocks, scale


def nvfp4_config(stored):
    ignore = ["lm_head", "re:.*mlp.down_proj$"]
    if stored is modelopt:
        return {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignore}
    return {"config_groups": {"group_0": {
        "targets": ["Linear"], "output_activations": None,
        "input_activations": {"num_bits": 4, "type": "float", "strategy": "tensor_group",
                              "group_size": FP4_GROUP, "dynamic": "local", "symmetric": True},
        "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group",
                    "group_size": FP4_GROUP, "dynamic": False, "symmetric": True}}},
        "format": "nvfp4-pack-quantized", "ignore": ignore, "quant_method": "compressed-tensors"}


def modelopt(weight):
    """What is stored of a matrix under which endings, and its values."""
    values, blocks, scale = nvfp4_of(weight)
    codes = (values.abs()[..., None] - FP4).abs().argmin(-1) + 8 * values.signbit().long()
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8)
    scales = (blocks.float() * scale).repeat_interleave(FP4_GROUP, 1)
    return {"weight": packed, "weight_scale": blocks, "weight_scale_2": scale,
            "input_scale": torch.tensor(0.01)}, values * scales


def ct_nvfp4(weight):
    values, blocks, scale = nvfp4_of(weight)
    divisor = (1 / scale).reshape(1)
    scales = (blocks.float() / divisor).repeat_interleave(FP4_GROUP, 1)
    return {"weight_packed": pack_fp4_to_uint8(values), "weight_scale": blocks,
            "weight_global_scale": divisor, "input_global_scale": torch.ones(1)}, values * scales


def int8_of(weight, scale):
    codes = (weight / scale).round().clamp(-128, 127)
    return {"weight": codes.to(torch.int8), "weight_scale": scale}, codes * scale


def ct_w8a8(weight):
    return int8_of(weight, (weight.abs().amax(-1, keepdim=True) / 127).bfloat16().float())


def ct_w8a8_static(weight):
    stored, values = int8_of(weight, (weight.abs().amax() / 127).reshape(1))
    return {**stored, "input_scale": torch.tensor([0.05]),
            "input_zero_point": torch.zeros(1, dtype=torch.int8)}, values


def int8_config(strategy, dynamic):
    activations = {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": dynamic,
                   "strategy": "token" if dynamic else "tensor"}
    return {"config_groups": {"group_0": {
        "targets": ["Linear"], "input_activations": activations, "output_activations": None,
        "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": strategy,
                    "dynamic": False}}},
        "format": "int-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors"}


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
    "gptq_act": (gptq_act, False, {"quant_method": "gptq", "bits": 4, "group_size": GROUP,
                                   "sym": False, "desc_act": True, "checkpoint_format": "gptq"}),
    "ct_w4a16": (compressed, True, weights_config(True)),
    "ct_w4a16_asym": (compressed, False, weights_config(False)),
}
# The same for what is no integer of 4 bits: name -> (what is stored of a matrix and its values,
# quantization_config).
OTHERS = {
    "nvfp4": (modelopt, nvfp4_config(modelopt)),
    "ct_nvfp4": (ct_nvfp4, nvfp4_config(ct_nvfp4)),
    "ct_w8a8": (ct_w8a8, int8_config("channel", True)),
    "ct_w8a8_static": (ct_w8a8_static, int8_config("tensor", False)),
}


def as_tensor(value):
    return torch.from_numpy(value).contiguous() if isinstance(value, numpy.ndarray) else value.contiguous()


def quantized(name, weight):
    """What a checkpoint stores of a matrix, by its endings, and the values of that."""
    if name in OTHERS:
        return OTHERS[name][0](weight)
    packed, symmetric, _ = CASES[name]
    codes, scales, zeros = codes_of(weight, symmetric)
    if packed is compressed:
        scales = scales.bfloat16().float()
    values = (codes - zeros.repeat_interleave(GROUP, 1)) * scales.repeat_interleave(GROUP, 1)
    stored = packed(codes, scales, zeros)
    if packed is gptq_act:  # column c holds that of the sorted matrix which g_idx's order gives it
        columns = weight.shape[1]
        values = values[:, numpy.argsort(numpy.random.default_rng(columns).permutation(columns))]
    return stored, values


def generate(name):
    quantization = (CASES.get(name) or OTHERS[name])[-1]
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        SOURCE, dtype=torch.float32, attn_implementation="eager").eval()
    stored = {}
    for key, parameter in model.named_parameters():
        if "proj" not in key or ("nvfp4" in name and "down_proj" in key):
            stored[key] = parameter.data.half()
            continue
        parts, values = quantized(name, parameter.data)
        for part, value in parts.items():
            stored[key.removesuffix("weight") + part] = as_tensor(value)
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
    for name in sys.argv[1:] or [*CASES, *OTHERS]:
        generate(name)


if __name__ == "__main__":
    main()
