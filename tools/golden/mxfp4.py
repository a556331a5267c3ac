#!/usr/bin/env python3
"""A tiny gpt-oss checkpoint whose experts are in MXFP4, and the log-probs of their dequantized weights.

Usage: python tools/golden/mxfp4.py      (needs tools/golden/requirements.txt; models.py first)

The weights are those of the checkpoint `gpt_oss`, packed by the definition of the format: for each 32
columns the exponent that the largest of them needs, and codes of 4 bits (e2m1) to the nearest value.
Writes tests/golden/int4/mxfp4/; tests/golden/README.md tells what is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import load_file, save_file

from models import ROOT as MODELS, log_probs, read_json, write_json

SOURCE = os.path.join(MODELS, "gpt_oss")
FOLDER = os.path.join(MODELS, "../int4/mxfp4")
VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
BIAS = 127  # of an exponent


def quantize(weight):
    """weight [experts, columns, rows] as blocks and scales of [experts, rows, columns], and what they mean."""
    rows = weight.transpose(1, 2)
    groups = rows.reshape(*rows.shape[:2], -1, 32)
    exponents = groups.abs().amax(-1).log2().floor() - 2  # the largest code is 6 = 1.5 * 2^2
    scaled = groups / exponents.exp2()[..., None]
    codes = (scaled.abs()[..., None] - VALUES).abs().argmin(-1)
    values = VALUES[codes] * scaled.sign() * exponents.exp2()[..., None]
    codes = codes + 8 * (scaled < 0)
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    return blocks, (exponents + BIAS).to(torch.uint8), values.reshape(rows.shape).transpose(1, 2)


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        SOURCE, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    stored = load_file(os.path.join(SOURCE, "model.safetensors"))
    for key, parameter in model.named_parameters():
        if not key.endswith(("gate_up_proj", "down_proj")):
            continue
        blocks, scales, values = quantize(parameter.data)
        del stored[key]
        stored[key + "_blocks"], stored[key + "_scales"] = blocks.contiguous(), scales.contiguous()
        parameter.data.copy_(values)
    save_file(stored, os.path.join(FOLDER, "model.safetensors"), metadata={"format": "pt"})
    write_json(FOLDER, "config.json", {
        **read_json(SOURCE, "config.json"),
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}})
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(SOURCE, file), FOLDER)
    expected = read_json(SOURCE, "expected.json")
    with torch.no_grad():
        result = log_probs(model, torch.tensor([expected["prompt"]]))
    result.numpy().astype("<f4").tofile(os.path.join(FOLDER, "logprobs.bin"))
    write_json(FOLDER, "expected.json", {key: expected[key] for key in ("prompt", "rope_length")})


if __name__ == "__main__":
    main()
