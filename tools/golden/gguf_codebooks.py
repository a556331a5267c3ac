#!/usr/bin/env python3
"""A tiny Llama in GGUF whose matrices are in the IQ formats with codebooks, and its log-probs.

Usage: python tools/golden/gguf_codebooks.py CONVERTER     (as gguf_models.py, to whose index it adds
the file)

No package writes these formats without an importance matrix, so their blocks are of random bytes; only
the scale of a block is chosen, for weights of a common size. The `gguf` package says what the blocks
mean, and transformers runs on that. Tokenizer and metadata are those of `llama_tied`.
"""
import os

import gguf
import numpy
import torch
import transformers

from formats import SCALES
from gguf_models import ROOT, copy_field, set_weights, store
from models import ROOT as MODELS, read_json, write_json

NAME = "llama_codebooks-IQ"
SOURCE = "llama_tied"
SIZE = 0.06  # of weights, by root mean square
WIDTH = 256
CONFIG = dict(vocab_size=128, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=1,
              num_attention_heads=4, num_key_value_heads=1, head_dim=64, rms_norm_eps=1e-5,
              max_position_embeddings=256, tie_word_embeddings=False)
# Rows and format of each matrix; all have WIDTH columns.
MATRICES = {
    "token_embd": (128, "IQ4_XS"), "output": (128, "TQ1_0"), "blk.0.attn_q": (WIDTH, "IQ3_XXS"),
    "blk.0.attn_k": (64, "IQ3_S"), "blk.0.attn_v": (64, "IQ2_XXS"),
    "blk.0.attn_output": (WIDTH, "IQ2_XS"), "blk.0.ffn_gate": (WIDTH, "IQ2_S"),
    "blk.0.ffn_up": (WIDTH, "IQ1_S"), "blk.0.ffn_down": (WIDTH, "IQ1_M")}
# What the file says of the model beside what llama_tied has.
KEYS = {"llama.embedding_length": WIDTH, "llama.feed_forward_length": WIDTH, "llama.block_count": 1,
        "llama.attention.head_count": 4, "llama.attention.head_count_kv": 1,
        "llama.rope.dimension_count": 64, "llama.attention.key_length": 64,
        "llama.attention.value_length": 64, "llama.context_length": 256, "llama.vocab_size": 128}


def set_scales(data, name, scale):
    """Makes `scale` that of every block."""
    word = numpy.float16(scale).view(numpy.uint16)
    if name == "IQ1_M":  # the upper halves of four words
        for i in range(4):
            data[:, 49 + 2 * i] = data[:, 49 + 2 * i] & 15 | (word >> 4 * i & 15) << 4
        return
    at = SCALES[name][0]
    data[:, at:at + 2] = numpy.array([word]).view(numpy.uint8)


def matrix(name, rows, random):
    """Blocks of random bytes, and what they mean."""
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, size=(rows * WIDTH // block, size), dtype=numpy.uint8)
    if name == "TQ1_0":
        values = random.integers(-1, 2, size=(rows, WIDTH)).astype(numpy.float32)
        data = gguf.quants.quantize(values, kind).reshape(data.shape)
    set_scales(data, name, 1)
    values = gguf.quants.dequantize(data, kind)
    set_scales(data, name, SIZE / numpy.sqrt(numpy.mean(values**2)))
    data = data.reshape(rows, -1)
    return data, gguf.quants.dequantize(data, kind)


def main():
    transformers.logging.set_verbosity_error()
    random = numpy.random.default_rng(20261127)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**CONFIG, attn_implementation="eager")).eval()
    writer = gguf.GGUFWriter(os.path.join(ROOT, NAME + ".gguf"), "llama")
    for field in gguf.GGUFReader(os.path.join(ROOT, SOURCE + "-F32.gguf")).fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        if field.name in KEYS:
            writer.add_uint32(field.name, KEYS[field.name])
        else:
            copy_field(writer, field)
    weights = {}
    for name, (rows, kind) in MATRICES.items():
        data, weights[name + ".weight"] = matrix(kind, rows, random)
        writer.add_tensor(name + ".weight", data, raw_dtype=gguf.GGMLQuantizationType[kind])
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(name + ".weight", numpy.ones(WIDTH, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    set_weights(model, weights)
    index = read_json(ROOT, "index.json")
    prompt = read_json(os.path.join(MODELS, SOURCE), "expected.json")["prompt"]
    index[NAME] = {"prompt_of": SOURCE, "shape": store(model, prompt, NAME)}
    write_json(ROOT, "index.json", index)


if __name__ == "__main__":
    main()
