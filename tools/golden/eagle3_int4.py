#!/usr/bin/env python3
"""The learned head of eagle3.py with its matrices in 4 bits, as tools/train_draft saves one.

Usage: python tools/golden/eagle3_int4.py      (needs tools/golden/requirements.txt)

Reads tests/golden/drafts/target and eagle3, and writes eagle3_int4 beside them. The log-probs are those
of the weights that the 4 bits stand for.
"""
import json
import os
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

from eagle3 import ROOT, Head, drafts_of
from models import write_json

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../train_draft"))
from packing import as_if_packed, packed, quantization_config  # noqa: E402  (found by the line above)


def read_json(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return json.load(file)


def main():
    torch.set_num_threads(1)  # so that every run adds in the same order
    model = transformers.LlamaForCausalLM.from_pretrained(os.path.join(ROOT, "target"), dtype=torch.float32,
                                                          attn_implementation="eager").eval()
    described, told = read_json("eagle3", "config.json"), read_json("eagle3", "expected.json")
    config = transformers.LlamaConfig(**described)
    config._attn_implementation = "eager"
    tensors = load_file(os.path.join(ROOT, "eagle3", "model.safetensors"))
    stored, values = {}, {}
    for name, tensor in tensors.items():
        stem = name.removesuffix(".weight")
        matrix = name.endswith(".weight") and tensor.dim() == 2
        stored.update(packed(stem, tensor) if matrix else {name: tensor})
        values[name] = as_if_packed(tensor) if matrix else tensor
    kept = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
    head = Head(config, model.config.hidden_size)
    head.load_state_dict({name: values[name].float() for name in head.state_dict()})
    with torch.no_grad():
        rows, drawn, drafts = drafts_of(model, head, model.model.embed_tokens, kept, torch.tensor([told["prompt"]]))
    folder = os.path.join(ROOT, "eagle3_int4")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(folder, "config.json", {**described, "quantization_config": quantization_config()})
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": told["prompt"], "drawn": drawn, "drafts": drafts,
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}"})


if __name__ == "__main__":
    main()
