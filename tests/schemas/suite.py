#!/usr/bin/env python3
"""Schemas of the JSON-Schema-Test-Suite, optional ones too: suite.py MATCH_LINES [--show].

Every schema is accepted, or refused with a sentence that names a keyword, or that says that it permits no
value, which no valid instance may belie; an accepted one takes each valid instance, written without
whitespace, and no invalid one. Where the order of keys matters
any order will do for a valid instance, and none may for an invalid one. SLUICE_SCHEMAS names the
unpacked source package of `jsonschema`, SLUICE_FIXTURES the folder with the vocabulary. --show
prints what is refused.
"""
import collections
import glob
import itertools
import json
import os
import subprocess
import sys

DRAFTS = ("draft2019-09", "draft2020-12")
ACCEPTED_SHARE = 0.78  # of the optional tests less are than of the others
ORDERS_MAX = 24
# `format` says nothing there of a string, but holds an answer to it here; tests of it that want
# strings of no form to be valid do not apply.
ANNOTATIONS = "format.json"
# Instances of the optional tests that are valid, or not, but told otherwise, and why.
LEAP_SECONDS = "of leap seconds only those of UTC are taken, since others have to fit their offset"
QUOTED = "JSON escapes quotes, and strings that have a pattern or a format have no escapes"
ESCAPED = "JSON escapes control characters, and strings that have a pattern or a format have no escapes"
ADDRESSES = "addresses in brackets take a tenth of a second to compile, and are left out"
EXPONENTS = "integers are written without exponents"
EXCEPTIONS = {
    ("optional/float-overflow.json", "valid if optional overflow handling is implemented"): EXPONENTS,
    ("optional/format/email.json", "an IPv4-address-literal after the @ is valid"): ADDRESSES,
    ("optional/format/email.json", "an IPv6-address-literal after the @ is valid"): ADDRESSES,
    ("optional/format/uri.json", "a valid URL "): ADDRESSES,
    ("optional/format/time.json", "valid leap second, positive time-offset"): LEAP_SECONDS,
    ("optional/format/time.json", "valid leap second, large positive time-offset"): LEAP_SECONDS,
    ("optional/format/time.json", "valid leap second, negative time-offset"): LEAP_SECONDS,
    ("optional/format/time.json", "valid leap second, large negative time-offset"): LEAP_SECONDS,
    ("optional/format/date-time.json", "a valid date-time with a leap second, with minus offset"): LEAP_SECONDS,
    ("optional/format/email.json", "a quoted string with a space in the local part is valid"): QUOTED,
    ("optional/format/email.json", "a quoted string with a double dot in the local part is valid"): QUOTED,
    ("optional/format/email.json", "a quoted string with a @ in the local part is valid"): QUOTED,
    ("optional/format/json-pointer.json", "valid JSON-pointer as stated in RFC 6901 #9"): QUOTED,
    ("optional/format/json-pointer.json", "valid JSON-pointer as stated in RFC 6901 #10"): QUOTED,
    ("optional/ecmascript-regex.json", "Character tabulation matches"): ESCAPED,
    ("optional/ecmascript-regex.json", "Line tabulation matches"): ESCAPED,
    ("optional/ecmascript-regex.json", "Form feed matches"): ESCAPED,
    ("optional/ecmascript-regex.json", "line feed matches (line terminator)"): ESCAPED,
    ("optional/ecmascript-regex.json", "Non-whitespace control matches"): ESCAPED,
}
# No one keyword is at fault there: what the schema says holds of nothing.
PERMITS_NOTHING = "the JSON schema permits no value"


def number(value):
    """JSON has one number 1; Python has two."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2 ** 53:
        return int(value)
    return value


def orders(value):
    """The value's JSON texts, by the orders of its keys."""
    if isinstance(value, dict):
        texts = []
        for keys in itertools.permutations(value):
            parts = [[json.dumps(key, ensure_ascii=False) + ":" + text for text in orders(value[key])]
                     for key in keys]
            for chosen in itertools.islice(itertools.product(*parts), ORDERS_MAX):
                texts.append("{" + ",".join(chosen) + "}")
            if len(texts) >= ORDERS_MAX:
                break
        return texts[:ORDERS_MAX]
    if isinstance(value, list):
        parts = [orders(item) for item in value]
        return ["[" + ",".join(chosen) + "]"
                for chosen in itertools.islice(itertools.product(*parts), ORDERS_MAX)]
    return [json.dumps(number(value), ensure_ascii=False)]


