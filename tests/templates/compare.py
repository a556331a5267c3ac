#!/usr/bin/env python3
"""Compares our chat templates with jinja2 (set up as transformers does), character by character.

Usage: compare.py RENDER_LINES [--show N] [--only NAME] [--every N]

RENDER_LINES is the program of render_lines.cc. Public models' templates come from the folder
$SLUICE_FIXTURES/templates, which scripts/test fills; expressions.py holds short templates besides.
Where jinja2 raises, ours must refuse. Needs jinja2 (scripts/lib/requirements.txt); runs itself with
$SLUICE_PYTHON if that is set.
"""

import argparse
import copy
import glob
import json
import os
import re
import subprocess
import sys
import threading

if os.environ.get("SLUICE_PYTHON") and os.environ["SLUICE_PYTHON"] != sys.executable:
    os.execv(os.environ["SLUICE_PYTHON"], [os.environ["SLUICE_PYTHON"], *sys.argv])

import conversations
import expressions
import reference

TEMPLATES_MIN = 60


def template_cases(only):
    folder = os.path.join(os.environ.get("SLUICE_FIXTURES", ""), "templates")
    paths = sorted(glob.glob(os.path.join(folder, "*.jinja")))
    if len(paths) < TEMPLATES_MIN:
        sys.exit(
            f"{folder} holds {len(paths)} templates, fewer than {TEMPLATES_MIN}; "
            "set SLUICE_FIXTURES as scripts/test does"
        )
    contexts = list(conversations.contexts())
    for path in paths:
        name = os.path.basename(path)
        if only and only not in name:
            continue
        with open(path, encoding="utf-8") as file:
            source = file.read()
        for label, context in contexts:
            yield f"{name} {label}", {"template": path, "context": context}, source, context


def expression_cases(every):
    for number, (source, context) in enumerate(expressions.cases(every)):
        name = f"expression {number} {source!r}"
        yield name, {"source": source, "context": context}, source, context


def render_all(program, cases):
    """Our answers, in order. The program reads while we write."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write():
        for _, request, _, _ in cases:
            line = json.dumps({**request, "now": reference.NOW}, ensure_ascii=False)
            process.stdin.write(line.encode("utf-8") + b"\n")
        process.stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    answers = [json.loads(line) for line in process.stdout]
    writer.join()
    if process.wait() != 0 or len(answers) != len(cases):
        sys.exit(f"{program} ended with {process.returncode} after {len(answers)} of {len(cases)}")
    return answers


def differences(ours, theirs):
    """How many characters differ."""
    common = sum(1 for a, b in zip(ours, theirs) if a == b)
    return max(len(ours), len(theirs)) - common


def describe(ours, theirs):
    for place, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            break
    else:
        place = min(len(ours), len(theirs))
    start = max(place - 40, 0)
    return f"at {place}: ours {ours[start:place + 60]!r}, jinja2 {theirs[start:place + 60]!r}"


# Python prints these with an address, another one each time.
ADDRESS = re.compile(r"(<|&lt;)[^<>]* at 0x[0-9a-f]+|<class |<bound method", re.IGNORECASE)
# Our integers are not unbounded; that we say so is tested elsewhere.
TOO_LARGE = "larger than 127 bits"
# What chat templates do not need is refused with a sentence that says so, as
# chat_template_unsupported_test.cc tests name by name. Such cases are counted apart.
NOT_SUPPORTED = "chat templates may use"
NOT_SUPPORTED_SHARE_MAX = 0.05


def compare(program, cases, show):
    rendered = refused = left_out = wrong = characters = 0
    for (name, _, source, context), answer in zip(cases, render_all(program, cases)):
        # A copy: `indent` can change a list in place.
        theirs, error = reference.render(source, copy.deepcopy(context))
        ours = answer.get("output")
        if theirs is not None and ADDRESS.search(theirs):
            continue
        if theirs is not None and TOO_LARGE in answer.get("error", ""):
            continue
        if ours == theirs:
            rendered += ours is not None
            refused += ours is None
            continue
        if ours is None and NOT_SUPPORTED in answer["error"]:
            left_out += 1
            continue
        wrong += 1
        if ours is None:
            characters += len(theirs)
            detail = f"we refuse ({answer['error']}), jinja2 gives {theirs[:200]!r}"
        elif theirs is None:
            characters += len(ours)
            detail = f"we give {ours[:200]!r}, jinja2 raises {error}"
        else:
            characters += differences(ours, theirs)
            detail = describe(ours, theirs)
        if wrong <= show:
            print(f"{name}: {detail}")
    return rendered, refused, left_out, wrong, characters


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--show", type=int, default=20, help="differences to print")
    parser.add_argument("--only", help="templates whose name holds this; 'expressions' for those")
    parser.add_argument("--every", type=int, default=1, help="take each N-th generated expression")
    arguments = parser.parse_args()
    failed = False
    groups = {}
    if arguments.only != "expressions":
        groups["templates"] = list(template_cases(arguments.only))
    if arguments.only in (None, "expressions"):
        groups["expressions"] = list(expression_cases(arguments.every))
    for group, cases in groups.items():
        rendered, refused, left_out, wrong, characters = compare(
            arguments.program, cases, arguments.show
        )
        print(
            f"{group}: {len(cases)} cases, {rendered} rendered alike, {refused} refused by both, "
            f"{left_out} not supported, {wrong} different, {characters} differing characters"
        )
        # No published template may need what is not supported, and few of the expressions.
        allowed = 0 if group == "templates" else NOT_SUPPORTED_SHARE_MAX * len(cases)
        failed = failed or wrong > 0 or left_out > allowed
    sys.exit(1 if failed else 0)


main()
