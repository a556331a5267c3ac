"""One-line breaks of kernel sources, each switched on by a number at run time.

A break only adds to a line: `a + b` becomes `a + SLUICE_SIGN(17) * b`, which is the same program as
long as the chosen number is not 17. So all breaks are compiled into one program. What the macros
stand for is in PREAMBLE, one text per backend.
"""
import re

MACROS = """
#define SLUICE_SIGN(n) (1 - 2 * SLUICE_ON(n))
#define SLUICE_TWICE(n) (1 + SLUICE_ON(n))
"""
CUDA_MAGIC = 0x6B61B35E  # sluice_break's initial value, which `sweep` finds in the program
PREAMBLE = {
    # With -D SLUICE_BREAK=17, as the copied programs.cc builds them.
    "xpu": "#define SLUICE_ON(n) (SLUICE_BREAK == (n))" + MACROS,
    # In constant memory, where no compiler takes its value for known.
    "cuda": f"#pragma once\nextern \"C\" __constant__ int sluice_break = {CUDA_MAGIC};\n"
            "#define SLUICE_ON(n) (sluice_break == (n))" + MACROS,
    # Of classes of vectors, which have no products with numbers, too.
    "cpu": """#pragma once
#include <cstdlib>
#include <type_traits>
inline const int sluice_break = [] {
  const char* number = std::getenv("SLUICE_BREAK");
  return number == nullptr ? 0 : std::atoi(number);
}();
struct SluiceSign {
  bool on;
  template <class T>
  friend auto operator*(SluiceSign sign, T x) {
    return sign.on ? x - x - x : x;
  }
};
struct SluiceTwice {
  bool on;
  template <class T>
  friend auto operator*(T x, SluiceTwice twice) {
    return twice.on ? x + x : x;
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  friend auto operator/(T x, SluiceTwice twice) {
    return x / (1 + twice.on);
  }
};
#define SLUICE_ON(n) (sluice_break == (n))
#define SLUICE_SIGN(n) (SluiceSign{SLUICE_ON(n)})
#define SLUICE_TWICE(n) (SluiceTwice{SLUICE_ON(n)})
""",
}

# (what is broken, pattern, what takes its place; @ stands for the number), tried from an offset that
# the function's name gives. An operand begins with a letter, a digit or a parenthesis.
MUTATIONS = [
    ("+ to -", r" \+ (?=[\w(])(?!0\b)", " + SLUICE_SIGN(@) * "),
    ("- to +", r" - (?=[\w(])", " - SLUICE_SIGN(@) * "),
    ("product doubled", r" \* (?=[\w(])", " * SLUICE_TWICE(@) * "),
    ("quotient halved", r" / (?=[\w(])", " / SLUICE_TWICE(@) / "),
    ("< one further", r" < (?=[\w(])", " < SLUICE_ON(@) + "),
    (">= one further", r" >= (?=[\w(])", " >= SLUICE_ON(@) + "),
    ("sum's sign", r" \+= (?=[\w(])([^;]*);", r" += SLUICE_SIGN(@) * (\1);"),
    ("0 to 1", r"(?<![\w.])0\.0f\b", "(float)SLUICE_ON(@)"),
    (">> one further", r" >> (?=[\w(])", " >> SLUICE_ON(@) + "),
    ("<< one further", r" << (?=[\w(])", " << SLUICE_ON(@) + "),
    ("& without bit 0", r" & (?=[\w(])(?!0x\w*0u?\b)", " & ~SLUICE_ON(@) & "),
    ("first choice never", r"(?<=[\w)]) \? ", " && !SLUICE_ON(@) ? "),
    ("index off by one", r"(?<=[\w\])])\[(?=[a-z(])(?!k[A-Z])", "[SLUICE_ON(@) + "),
]
# Where none of these applies.
LAST_RESORTS = [
    ("condition never", "if (", "!SLUICE_ON(@) && ("),
    ("statement left out", r"^(\s*)((?:\w[\w.>\[\]()*-]* [-+*/|&^]?= |\w+\()[^;{}]*;)\s*$",
     r"\1if (SLUICE_ON(@)) {} else \2"),
    ("argument off by one", r"(?<=\w\()((?:\w+, )?)(?=i, )", r"\1SLUICE_ON(@) + "),
    ("other half", r"\b(\w+)\.hi\b", r"(SLUICE_ON(@) ? \1.lo : \1.hi)"),
    ("result plus 1", r"\breturn (?!\{)([^;]+);", r"return SLUICE_ON(@) + (\1);"),
    ("arguments the same", r"(?<=\w\()(\w[\w.]*), (\w[\w.]*)(?=\))",
     r"\1, SLUICE_ON(@) ? \1 : \2"),
    ("result negated", r"\breturn (?!\{)([^;]+);", r"return SLUICE_SIGN(@) * (\1);"),  # vectors too
]
FUNCTION = re.compile(r"^(?!#|typedef|struct|namespace|using|//|else|return)(?:  )?[A-Za-z_]"
                      r"[^;{}()#]*?\b\w+\([^{};]*\)[\w ]*\{", re.MULTILINE)
