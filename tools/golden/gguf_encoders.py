#!/usr/bin/env python3
"""GGUF files of models that embed or rank, from the checkpoints of tools/golden/encoders.py.

Usage: python tools/golden/gguf_encoders.py CONVERTER     (needs tools/golden/requirements.txt)

CONVERTER is a folder of llama.cpp as for tools/golden/gguf_models.py; names, metadata and the order of
rows are those that its converter writes, all in F32. Writes tests/golden/encoders_gguf/, whose
index.json says whose expected.json has the vectors of each file.
"""
import json
import os
import runpy
import shutil
import sys
import tempfile

if len(sys.argv) != 2:
    sys.exit(__doc__)
CONVERTER = sys.argv[1]
sys.path[:0] = [CONVERTER, os.path.join(CONVERTER, "gguf-py")]

import conversion
import gguf
from conversion import base, bert

HERE = os.path.dirname(os.path.abspath(__file__))
ENCODERS = os.path.join(HERE, "../../tests/golden/encoders")
ROOT = os.path.join(HERE, "../../tests/golden/encoders_gguf")
# name -> what its config.json has otherwise: the converter takes the lengths of the published models
# alone, and reads a NomicBERT's config.json by transformers, which looks for BERT's keys.
CASES = {
    "bert": {},
    "bert_cls": {},
    "nomic_bert": {"n_positions": 2048, "hidden_size": 64, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "intermediate_size": 96, "layer_norm_eps": 1e-12},
    "qwen3_reranker": {},
}


def vocabulary(self):
    """That of tokenizer.json as it stands, where the converter asks for one that it knows."""
    with open(os.path.join(self.dir_model, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    ids = tokenizer["model"]["vocab"]
    # Ids that no token has keep their place.
    pieces = [f"[unused{i}]" for i in range(max(ids.values()) + 1)]
    for piece, i in ids.items():
        pieces[i] = piece
    special = {token["content"] for token in tokenizer["added_tokens"]}
    return pieces, [gguf.TokenType.CONTROL if piece in special else gguf.TokenType.NORMAL
                    for piece in pieces], "default"


wordpiece_vocabulary = bert.BertModel.set_vocab


def set_vocab(self):
    """As older converters did it, which told the first token of a text, too."""
    wordpiece_vocabulary(self)
    pieces, _, _ = vocabulary(self)
    self.gguf_writer.add_uint32("tokenizer.ggml.cls_token_id", pieces.index("[CLS]"))


def main():
    base.TextModel.get_vocab_base = vocabulary
    found = conversion.get_model_class

    def model_class(*arguments, **options):
        result = found(*arguments, **options)
        result.set_vocab = set_vocab
        return result

    conversion.get_model_class = model_class
    shutil.rmtree(ROOT, ignore_errors=True)
    os.makedirs(ROOT)
    for name, changes in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            source = shutil.copytree(os.path.join(ENCODERS, name), os.path.join(folder, name))
            with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
            with open(os.path.join(source, "config.json"), "w", encoding="utf-8") as file:
                json.dump({**config, **changes}, file)
            sys.argv = ["convert_hf_to_gguf.py", source, "--outtype", "f32", "--outfile",
                        os.path.join(ROOT, name + "-F32.gguf")]
            runpy.run_path(os.path.join(CONVERTER, "convert_hf_to_gguf.py"), run_name="__main__")
    with open(os.path.join(ROOT, "index.json"), "w", encoding="utf-8") as file:
        json.dump({name + "-F32": name for name in CASES}, file, indent=1)
        file.write("\n")


main()
