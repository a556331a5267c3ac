#!/usr/bin/env python3
"""Both comparisons of this folder: check.py ENCODE_LINES [OPTIONS OF compare.py].

The vocabularies come from the folder that SLUICE_FIXTURES names. Needs `tokenizers`.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MAKE_JSON = os.path.join(HERE, "../../tools/golden/tokenizers/make_tokenizer_json.py")


def run(script, *arguments):
    return subprocess.run([sys.executable, os.path.join(HERE, script), *arguments]).returncode


def main():
    program, options = sys.argv[1], sys.argv[2:]
    models = os.environ.get("SLUICE_FIXTURES", "")
    if not os.path.exists(os.path.join(models, "ggml-vocab-gpt-2.gguf")):
        sys.exit("SLUICE_FIXTURES must name a folder with llama.cpp's ggml-vocab-*.gguf; "
                 "scripts/test gets it")
    failed = run("vectors.py", program, models)
    with tempfile.TemporaryDirectory() as folder:
        failed |= run(MAKE_JSON, models, folder)
        failed |= run("compare.py", program, models, folder, "--decode", *options)
    sys.exit(failed)


main()
