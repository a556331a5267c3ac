#!/usr/bin/env python3
"""Compares encode_lines with the Python package `tokenizers`, id by id.

    compare.py ENCODE_LINES MODELS JSONS [--megabytes N] [--only NAME] [--decode]

MODELS holds llama.cpp's ggml-vocab-*.gguf, JSONS what make_tokenizer_json.py built from them. Both
the GGUF file and the tokenizer.json are loaded. Exits with 1 if an id differs. Needs `tokenizers`.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

from tokenizers import Tokenizer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import corpus  # noqa: E402


def run(program, path, rows, *options):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([program, path, *options], input=text.encode(), stdout=subprocess.PIPE,
                          check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def report(name, path, texts, expected, got):
    wrong = [i for i in range(len(texts)) if expected[i] != got[i]]
    bad_ids = 0
    for i in wrong:
        same = sum(a == b for a, b in zip(expected[i], got[i]))
        bad_ids += max(len(expected[i]), len(got[i])) - same
    total = sum(map(len, expected))
    print(f"{name} ({os.path.basename(path)}): {total} ids, {bad_ids} differ in {len(wrong)} of "
          f"{len(texts)} texts", flush=True)
    for i in wrong[:4]:
        at = next((k for k, (a, b) in enumerate(zip(expected[i], got[i])) if a != b), 0)
        low = max(0, at - 3)
        print(f"  text {i}: {texts[i][:80]!r}\n    expected ...{expected[i][low:at + 6]}\n"
              f"    got      ...{got[i][low:at + 6]}")
    return len(wrong)


def compare(program, name, gguf, path, texts, decode):
    reference = Tokenizer.from_file(path)
    encoded = [item.ids for item in reference.encode_batch(texts, add_special_tokens=False)]
    failures = 0
    for model in filter(None, (gguf, path)):
        failures += report(name, model, texts, encoded, run(program, model, texts))
    reference.encode_special_tokens = True
    plain = [item.ids for item in reference.encode_batch(texts[:2000], add_special_tokens=False)]
    failures += report(name + " without special", path, texts[:2000], plain,
                       run(program, path, texts[:2000], "--no-special"))
    if decode:
        text = reference.decode_batch(encoded, skip_special_tokens=False)
        rows = [i for i in range(len(texts)) if "\ufffd" not in text[i]]
        got = run(program, path, [encoded[i] for i in rows], "--decode")
        wrong = [k for k, i in enumerate(rows) if got[k] != text[i]]
        print(f"{name}: {len(wrong)} of {len(rows)} decoded texts differ")
        for k in wrong[:3]:
            print(f"  expected {text[rows[k]][:100]!r}\n  got      {got[k][:100]!r}")
        failures += len(wrong)
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models")
    parser.add_argument("jsons")
    parser.add_argument("--megabytes", type=float, default=1.2)
    parser.add_argument("--only")
    parser.add_argument("--decode", action="store_true")
    options = parser.parse_args()
    texts = corpus.lines(options.megabytes * 1e6)
    print(f"{len(texts)} texts, {sum(len(text.encode()) for text in texts)} bytes")
    paths = sorted(glob.glob(os.path.join(options.jsons, "*.json")))
    if not paths:
        sys.exit(f"{options.jsons} has no tokenizer files")
    failures = 0
    for path in paths:
        name = os.path.basename(path)[:-len(".json")]
        gguf = os.path.join(options.models, f"ggml-vocab-{name}.gguf")
        if options.only in (None, name):
            failures += compare(options.program, name, gguf if os.path.exists(gguf) else None, path,
                                texts, options.decode)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
