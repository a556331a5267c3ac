#!/usr/bin/env python3
"""Writes src/text/unicode/table.cc: what the reference tokenizers think of every code point.

The pre-tokenizers of published models are regular expressions that the Python package `tokenizers`
runs, and its normalizers come from libraries of other Unicode versions. So the classes are asked
from the package itself, code point by code point.

    python3 -m venv /some/venv && /some/venv/bin/pip install tokenizers==0.23.3
    /some/venv/bin/python tools/golden/tokenizers/unicode_table.py src/text/unicode/table.cc
"""

import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
              "Cc Cf Cs Co Cn").split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def regex_class(pattern):
    normalizer = normalizers.Replace(Regex(pattern), "")
    found = set()
    for i in range(0, len(CODE_POINTS), 4096):
        chunk = CODE_POINTS[i:i + 4096]
        kept = set(map(ord, normalizer.normalize_str("".join(map(chr, chunk)))))
        found.update(c for c in chunk if c not in kept)
    return found


def removed_by(normalizer):
    return {c for c in CODE_POINTS if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def bert(**options):
    settings = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False,
                    lowercase=False)
    settings.update(options)
    return normalizers.BertNormalizer(**settings)


def normalizes_otherwise():
    """Code points that the package's normalizers know less about than current Unicode."""
    context = "̖́"
    unknown = set()
    for form in ("NFC", "NFKD"):
        normalizer = getattr(normalizers, form)()
        for c in CODE_POINTS:
            for text in (chr(c), "a" + chr(c) + context):
                if normalizer.normalize_str(text) != unicodedata.normalize(form, text):
                    unknown.add(c)
    return unknown


def properties():
    values = [CATEGORIES.index("Cn")] * 0x110000
    for c in range(0xD800, 0xE000):
        values[c] = CATEGORIES.index("Cs")
    for index, category in enumerate(CATEGORIES):
        if category in ("Cs", "Cn"):
            continue
        for c in regex_class(r"\p{%s}" % category):
            values[c] = index
    punctuation = pre_tokenizers.Punctuation("isolated")
    flags = [
        regex_class(r"\p{Han}"),
        {c for c in CODE_POINTS if len(punctuation.pre_tokenize_str("a" + chr(c) + "b")) == 3},
        removed_by(bert(clean_text=True)) - {0xFFFD},
        removed_by(bert(strip_accents=True)),
        removed_by(normalizers.StripAccents()),
        normalizes_otherwise(),
    ]
    for bit, members in enumerate(flags):
        for c in members:
            values[c] |= 1 << (5 + bit)
    return values


def composition_relevant():
    """Code points that NFC may change or move, alone or next to others."""
    relevant = set()
    for c in CODE_POINTS:
        if unicodedata.normalize("NFC", chr(c)) != chr(c) or unicodedata.combining(chr(c)):
            relevant.add(c)
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            relevant.add(int(parts[1], 16))
    relevant.update(range(0x1161, 0x1176))
    relevant.update(range(0x11A8, 0x11C3))
    return relevant


def packed(rows):
    lines, line = [], "   "
    for row in rows:
        word = " 0x%x," % row
        if len(line) + len(word) > 100:
            lines.append(line)
            line = "   "
        line += word
    lines.append(line)
    return "\n".join(lines)


def main():
    values = properties()
    ranges = [(c << 11) | values[c] for c in range(0x110000) if c == 0 or values[c] != values[c - 1]]
    relevant = composition_relevant()
    edges = [c for c in range(0x110000) if (c in relevant) != (c - 1 in relevant)]
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write(f"""// Written by tools/golden/tokenizers/unicode_table.py from tokenizers {tokenizers.__version__} and
// Unicode {unicodedata.unidata_version} (Python's unicodedata); do not edit.
#include "text/unicode/table.h"

namespace sluice::text {{

// clang-format off
const uint32_t kPropertyRanges[] = {{
{packed(ranges)}
}};
const size_t kPropertyRangeCount = sizeof kPropertyRanges / sizeof kPropertyRanges[0];

const uint32_t kCompositionEdges[] = {{
{packed(edges)}
}};
const size_t kCompositionEdgeCount = sizeof kCompositionEdges / sizeof kCompositionEdges[0];
// clang-format on

}}  // namespace sluice::text
""")


main()
