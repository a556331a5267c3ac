"""Text on which tokenizers are compared: the same every time, from what the machine has.

lines(bytes_wanted) gives a list of strings of all kinds: prose in the languages of Debian's package
debian-handbook, code, emoji, control characters, random code points that Unicode 14 assigns, long
runs of one character, and short strings at which tokenizers like to differ. Standard library only.
"""
import glob
import html
import os
import random
import re
import unicodedata

HANDBOOK = "/usr/share/doc/debian-handbook/html"
LANGUAGES_LEAST = 25
CHAPTERS = ("foreword.html", "case-study.html", "conclusion.html", "apt.html",
            "existing-setup.html", "security.html")
TAG = re.compile(r"<(script|style|head)\b.*?</\1>|<[^>]*>", re.S)
ODD = ["", " ", "  ", "   ", "\n", "\r\n", "\t", "\n\n\n", " \n ", "\u00a0", "\u3000", "\u2028", "\x85",
       "\u200d", "\ufeff", "\u2581", "\u2581\u2581", "a\u2581b", "'s", "'S", "'ſ", "it's IT'S it'ſ 'LL 'Ve 'd",
       "don't", "DON'T", "1", "12", "123", "1234", "12345678901", "½ ² ³ ¹ ¼ ¾ ٣٤ Ⅷ 五 ①", "x²y³", "3.14,15",
       "é", "e\u0301", "a\u0316\u0301", "a\u0301\u0316", "가", "\u1100\u1161\u11a8", "ﬁ ﬂ Å K Ω", "ｆｕｌｌ　ｗｉｄｔｈ",
       "Ａ\u0301", "İstanbul ıİ ß ẞ Σς", "<s>", "</s>", "<unk>", "<|endoftext|>", "a<|endoftext|>b",
       "<|im_start|>user\nhi<|im_end|>", " <mask> ", "x <mask>y", "[MASK]", "[UNK]", "<|user|> \n hi",
       "<|end|>\n\n<|assistant|>  x", "<0x0A>", "<0xE2><0x96><0x81>", "\\n", "http://a.b/c?d=e&f#g",
       "user@example.org", "C++ C# F# .NET", "----====____", "a\u0000b", "\u0000", "x" + " " * 40 + "y",
       "\u0e01\u0e33\u0e49 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "हिन्दी क्षत्रिय", "👨‍👩‍👧‍👦🏳️‍🌈👍🏽", "🇩🇪🇫🇷", "1️⃣", "😀" * 30,
       "ABCdefGHI iPhone McDonald HTTPServer", "ÀÉÎõü ÀÉÎÕÜ", "ǅ ǈ", "漢字かなカナ交じり文。", "中文,English混排123"]


def handbook(wanted):
    folders = sorted(path for path in glob.glob(os.path.join(HANDBOOK, "*"))
                     if os.path.exists(os.path.join(path, CHAPTERS[0])))
    if len(folders) < LANGUAGES_LEAST:
        raise SystemExit(f"{HANDBOOK} has {len(folders)} languages; install debian-handbook")
    found = []
    for folder in folders:
        size = 0
        for chapter in CHAPTERS:
            with open(os.path.join(folder, chapter), encoding="utf-8") as file:
                text = html.unescape(TAG.sub("", file.read()))
            for line in re.split(r"\n{2,}", text):
                if not line.strip():
                    continue
                found.append(line)
                size += len(line.encode())
                if size > wanted / len(folders):
                    break
            if size > wanted / len(folders):
                break
    return found


def code(wanted):
    found, size = [], 0
    for path in sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py")):
        with open(path, encoding="utf-8") as file:
            text = file.read(20000)
        found.append(text)
        size += len(text)
        if size > wanted:
            break
    return found


def random_lines(wanted, rng):
    assigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    few = [c for c in assigned if c < 0x2000 or 0xa640 <= c < 0xabff or 0x1f000 <= c]
    marks = [c for c in assigned if unicodedata.category(chr(c)).startswith("M")]
    kinds = [assigned, few, list(range(0x80)), list(range(0x20)) + [0x7f, 0x85, 0xad, 0x200b, 0x200e],
             [c for c in range(0x1f300, 0x1faff) if c in set(assigned)] + [0x200d, 0xfe0f, 0x20],
             marks + [0x61, 0x20, 0x915, 0x4e2d], [0x20, 0x0a, 0x0d, 0x09, 0xa0, 0x61, 0x31, 0x27]]
    found, size = [], 0
    while size < wanted:
        pool = rng.choice(kinds)
        text = "".join(chr(rng.choice(pool)) for _ in range(rng.randint(1, 120)))
        found.append(text)
        size += len(text.encode())
    return found


def runs():
    found = []
    for character in [" ", "\n", "\t", "a", "A", "1", "=", "-", ".", "\u2581", "é", "中", "ー", "😀",
                      "\u0301", "'", "\u00a0", "ก", "ا", " \n", "ab", "a ", "1a"]:
        for length in (2, 3, 7, 31, 64, 257, 3000):
            found += [character * length, "x" + character * length + "y"]
    return found


def lines(bytes_wanted):
    rng = random.Random(20260801)
    found = ODD + runs() + handbook(bytes_wanted * 0.55) + code(bytes_wanted * 0.15)
    found += random_lines(bytes_wanted * 0.3, rng)
    return found
