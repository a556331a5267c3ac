#!/usr/bin/env python3
"""Writes src/text/jinja/unicode_tables.cc: what Python's str knows about characters and utf8proc
does not tell. Run it with the Python whose str the templates should follow, then tools/format:
    python3 tools/golden/templates/unicode_tables.py > src/text/jinja/unicode_tables.cc
"""

import unicodedata

CHARACTERS = range(0x110000)


def ranges(predicate):
    found, start = [], None
    for c in range(0x110001):
        holds = c < 0x110000 and predicate(chr(c))
        if holds and start is None:
            start = c
        if not holds and start is not None:
            found.append((start, c - 1))
            start = None
    return found


def print_ranges(name, found):
    print(f"const CharRange {name}[] = {{")
    for start, end in found:
        print(f"    {{0x{start:X}, 0x{end:X}}},")
    print(f"}};\nconst size_t {name}Count = {len(found)};\n")


def print_mappings(name, method):
    print(f"const FullMapping {name}[] = {{")
    count = 0
    for c in CHARACTERS:
        mapped = getattr(chr(c), method)()
        if len(mapped) > 1:
            count += 1
            codes = ", ".join(f"0x{ord(m):X}" for m in mapped.ljust(3, "\0"))
            print(f"    {{0x{c:X}, {{{codes}}}}},")
    print(f"}};\nconst size_t {name}Count = {count};\n")


def category(c, wanted):
    return unicodedata.category(c) in wanted


print(f"""// Written by tools/golden/templates/unicode_tables.py from Python's str and unicodedata (Unicode
// {unicodedata.unidata_version}); do not edit.
#include "text/jinja/unicode_tables.h"

namespace sluice::text::jinja {{
""")
print_mappings("kFullUpper", "upper")
print_mappings("kFullTitle", "title")
print_ranges("kDigitsNotDecimal", ranges(lambda c: c.isdigit() and not c.isdecimal()))
print_ranges(
    "kNumericLetters", ranges(lambda c: c.isnumeric() and not category(c, ("Nd", "Nl", "No")))
)
print_ranges("kOtherLower", ranges(lambda c: c.islower() and not category(c, ("Ll",))))
print_ranges("kOtherUpper", ranges(lambda c: c.isupper() and not category(c, ("Lu",))))
zeros = [c for c in CHARACTERS if category(chr(c), ("Nd",)) and unicodedata.decimal(chr(c)) == 0]
print("const char32_t kDecimalZeros[] = {")
for zero in zeros:
    print(f"    0x{zero:X},")
print(f"}};\nconst size_t kDecimalZerosCount = {len(zeros)};\n")
print("}  // namespace sluice::text::jinja")
