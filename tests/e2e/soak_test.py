#!/usr/bin/env python3
"""A soak of drafts: streams of random requests, many of which their clients leave, on servers with every
proposer in turn and little memory. Answers stay what they are, nothing fails, and at the end no sequence
holds a block.

Usage: soak_test.py PROGRAM [--seconds N] [--streams N] [--seed N]

Ten minutes with 32 streams unless told; needs the models of tests/golden alone. Standard library only.
"""
import argparse
import contextlib
import http.client
import json
import os
import random
import sys
import threading
import time

from serving import Serving

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
TARGET = os.path.join(GOLDEN, "drafts", "target")
MIMO = os.path.join(GOLDEN, "models", "mimo")


def head(name, kind):
    return ["--speculate", kind, "--draft-model", os.path.join(GOLDEN, "drafts", name)]


PROPOSERS = [
    (TARGET, ["--speculate", "ngram"]),
    (TARGET, ["--speculate", "suffix"]),
    (TARGET, ["--speculate", "suffix", "--speculate-tree"]),
    (TARGET, ["--speculate", "model", "--draft-model", TARGET]),
    (TARGET, head("eagle3", "eagle3")),
    (TARGET, head("eagle3", "eagle3") + ["--speculate-tree"]),
    (TARGET, head("eagle1_own", "eagle") + ["--speculate-tree"]),
    (TARGET, head("block", "block")),
    (TARGET, head("dflash", "block")),
    (MIMO, ["--speculate", "mtp"]),
    (MIMO, ["--speculate", "mtp", "--speculate-tree"]),
]
# Room for a few sequences alone, so that others are preempted.
LIMITS = ["--max-num-seqs", "16", "--max-batch-tokens", "64", "--block-size", "16",
          "--kernel-block-size", "16", "--kv-memory", "800KiB", "--max-model-len", "256"]
# Requests whose answers must not change.
KEPT = [{"prompt": list(range(5 + i, 30 + 3 * i)), "max_tokens": 24, "ignore_eos": True,
         "temperature": i % 2 * 0.7, "seed": i} for i in range(4)]


def random_request(draw):
    fields = {"prompt": [draw.randrange(3, 120) for _ in range(draw.randrange(1, 90))],
              "max_tokens": draw.randrange(1, 120), "ignore_eos": draw.random() < 0.8,
              "temperature": draw.choice([0, 0, 0.5, 1]), "n": draw.choice([1, 1, 1, 2, 3])}
    if draw.random() < 0.3:
        fields["frequency_penalty"] = 0.3
    if draw.random() < 0.2:
        fields["logprobs"] = 2
    if draw.random() < 0.1:
        fields["prompt"] = [draw.randrange(3, 9)] * 60  # quotes itself
    return fields


class Soak:
    def __init__(self, server, seed, end):
        self.server, self.seed, self.end = server, seed, end
        self.lock = threading.Lock()
        self.answers = {}  # of KEPT
        self.counts = {"ended": 0, "left": 0, "kept": 0}
        self.errors = []

    def post(self, fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps(fields),
                           {"Content-Type": "application/json"})
        return connection

    def ask(self, draw):
        kept = draw.randrange(len(KEPT)) if draw.random() < 0.2 else None
        leaves = kept is None and draw.random() < 0.4
        fields = dict(KEPT[kept]) if kept is not None else random_request(draw)
        fields["stream"] = leaves
        with contextlib.closing(self.post(fields)) as connection:
            if leaves and draw.random() < 0.3:
                return "left"
            answer = connection.getresponse()
            if leaves:
                answer.read(draw.randrange(1, 4000))
                return "left"
            text = answer.read().decode()
            if answer.status != 200:
                raise AssertionError(f"{answer.status}: {text[:300]} for {fields}")
        if kept is None:
            return "ended"
        said = json.loads(text)["choices"][0]["text"]
        with self.lock:
            expected = self.answers.setdefault(kept, said)
        if said != expected:
            raise AssertionError(f"request {kept} got {said!r}, and before {expected!r}")
        return "kept"

    def stream(self, number):
        draw = random.Random(f"{self.seed} {number}")
        while time.monotonic() < self.end and not self.errors:
            try:
                how = self.ask(draw)
                with self.lock:
                    self.counts[how] += 1
            except (AssertionError, OSError, http.client.HTTPException) as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    def run(self, streams):
        threads = [threading.Thread(target=self.stream, args=(i,)) for i in range(streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            sys.exit(self.errors[0])
        self.server.wait_idle()  # no block is held any more


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plain = {}
    for turn, (model, flags) in enumerate(PROPOSERS):
        adapt = [] if turn % 2 else ["--speculate-adapt=false"]
        with Serving(options.program, "--device", "cpu", "--log-requests", "none", *LIMITS, *flags,
                     *adapt, model=model) as server:
            soak = Soak(server, f"{options.seed} {turn}",
                        time.monotonic() + options.seconds / len(PROPOSERS))
            soak.answers = plain.setdefault(model, {})  # whatever drafts, they are the same
            soak.run(options.streams)
            accepted = server.metric("vllm:spec_decode_num_accepted_tokens_total")
            preempted = server.metric("vllm:num_preemptions_total")
            free, blocks = (server.metric(f"sluice_kv_blocks_{name}") for name in ("free", "total"))
        print(f"{' '.join(os.path.basename(flag) for flag in flags + adapt)}: {soak.counts}, "
              f"{accepted:.0f} drafts right, {preempted:.0f} preemptions, {free:.0f} of "
              f"{blocks:.0f} blocks free", flush=True)
        if server.process.returncode != 0:
            sys.exit(f"the server ended with {server.process.returncode}")


if __name__ == "__main__":
    main()
