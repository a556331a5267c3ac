#!/usr/bin/env python3
"""Checks encode_lines against the vectors that stand beside llama.cpp's vocabulary files.

    vectors.py ENCODE_LINES MODELS    MODELS holds ggml-vocab-*.gguf with .inp and .out

Every vocabulary must load and every vector agree, but for those that llama.cpp gives where the
published tokenizer normalizes the text first (docs/tokenizers.md). Standard library only.
"""
import glob
import json
import os
import subprocess
import sys
import unicodedata

SEPARATOR = "\n__ggml_vocab_test__\n"
VOCABULARIES, WITH_VECTORS = 19, 15
# Published with NFC, which llama.cpp leaves out: (vocabulary, vectors whose text NFC changes).
NFC_DIFFERENCES = {"qwen35": 3}


def read_vectors(path):
    with open(path + ".inp", encoding="utf-8", newline="") as file:
        texts = file.read().split(SEPARATOR)
    with open(path + ".out", encoding="utf-8") as file:
        rows = [[int(word) for word in line.split()] for line in file.read().split("\n")]
    # The last text has a separator or a newline behind it.
    if texts[-1] == "":
        texts.pop()
    return list(zip(texts, rows[:len(texts)]))


def encode(program, vocabulary, texts, *options):
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([program, vocabulary, *options], input=lines.encode(),
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    program, models = sys.argv[1:3]
    paths = sorted(glob.glob(os.path.join(models, "ggml-vocab-*.gguf")))
    if len(paths) != VOCABULARIES:
        sys.exit(f"{models} has {len(paths)} vocabularies; expected {VOCABULARIES}")
    failures = checked = 0
    for path in paths:
        name = os.path.basename(path)[len("ggml-vocab-"):-len(".gguf")]
        vectors = read_vectors(path) if os.path.exists(path + ".inp") else []
        checked += bool(vectors)
        got = encode(program, path, [text for text, _ in vectors] or ["x"], "--no-special")
        wrong = [(text, ids, mine) for (text, ids), mine in zip(vectors, got) if ids != mine]
        if name in NFC_DIFFERENCES:
            changed = [row for row in wrong if unicodedata.normalize("NFC", row[0]) != row[0]]
            if len(changed) == NFC_DIFFERENCES[name]:
                wrong = [row for row in wrong if row not in changed]
        print(f"{name}: {len(vectors)} vectors, {len(wrong)} differ")
        for text, ids, mine in wrong[:5]:
            print(f"  {text!r}\n    expected {ids}\n    got      {mine}")
        failures += len(wrong)
    if checked != WITH_VECTORS:
        sys.exit(f"{models} has vectors for {checked} vocabularies; expected {WITH_VECTORS}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
