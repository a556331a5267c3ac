"""What a GGUF file of Llama's form holds, read with numpy alone: metadata, and matrices in F32.

A file may have been cut into parts (NAME.00, NAME.01, ...) to be carried; they are read as one.
Format: ggml's docs/gguf.md.
"""
import glob
import os
import struct

import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30
BLOCK = 32  # columns of a block of the quantized types here
BLOCK_BYTES = {Q4_0: 18, Q4_1: 20, Q8_0: 34}


def read_bytes(path):
    """Of the file `path`, or of its parts in order."""
    paths = [path] if os.path.exists(path) else sorted(glob.glob(path + ".[0-9][0-9]"))
    if not paths:
        raise SystemExit(f"there is neither {path} nor {path}.00; run `prepare` first")
    joined = bytearray()
    for part in paths:
        with open(part, "rb") as file:
            joined += file.read()
    return memoryview(joined)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, code):
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize(code)
        return value

    def text(self):
        size = self.scalar("Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at]).decode("utf-8", "replace")

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner, count = self.scalar("I"), self.scalar("Q")
            return [self.value(inner) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def halves(blocks):
    return np.ascontiguousarray(blocks).view(np.float16).astype(np.float32)


def nibbles(codes):
    """The first half of a block's columns is in the low four bits, the other in the high ones."""
    return np.concatenate([codes & 15, codes >> 4], axis=1).astype(np.float32)


def dequantize(raw, kind, shape):
    """`raw` as uint8; a matrix or vector of `shape` in F32."""
    if kind == F32:
        return raw.view(np.float32).reshape(shape)
    if kind == F16:
        return raw.view(np.float16).astype(np.float32).reshape(shape)
    if kind == BF16:
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    if kind not in BLOCK_BYTES:
        raise SystemExit(f"the GGUF file has a tensor of type {kind}; F32, F16, BF16, Q4_0, Q4_1 and "
                         "Q8_0 are read, so quantize the model to one of these")
    blocks = raw.reshape(-1, BLOCK_BYTES[kind])
    scale = halves(blocks[:, :2])
    if kind == Q8_0:
        values = scale * np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32)
    elif kind == Q4_0:
        values = scale * (nibbles(blocks[:, 2:]) - 8.0)
    else:
        values = scale * nibbles(blocks[:, 4:]) + halves(blocks[:, 2:4])
    return values.reshape(shape)


def size_of(kind, shape):
    count = int(np.prod(shape))
    if kind in BLOCK_BYTES:
        return count // BLOCK * BLOCK_BYTES[kind]
    return count * (4 if kind == F32 else 2)


class GgufFile:
    def __init__(self, path):
        self.data = read_bytes(path)
        reader = Reader(self.data)
        if bytes(self.data[:4]) != b"GGUF":
            raise SystemExit(f"{path} is no GGUF file")
        reader.at = 8
        tensors, pairs = reader.scalar("Q"), reader.scalar("Q")
        self.metadata = {}
        for _ in range(pairs):
            key, kind = reader.text(), reader.scalar("I")
            self.metadata[key] = reader.value(kind)
        self.tensors = {}
        for _ in range(tensors):
            name, dimensions = reader.text(), reader.scalar("I")
            shape = [reader.scalar("Q") for _ in range(dimensions)][::-1]
            self.tensors[name] = (reader.scalar("I"), shape, reader.scalar("Q"))
        alignment = self.metadata.get("general.alignment", 32)
        self.start = -(-reader.at // alignment) * alignment

    def tensor(self, name):
        """In F32, [rows, columns] as PyTorch has it."""
        kind, shape, offset = self.tensors[name]
        kind_bytes = size_of(kind, shape)
        raw = np.frombuffer(self.data, np.uint8, kind_bytes, self.start + offset)
        return dequantize(raw, kind, shape)
