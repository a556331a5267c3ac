#!/usr/bin/env python3
"""Writes src/ops/formats/codebook_tables.cc: the vectors that the IQ formats of GGUF choose from.

They are constants of the formats, taken from the `gguf` package (0.19.0; `gguf.quants` holds them).
An entry of a table is one vector: its values' places in the format's short list of levels, the
first value in the lowest bits, two bits for each of eight values or three for each of four.
    python3 tools/codebook_tables.py && tools/format
"""

import pathlib

import gguf.quants
import numpy

# Format, the C++ name of its table, and bits of a place.
TABLES = [("IQ2_XXS", "kIq2XxsVectors", 2), ("IQ2_XS", "kIq2XsVectors", 2),
          ("IQ2_S", "kIq2SVectors", 2), ("IQ1_S", "kIq1Vectors", 2),
          ("IQ3_XXS", "kIq3XxsVectors", 3), ("IQ3_S", "kIq3SVectors", 3)]

HEAD = """// Written by tools/codebook_tables.py; change that instead.
#include "ops/formats/codebook_tables.h"

namespace sluice::ops {
"""


def vectors(name, bits):
    kind = getattr(gguf.quants, name)
    kind.init_grid()
    grid = numpy.asarray(kind.grid).reshape(kind.grid_shape).astype(int)
    levels = {value: place for place, value in enumerate(kind.grid_map)}
    return [sum(levels[value] << bits * i for i, value in enumerate(row)) for row in grid]


def main():
    root = pathlib.Path(__file__).resolve().parents[1]
    text = HEAD
    for name, table, bits in TABLES:
        numbers = vectors(name, bits)
        text += f"\nconst uint16_t {table}[{len(numbers)}] = {{\n"
        for at in range(0, len(numbers), 12):
            text += "    " + ", ".join(f"0x{n:04x}" for n in numbers[at:at + 12]) + ",\n"
        text += "};\n"
    text += "\n}  // namespace sluice::ops\n"
    (root / "src/ops/formats/codebook_tables.cc").write_text(text)


if __name__ == "__main__":
    main()
