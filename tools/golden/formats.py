"""Writes tests/golden/formats/<NAME>.bin: blocks with random bits and the F32 values that the
`gguf` package (the reference of the format's authors) gives for them.

A file is `n` blocks followed by `n * block` F32 values, little-endian, so that
n = size / (block_bytes + 4 * block). Needs the packages of requirements.txt (gguf, numpy).
    python3 tools/golden/formats.py
"""

import pathlib

import gguf
import numpy

BLOCKS = 4
NAMES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
         "Q6_K", "IQ4_NL", "MXFP4", "IQ4_XS", "IQ3_XXS", "IQ3_S", "IQ2_XXS", "IQ2_XS", "IQ2_S",
         "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "NVFP4"]
# Byte offsets of the F16 scales of a block, kept finite.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0],
          "IQ4_XS": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0],
          "IQ1_S": [0], "TQ1_0": [52], "TQ2_0": [64]}


def random_blocks(name, random):
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    count = BLOCKS if block > 1 else 64
    data = random.integers(0, 256, size=(count, size), dtype=numpy.uint8)
    for offset in SCALES.get(name, []):
        scales = random.normal(0, 0.05, size=count).astype(numpy.float16)
        scales[0] = numpy.float16(3e-6)  # subnormal
        data[:, offset:offset + 2] = scales.view(numpy.uint8).reshape(count, 2)
    if name == "F16":
        data[data[:, 1] & 0x7C == 0x7C, 1] &= 0x3F
    if name == "BF16":
        data[:, 1] &= 0xBF
    if name == "MXFP4":
        data[:, 0] = [0, 1, 127, 250]
    if name == "IQ1_M":  # its F16 scale is the upper halves of every second byte from the 49th on
        scales = random.normal(0, 0.05, size=count).astype(numpy.float16).view(numpy.uint16)
        for i in range(4):
            nibble = (scales >> 4 * i & 15).astype(numpy.uint8)
            data[:, 49 + 2 * i] = data[:, 49 + 2 * i] & 15 | nibble << 4
    if name == "NVFP4":  # scales have no sign; the one that stands for no number is 0
        data[:, :4] &= 127
        data[0, 0] = 127
    return kind, data


def main():
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "formats"
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(20260101)
    for name in NAMES:
        kind, data = random_blocks(name, random)
        values = gguf.quants.dequantize(data.reshape(1, -1), kind).astype("<f4")
        (folder / f"{name}.bin").write_bytes(data.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