def groups(suite):
    for draft in DRAFTS:
        folder = os.path.join(suite, "json/tests", draft)
        for path in sorted(glob.glob(os.path.join(folder, "**", "*.json"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                for group in json.load(file):
                    yield draft, os.path.relpath(path, folder), group


def main():
    program, show = sys.argv[1], "--show" in sys.argv
    suite, models = os.environ.get("SLUICE_SCHEMAS", ""), os.environ.get("SLUICE_FIXTURES", "")
    vocabulary = os.path.join(models, "ggml-vocab-llama-bpe.gguf")
    if not os.path.isdir(os.path.join(suite, "json/tests")) or not os.path.exists(vocabulary):
        sys.exit("SLUICE_SCHEMAS must name the source package of jsonschema and SLUICE_FIXTURES "
                 "llama.cpp's vocabularies; scripts/test gets both")
    cases, lines = [], []
    for draft, name, group in groups(suite):
        tests = [(test, orders(test["data"])) for test in group["tests"]]
        cases.append((draft, name, group, tests))
        lines.append(json.dumps({"schema": json.dumps(group["schema"], ensure_ascii=False),
                                 "texts": [text for _, texts in tests for text in texts]}))
    run = subprocess.run([program, vocabulary], input="\n".join(lines) + "\n", text=True,
                         capture_output=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    print(run.stderr, end="")
    assert len(answers) == len(cases), f"{len(answers)} of {len(cases)} lines; rc {run.returncode}"
    accepted = instances = 0
    wrong, refused, unnamed, excepted = [], collections.Counter(), [], set()
    for (draft, name, group, tests), answer in zip(cases, answers):
        where = f"{draft}/{name}: {group['description']}"
        if "error" in answer:
            empty = answer["error"] == PERMITS_NOTHING
            if empty and any(test["valid"] for test, _ in tests):
                wrong.append(f"{where}: it permits some of the instances, but is refused: {answer['error']}")
            if not empty and not answer["error"].startswith("the keyword "):
                unnamed.append(f"{where}: {answer['error']}")
            refused["permits no value" if empty else
                    answer["error"].split('"')[1] if '"' in answer["error"] else "other"] += 1
            if show:
                print(f"refused: {where}: {answer['error']}")
            continue
        accepted += 1
        fits = iter(answer["fits"])
        for test, texts in tests:
            fit = [next(fits) for _ in texts]
            if name == ANNOTATIONS and test["valid"] and not any(fit):
                continue
            instances += 1
            if any(fit) != test["valid"] and (name, test["description"]) in EXCEPTIONS:
                excepted.add((name, test["description"]))
                continue
            if any(fit) != test["valid"]:
                wrong.append(f"{where}: {test['description']}: {texts[0]}: valid is {test['valid']}"
                             f"\n    {json.dumps(group['schema'])[:300]}")
    wrong.extend(f"{name}: {test}: is told right, but stands among the exceptions"
                 for name, test in EXCEPTIONS.keys() - excepted)
    print(f"{accepted} of {len(cases)} schemas accepted ({accepted / len(cases):.1%}), "
          f"{instances} instances, {len(wrong)} wrong, "
          f"{len(excepted)} exceptions; refused by keyword: {dict(refused)}")
    for line in wrong[:200 if show else 20]:
        print("wrong:", line)
    for line in unnamed[:200 if show else 20]:
        print("no keyword named:", line)
    failed = bool(wrong) or bool(unnamed) or run.returncode != 0 or accepted < ACCEPTED_SHARE * len(cases)
    sys.exit(1 if failed else 0)


main()
