"""The load of many streaming clients, the same for every server: `sluice bench --serve` puts it on
whatever speaks OpenAI's completions."""

import json
import random
import tempfile

import processes

WORDS = ("the of and to a in is it that for was on are as with his they be at one have this from or "
         "had by word but what some we can out other were all there when up use your how said an "
         "each she which do their time if will way about many then them write would like so these "
         "her long make thing see him two has look more day could go come did number sound").split()
WARM_UP_REQUESTS = 2


def requests(count, seed=1):
    """(prompt, answer tokens) of mixed lengths, the same for every server. A common word is a token."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        words = draw.choice((16, 32, 64, 128, 256, 384))
        found.append((" ".join(draw.choice(WORDS) for _ in range(words)),
                      draw.choice((16, 32, 64, 96))))
    return found


def dataset(count):
    """The lines of a file for --dataset."""
    return "".join(json.dumps({"prompt": prompt, "output_len": tokens}) + "\n"
                   for prompt, tokens in requests(count))


def summary(printed):
    """Row key -> value, of `sluice bench --serve --json`."""
    found = json.loads(printed)
    if found["failed"]:
        raise RuntimeError(f"{found['failed']} requests failed: {found['failures']}")
    return {"serving": found["output_throughput"],
            "ttft p50": found["median_ttft_ms"], "ttft p99": found["p99_ttft_ms"],
            "itl p50": found["median_itl_ms"], "itl p99": found["p99_itl_ms"]}


def measure(sluice, port, clients, count):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(dataset(count))
        file.flush()
        return summary(processes.run(
            [sluice, "bench", "--serve", "--url", f"http://127.0.0.1:{port}", "--dataset",
             file.name, "--requests", str(count), "--concurrency", str(clients), "--warmup",
             str(WARM_UP_REQUESTS), "--json"]).stdout)
