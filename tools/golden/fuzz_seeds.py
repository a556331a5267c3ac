#!/usr/bin/env python3
"""Seeds for gguf_fuzz, hf_config_fuzz and quantized_matrix_fuzz, from the golden models.

Usage: python tools/golden/fuzz_seeds.py     (needs the standard library alone)

Writes tests/fuzz/gguf/, tests/fuzz/hf_config/ and tests/fuzz/quantized_matrix/; tests/fuzz/README.md tells what is in there.
"""
import os
import struct

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests")
GGUF = ["llama", "llama_yarn", "llama_llama3", "qwen2", "qwen3", "gemma2", "gemma3", "phi3_long",
        "smollm3", "lfm2", "mamba2", "granitemoehybrid", "falcon_h1",
        "falcon_mamba", "jamba", "gemma4", "nemotron_h"]
CONFIGS = ["llama", "llama_dynamic", "llama_f8", "llama_llama3", "llama_yarn_options", "mistral",
           "qwen2_window", "qwen3", "qwen3_fp8_block", "llama_ct_channel", "gemma2", "gemma3",
           "phi3_long", "smollm3", "granite", "exaone4", "phi2", "qwen2_moe", "glm4_moe", "lfm2",
           "mamba2", "granitemoehybrid", "bamba", "minimax", "falcon_h1", "nemotron_h",
           "mamba", "falcon_mamba", "jamba", "gemma4_e", "gemma3n"]
QUANTIZED = ["awq", "gptq_act", "ct_w4a16_asym", "ct_nvfp4", "ct_w8a8", "nvfp4"]
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
# As quantized_matrix_fuzz.cc reads bytes: 32 rows and 128 columns, no GGUF file, a size that no tensor
# has; then tensors: ending, format, rank, places of sizes, first byte and step.
HEAD = [31, 127, 1, 3]
MATRICES = {
    "awq": HEAD + [1, 5, 2, 1, 2, 7, 9, 2, 5, 2, 6, 2, 3, 5, 3, 1, 2, 6, 0, 60, 0],
    "gptq": HEAD + [1, 5, 2, 3, 0, 7, 9, 2, 5, 2, 6, 2, 3, 5, 3, 1, 2, 6, 0, 60, 0],
    "nvfp4": HEAD + [0, 6, 2, 0, 5, 7, 9, 6, 3, 2, 0, 4, 48, 0, 9, 2, 1, 8, 60, 0],
    "int8": HEAD + [0, 4, 2, 0, 1, 7, 9, 6, 2, 2, 0, 8, 60, 0],
}
STRING, ARRAY, MXFP4 = 8, 9, 39
# Vocabularies and merges are left out: mutations would mostly hit them.
KEY_BYTES_MAX = 1024
ALIGNMENT = 32


class Reader:
    """Walks through a GGUF file of version 3."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, format):
        value = struct.unpack_from("<" + format, self.data, self.at)[0]
        self.at += struct.calcsize("<" + format)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            kind, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(kind)
        else:
            self.at += SCALAR_BYTES[kind]


def small_gguf(data):
    """The keys that are not long, and an embedding of zeros, in a format with few bytes."""
    reader = Reader(data)
    reader.at = 8
    tensors, keys = reader.number("Q"), reader.number("Q")
    kept = []
    for _ in range(keys):
        begin = reader.at
        reader.string()
        reader.skip(reader.number("I"))
        if reader.at - begin <= KEY_BYTES_MAX:
            kept.append(data[begin:reader.at])
    for _ in range(tensors):
        name, dims = reader.string(), [reader.number("Q") for _ in range(reader.number("I"))]
        reader.at += 12  # type and offset
        if name == b"token_embd.weight":
            break
    out = data[:8] + struct.pack("<QQ", 1, len(kept)) + b"".join(kept)
    out += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(dims))
    out += struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", MXFP4, 0)
    out += bytes(-len(out) % ALIGNMENT)
    return out + bytes(dims[0] // 32 * 17 * dims[1])


def read(*path):
    with open(os.path.join(TESTS, *path), "rb") as file:
        return file.read()


def write(folder, name, data):
    os.makedirs(os.path.join(TESTS, "fuzz", folder), exist_ok=True)
    with open(os.path.join(TESTS, "fuzz", folder, name), "wb") as file:
        file.write(data)


for name in GGUF:
    kind = "BF16" if name in ("mamba2", "falcon_h1", "nemotron_h") else "F32"
    write("gguf", f"{name}.gguf", small_gguf(read("golden", "gguf", f"{name}-{kind}.gguf")))
for name in QUANTIZED:
    folder = ("golden", "int4", name)
    write("hf_config", f"int4_{name}", read(*folder, "config.json") + b"\0")
for name, seed in MATRICES.items():
    write("quantized_matrix", name, bytes(seed))
for name in CONFIGS:
    folder = ("golden", "models", name)
    write("hf_config", name, read(*folder, "config.json") + b"\0"
          + read(*folder, "generation_config.json"))
