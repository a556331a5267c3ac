"""Rules of tools/tidy about how far things reach: units and folders that need each other, and the
files that a sampling parameter stands in."""
import os
import re
import sys

CPP = (".h", ".cc", ".cu", ".cuh")
# Files that a sampling parameter may stand in, tests and documents left out.
SAMPLING_FILES_MAX = 9
# `top_k` is a word of experts and indexers, too.
SAMPLING_UNCOUNTED = {"top_k"}
# A request's seed; others are seeds of hashes, of made-up loads and of generated cases.
SAMPLING_PATTERNS = {"seed": r"\w(?<!options)(?<!options_)(?<!work)(?<!facts)(?:\.|->)seed\b"}


def check_cycles(tree, included_files, is_test):
    """Units (x.h and x.cc) of different folders never need each other, even where their folders
    share a row of the table: what a room needs of the folder around it needs no room."""
    files = set(tree.paths)
    needs = {}
    for path in tree.paths:
        if path.startswith("src/") and path.endswith(CPP) and not is_test(path):
            unit = os.path.splitext(path)[0]
            needs.setdefault(unit, set()).update(
                os.path.splitext(target)[0] for target in included_files(tree, path, files))
    for circle in circles(needs):
        if len({os.path.dirname(unit) for unit in circle}) > 1:
            first = min(circle)
            tree.report(first, 1, "unit-cycle",
                        "needs " + ", ".join(sorted(circle - {first})) + ", and they need it")
    check_folders(tree, needs)


def check_folders(tree, needs):
    """Folders have an order, also within a row of the table: none needs one that needs it. Below
    src/backend the file that lists a device's kernels stands beside what they share."""
    folders = {}
    for unit, others in needs.items():
        if not unit.startswith("src/backend/"):
            folders.setdefault(os.path.dirname(unit), set()).update(map(os.path.dirname, others))
    for circle in circles(folders):
        first = min(circle)
        back = next(f"{unit} needs {other}" for unit in sorted(needs) for other in sorted(needs[unit])
                    if os.path.dirname(unit) == first and os.path.dirname(other) in circle - {first})
        tree.report(first, 1, "folder-cycle",
                    "needs " + ", ".join(sorted(circle - {first})) + f", and back; {back}")


def circles(needs):
    """The sets of several that all reach each other (Tarjan's strongly connected components)."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * len(needs) + 1000))
    number, lowest, stack, found = {}, {}, [], []

    def visit(unit):
        number[unit] = lowest[unit] = len(number)
        stack.append(unit)
        for other in sorted(needs.get(unit, ())):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[unit] = min(lowest[unit], lowest[other])
        if lowest[unit] == number[unit]:
            at = stack.index(unit)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for unit in sorted(needs):
        if unit not in number:
            visit(unit)
    return found


def sampling_parameters(tree):
    """The members of Sampling in include/sluice/sampling.h, and what a request has beside it."""
    path = "include/sluice/sampling.h"
    if path not in tree.paths:
        return []
    struct = re.search(r"^struct Sampling \{(.*?)^\};", tree.text(path), re.M | re.S)
    text = re.sub(r"//[^\n]*", "", struct.group(1)) if struct else ""
    names = [name for line in re.findall(r"^\s*std::\w+<.*>\s*([\w, ]+);", text, re.M)
             for name in re.split(r",\s*", line)]
    return names + ["min_tokens"]


def check_sampling(tree, is_test):
    """A sampling parameter is described once, in include/sluice/sampling.h, and named elsewhere
    only where it has its effect. Headers of src/ that tests alone include, fakes, are tests, too."""
    counted = [path for path in tree.paths
               if path.startswith(("src/", "include/", "apps/")) and path.endswith(CPP + (".cl",))
               and not path.startswith("src/server/openapi/") and not is_test(path)]
    included = {"src/" + target for path in counted
                for target in re.findall(r'^\s*#\s*include "([^"]+)"', tree.text(path), re.M)}
    counted = [path for path in counted
               if path in included or not (path.startswith("src/") and path.endswith(".h"))]
    for name in sampling_parameters(tree):
        field = "k" + "".join(word.capitalize() for word in name.split("_"))
        pattern = re.compile(SAMPLING_PATTERNS.get(name, rf"\b{name}\b")
                             + rf"|\bsampling_fields::{field}\b")
        found = [path for path in counted if pattern.search(tree.text(path))]
        if len(found) > SAMPLING_FILES_MAX and name not in SAMPLING_UNCOUNTED:
            tree.report("include/sluice/sampling.h", 1, "sampling-files",
                        f"{name} stands in {len(found)} files, at most {SAMPLING_FILES_MAX}: "
                        + " ".join(found))