MACRO = re.compile(r"^#define (\w+)\([^\n]*\\\n(?:[^\n]*\\\n)*[^\n]*\n", re.MULTILINE)
NOT_NAMES = ("__launch_bounds__", "__attribute__", "reqd_work_group_size", "target")
# Loop heads and array sizes decide about ends and memory, waits are racecheck's, and strings are
# another language. Constant expressions must stay constant.
LEFT_ALONE = re.compile(r"\s*(//|#|@|assert|static_assert|template|for \(|CHECK|(const )?[\w:]+ "
                        r"\w+\[[^=]*\];|__shared__|extern)|.*(constexpr|asm|\"|barrier|fence|prefetch|ASK_AHEAD|"
                        r"[sS]ync|_wait|commit|\bcase\b|\blocal \w+ )")


class Break:
    """One line of one function, changed where its number is chosen."""

    def __init__(self, path, function, line, what, before, after):
        self.path, self.function, self.line, self.what = path, function, line, what
        self.before, self.after = before, after
        self.number = None  # given when it is written into the tree

    def key(self):
        """What names it, as a line of breaks/equivalent begins."""
        return self.function_key() + " ".join(self.after.rstrip("\\").split())

    def function_key(self):
        return f"{self.path.split('/', 2)[2]} | {self.function} | "

    def written(self):
        return self.after.replace("@", str(self.number))


def functions_of(text):
    """(name, first line, last line) of each function, and of each macro of several lines."""
    found = []
    for match in MACRO.finditer(text):
        first = text.count("\n", 0, match.start())
        found.append((match[1], first + 1, first + match[0].count("\n") - 1))
    for match in FUNCTION.finditer(text):
        names = [n for n in re.findall(r"(\w+)\(", match[0]) if n not in NOT_NAMES]
        if not names or names[0] in ("if", "for", "while", "switch") or "constexpr" in match[0]:
            continue
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found.append((names[0], text.count("\n", 0, match.end() - 1), text.count("\n", 0, end)))
    return sorted(found, key=lambda f: f[1])


def lines_left_out(text):
    """Lines that an OpenCL device with one item in a work-group does not compile."""
    out, stack = set(), []
    for number, line in enumerate(text.split("\n")):
        if re.match(r"#if", line):
            condition = line[line.index("if") + 2:].strip()
            stack.append({"ITEMS > 1": True, "ITEMS == 1": False}.get(condition))
        elif line.startswith("#else") and stack:
            stack[-1] = None if stack[-1] is None else not stack[-1]
        elif line.startswith("#endif") and stack:
            stack.pop()
        elif True in stack:
            out.add(number)
    return out


def around_condition(code, to):
    """`if (x)` with `to` before x and a parenthesis around it; the code itself where it is longer."""
    begin = code.find("if (")
    if begin < 0:
        return code
    depth, end = 1, begin + 4
    while depth and end < len(code):
        depth += {"(": 1, ")": -1}.get(code[end], 0)
        end += 1
    if depth:
        return code
    return f"{code[:begin + 4]}{to}{code[begin + 4:end - 1]}){code[end - 1:]}"


def changed(line, pattern, to):
    from_column = line.index("{") if FUNCTION.match(line) and "{" in line else 0
    code = line[from_column:].split("//")[0]
    new = around_condition(code, to) if pattern == "if (" else re.sub(pattern, to, code, count=1)
    unbalanced = code.count("(") != code.count(")")  # the last line of a longer statement
    if new == code or (unbalanced and "{} else" in new):
        return line
    return line[:from_column] + new + line[from_column + len(code):]


def breaks_of(path, text, left_out=frozenset()):
    """Per function (name, lines, its breaks, the one to try first first)."""
    lines = text.split("\n")
    result, taken = [], set()
    for name, first, last in functions_of(text):
        numbers = [n for n in range(first, min(last + 1, len(lines)))
                   if n not in left_out and n not in taken]
        taken.update(numbers)
        start = sum(name.encode()) % len(MUTATIONS)
        candidates = []
        kinds = MUTATIONS[start:] + MUTATIONS[:start] + LAST_RESORTS
        for order, (what, pattern, to) in enumerate(kinds):
            found = 0
            for number in numbers:
                line = lines[number]
                if LEFT_ALONE.match(line.rstrip("\\")):
                    continue
                after = changed(line, pattern, to)
                if after != line:
                    candidates.append((found, order, Break(path, name, number, what, line, after)))
                    found += 1
        # Each kind once, then each kind again on a later line.
        candidates.sort(key=lambda c: c[:2])
        result.append((name, numbers, [c[2] for c in candidates]))
    return result
