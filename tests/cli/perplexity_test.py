"""The demo model's perplexity against llama.cpp's on the same text and file."""

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


def main():
    program = sys.argv[1]
    with tempfile.NamedTemporaryFile("w", encoding="utf8") as file:
        file.write(text())
        file.flush()
        done = subprocess.run([program, "perplexity", demo_model.path(), file.name, "--json"],
                              capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    share = result["perplexity"] / LLAMA_CPP - 1
    print(f"perplexity {result['perplexity']:.4f}, llama.cpp {LLAMA_CPP}: {share:+.3%}")
    if result["tokens"] != 5865:
        sys.exit(f"{result['tokens']} tokens were scored; llama.cpp scored 5865")
    if not -SHARE_BELOW_MAX <= share <= SHARE_ABOVE_MAX:
        sys.exit("that is too far from llama.cpp")


if __name__ == "__main__":
    main()
