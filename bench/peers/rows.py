"""The rows of the comparison: what each one measures, the bars it is held against, and the table."""

import dataclasses
import statistics

PREFILLS = (128, 512, 2048)
CONTEXTS = (0, 2048)
BATCHES = (8, 32)
BATCH_CONTEXT = 128
CLIENTS = 32
MEMORY_EXTRA = 64 << 20  # what may be resident beside the file and the KV cache

US, LLAMA, OPENVINO = "sluice", "llama.cpp", "openvino"


@dataclasses.dataclass(frozen=True)
class Row:
    key: str
    group: str  # what is run together, and what --rows selects
    title: str
    unit: str
    more_is_better: bool = True
    digits: int = None  # behind the point, of figures and ratios; by size where it is not set


def all_rows():
    rows = [Row(f"prefill {n}", "prefill", f"prefill, {n} tokens", "tokens/s") for n in PREFILLS]
    rows += [Row(f"decode 1 at {n}", "decode", f"decode, 1 sequence, context {n}", "tokens/s")
             for n in CONTEXTS]
    rows += [Row(f"decode {n}", "batched", f"decode, {n} sequences, context {BATCH_CONTEXT}",
                 "tokens/s") for n in BATCHES]
    rows += [
        Row("serving", "serving", f"{CLIENTS} streaming clients, mixed lengths (--quick: 8)", "tokens/s"),
        Row("ttft p50", "serving", "  time to first token, p50", "ms", False),
        Row("ttft p99", "serving", "  time to first token, p99", "ms", False),
        Row("itl p50", "serving", "  between tokens, p50", "ms", False),
        Row("itl p99", "serving", "  between tokens, p99", "ms", False),
        Row("start", "start", "process start to first token", "s", False),
        Row("memory", "memory", "resident memory, peak", "MiB", False),
        Row("perplexity", "perplexity", "perplexity, context 512", "", False, digits=3),
    ]
    return rows


GROUPS = tuple(dict.fromkeys(row.group for row in all_rows()))


@dataclasses.dataclass(frozen=True)
class Bar:
    """The least that is asked of a row: ratios to peers, a share of a ceiling, or a limit."""
    llama: float = None
    openvino: float = None
    share: float = None
    limit: float = None  # of the value itself, in the row's unit


def bars(amx, demo_format, limits):
    """Bars by row. `demo_format`: the file is in Q4_1, as the demo is; `limits`: row -> value."""
    if demo_format:
        found = {
            "prefill 512": Bar(5, 2.5) if amx else Bar(7, share=0.60),
            "prefill 2048": Bar(8, 2) if amx else Bar(6),
            "decode 1 at 0": Bar(1.5, share=0.85),
            "decode 1 at 2048": Bar(4 if amx else 3, share=0.75),
            "decode 8": Bar(4),
            "decode 32": Bar(6, 3),
        }
    else:
        found = {"prefill 512": Bar(4 if amx else 3), "decode 1 at 0": Bar(1.25)}
    # At most 0.3 % above.
    found["perplexity"] = Bar(llama=1 / 1.003)
    found.update({key: Bar(limit=value) for key, value in limits.items()})
    return found


@dataclasses.dataclass
class Figure:
    """One program's figure of one row; `share` of its ceiling, where it is known."""
    median: float
    low: float
    high: float
    share: float = None


def merged(figures):
    """The figures of several rounds as one: the median of medians within the widest spread."""
    shares = [figure.share for figure in figures if figure.share is not None]
    return Figure(statistics.median(figure.median for figure in figures),
                  min(figure.low for figure in figures), max(figure.high for figure in figures),
                  statistics.median(shares) if shares else None)


def of_samples(samples, share=None):
    return Figure(statistics.median(samples), min(samples), max(samples), share)


def ratio(row, ours, theirs):
    """How much better we are: above 1 is better, whatever the row's direction."""
    if not ours or not theirs or not ours.median or not theirs.median:
        return None
    return (ours.median / theirs.median if row.more_is_better else theirs.median / ours.median)


def verdicts(row, bar, figures):
    """[(what is asked, whether it is met)]; None where it could not be measured."""
    if bar is None or US not in figures:
        return []
    ours, asked = figures[US], []
    for peer, least in ((LLAMA, bar.llama), (OPENVINO, bar.openvino)):
        if least is not None:
            found = ratio(row, ours, figures.get(peer))
            asked.append((f">= {least:.4g}x {peer}", None if found is None else found >= least))
    if bar.share is not None:
        met = None if ours.share is None else ours.share >= bar.share
        asked.append((f">= {bar.share:.0%} of the ceiling", met))
    if bar.limit is not None:
        asked.append((f"<= {number(bar.limit)} {row.unit}", ours.median <= bar.limit))
    return asked


def number(value):
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def cell(row, figure):
    if figure is None:
        return "–"
    if row.digits is not None:  # of what does not vary
        return f"{figure.median:.{row.digits}f}"
    return f"{number(figure.median)} ({number(figure.low)} to {number(figure.high)})"


MARKS = {True: "met", False: "MISSED", None: "not measured"}


def table(rows, results, asked):
    """Markdown; results: row key -> peer -> Figure, asked: row key -> Bar."""
    peers = [peer for peer in (US, LLAMA, OPENVINO)
             if any(peer in results.get(row.key, {}) for row in rows)]
    others = [peer for peer in peers if peer != US]
    head = ["median (low to high)", "unit", *peers, *(f"ratio to {peer}" for peer in others),
            "share of ceiling", "bar"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        figures = results.get(row.key)
        if not figures:
            continue
        ours = figures.get(US)
        ratios = [ratio(row, ours, figures.get(peer)) for peer in others]
        share = f"{ours.share:.0%}" if ours and ours.share is not None else "–"
        marks = "; ".join(f"{text}: {MARKS[met]}"
                          for text, met in verdicts(row, asked.get(row.key), figures))
        lines.append([row.title, row.unit, *(cell(row, figures.get(peer)) for peer in peers),
                      *("–" if found is None else f"{found:.{row.digits or 2}f}x"
                        for found in ratios), share,
                      marks or "–"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def report(rows, results, asked):
    """The same for --json."""
    entries = []
    for row in rows:
        figures = results.get(row.key)
        if not figures:
            continue
        entries.append({
            "row": row.key, "title": row.title.strip(), "unit": row.unit,
            "figures": {peer: dataclasses.asdict(figure) for peer, figure in figures.items()},
            "ratio": {peer: ratio(row, figures.get(US), figures[peer])
                      for peer in figures if peer != US},
            "bars": [{"asked": text, "met": met}
                     for text, met in verdicts(row, asked.get(row.key), figures)],
        })
    return entries
