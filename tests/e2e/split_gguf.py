#!/usr/bin/env python3
"""Splits a GGUF file into parts as llama-gguf-split does, by the writer of llama.cpp's own package.

Usage: split_gguf.py IN.gguf OUT.gguf TENSORS

Writes OUT-00001-of-0000N.gguf and so on with TENSORS tensors each. Needs the gguf package.
"""
import sys

import gguf


def main(source, out, tensors):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.get_field("general.architecture").contents(),
                             split_max_tensors=int(tensors))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        of = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=of)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
