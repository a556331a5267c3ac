#!/usr/bin/env python3
"""The log-probs of the golden checkpoints in double precision throughout.

Usage: python tools/golden/exact.py [NAME...]      (needs tools/golden/requirements.txt)

transformers computes norms, softmax and rotations in float32 whatever the model's type is; here what
it calls float32 is float64. Writes tests/golden/models/<name>/rest.bin; tests/golden/README.md tells
what it is.
"""
import glob
import json
import os
import re
import sys

import numpy
import torch
from safetensors.torch import load_file

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden/models")
LARGEST = 1e-4  # what float32 may be off by
FLOAT32 = torch.float32
# What transformers holds under another name than the checkpoint has.
RENAMED = {"block_sparse_moe.gate": "mlp.gate",
           "block_sparse_moe.e_score": "mlp.e_score",
           "embed_out.": "lm_head.",
           "moe_statics.e_score": "gate.moe_statics.e_score",
           "block_sparse_moe.router.layer": "block_sparse_moe.router",
           "block_sparse_moe.input_linear.weight": "block_sparse_moe.experts.gate_up_proj",
           "block_sparse_moe.output_linear.weight": "block_sparse_moe.experts.down_proj"}

torch.set_default_dtype(torch.float64)
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
import llama_forms  # noqa: E402
from fp8 import dequantized  # noqa: E402
from models import COMPUTED  # noqa: E402
import transformers  # noqa: E402  it keeps types in tables: float32 has to be float64 before


def load_weights(folder):
    weights = {}
    torch.float32 = FLOAT32  # that of the files
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        weights.update({name: tensor.to(torch.float64) for name, tensor in load_file(path).items()})
    torch.float32 = torch.float64
    return stacked(dequantized(weights))


def stacked(weights):
    """The matrices of each expert put together as transformers holds them."""
    experts, rest = {}, {}
    for name, tensor in weights.items():
        found = re.fullmatch(
            r"(.*\.(?:mlp|block_sparse_moe|feed_forward|mixer))\.experts\.(\d+)\.(\w+)\.weight", name)
        if found:
            block = found[1].replace("block_sparse_moe", "mlp")
            experts.setdefault(block, {}).setdefault(int(found[2]), {})[found[3]] = tensor
        else:
            for stored, held in RENAMED.items():
                name = name.replace(stored, held)
            rest[name] = tensor
    for block, each in experts.items():
        ordered = [each[number] for number in sorted(each)]
        gate, up, down = (("w1", "w3", "w2") if "w1" in ordered[0]
                          else ("gate_proj", "up_proj", "down_proj"))
        if gate in ordered[0]:
            rest[f"{block}.experts.gate_up_proj"] = torch.stack(
                [torch.cat([one[gate], one[up]]) for one in ordered])
        else:
            rest[f"{block}.experts.up_proj"] = torch.stack([one[up] for one in ordered])
        rest[f"{block}.experts.down_proj"] = torch.stack([one[down] for one in ordered])
    return rest


def exact_of_form(folder, config, ids):
    """Of a model that transformers has under another name."""
    model = llama_forms.reference(config).double().eval()
    model.load_state_dict(llama_forms.from_published(load_weights(folder), config))
    options = llama_forms.options_of(config, ids.shape[1], torch.float64)
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=ids, **options).logits, dim=-1)[0]


def exact_log_probs(folder, ids):
    with open(os.path.join(folder, "config.json")) as file:
        stored = json.load(file)
    if os.path.basename(folder) in llama_forms.FORMS:
        return exact_of_form(folder, stored, ids)
    mimo = stored["model_type"] == "mimo"  # Qwen2, beside heads
    read = transformers.Qwen2Config if mimo else transformers.AutoConfig
    config = read.from_pretrained(folder)
    config._attn_implementation = config._experts_implementation = "eager"
    if stored["model_type"] == "falcon" and stored["alibi"]:
        config._attn_implementation = "sdpa"  # as in tools/golden/models.py
    config.dtype = torch.float64
    config.quantization_config = None  # the weights are what it makes of them
    model = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    for buffer in model.buffers():
        assert buffer.dtype != FLOAT32
    weights = load_weights(folder)
    if stored["model_type"] == "nemotron_h":
        weights = {name.replace("backbone.", "model."): tensor for name, tensor in weights.items()}
    lacking, unknown = model.load_state_dict(weights, strict=False)
    assert all(mimo and name.startswith("model.mtp_layers.") for name in unknown), unknown
    assert all((config.tie_word_embeddings and name == "lm_head.weight") or name.endswith(COMPUTED)
               for name in lacking), lacking
    model.tie_weights()
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=ids).logits, dim=-1)[0]


def main():
    transformers.logging.set_verbosity_error()
    for name in sys.argv[1:] or sorted(os.listdir(ROOT)):
        folder = os.path.join(ROOT, name)
        with open(os.path.join(folder, "expected.json")) as file:
            expected = json.load(file)
        exact = exact_log_probs(folder, torch.tensor([expected["prompt"]])).numpy()
        assert exact.dtype == numpy.float64
        stored = numpy.fromfile(os.path.join(folder, "logprobs.bin"), dtype="<f4")
        rest = exact - stored.reshape(exact.shape).astype(numpy.float64)
        assert abs(rest).max() < LARGEST, f"{name}: float32 is {abs(rest).max()} from float64"
        rest.astype("<f4").tofile(os.path.join(folder, "rest.bin"))
        print(f"{name:20} float32 is off by {(rest ** 2).mean() ** 0.5:.2e} (root of the mean square), "
              f"{abs(rest).max():.2e} at most", flush=True)


if __name__ == "__main__":
    main()
