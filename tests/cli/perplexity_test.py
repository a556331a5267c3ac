"""The demo model's perplexity against llama.cpp's on the same text and file, and what a KV cache of
one byte a number adds to it."""

import glob
import html
import json
import re
import subprocess
import sys
import tempfile

import demo_model

# llama-perplexity -c 512 of llama.cpp as in llama-cpp-python 0.3.36, on what text() gives with
# debian-handbook 11.20220922 of Debian 12.
LLAMA_CPP = 20.9882
SHARE_ABOVE_MAX = 0.003
SHARE_BELOW_MAX = 0.01
# Measured: fp8 +0.40 %, int8 -0.08 %.
KV_SHARES_MAX = {"fp8": 0.008, "int8": 0.003}


def text():
    """50,000 characters of the English Debian handbook, without its markup."""
    pages = sorted(glob.glob("/usr/share/doc/debian-handbook/html/en-US/sect.*.html"))[:40]
    joined = ""
    for page in pages:
        with open(page, encoding="utf8") as file:
            body = re.sub(r"<(script|style).*?</\1>", "", file.read(), flags=re.S)
        body = re.sub(r"<[^>]+>", "", body)
        joined += re.sub(r"\n\s*\n+", "\n\n", html.unescape(body))
    return joined[20000:70000]


def perplexity(program, path, *flags):
    done = subprocess.run([program, "perplexity", demo_model.path(), path, "--json", *flags],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    program = sys.argv[1]
    with tempfile.NamedTemporaryFile("w", encoding="utf8") as file:
        file.write(text())
        file.flush()
        result = perplexity(program, file.name)
        codes = {kv: perplexity(program, file.name, "--kv-dtype", kv)["perplexity"]
                 for kv in KV_SHARES_MAX}
    share = result["perplexity"] / LLAMA_CPP - 1
    print(f"perplexity {result['perplexity']:.4f}, llama.cpp {LLAMA_CPP}: {share:+.3%}")
    if result["tokens"] != 5865:
        sys.exit(f"{result['tokens']} tokens were scored; llama.cpp scored 5865")
    if not -SHARE_BELOW_MAX <= share <= SHARE_ABOVE_MAX:
        sys.exit("that is too far from llama.cpp")
    for kv, figure in codes.items():
        share = figure / result["perplexity"] - 1
        print(f"KV in {kv}: {figure:.4f}, {share:+.3%}")
        if abs(share) > KV_SHARES_MAX[kv]:
            sys.exit("that is too far from F16")
        if share == 0:
            sys.exit("--kv-dtype changed nothing")


if __name__ == "__main__":
    main()
