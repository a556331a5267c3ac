"""The programs that are compared: how each is run for a group of rows, and how its output is read.

A program is `groups` and `measure(group)`, which runs it once and gives row key -> rows.Figure.
"""

import dataclasses
import json
import re

import load
import processes
import rows

START_PROMPT = "The capital of France is Paris and the capital of Italy is Rome. The capital of"
MEMORY_TOKENS = 8  # of the answer after which the peak is read


@dataclasses.dataclass
class Settings:
    model: str
    threads: int
    repeat: int = 3
    output: int = 64
    prefills: tuple = rows.PREFILLS
    contexts: tuple = rows.CONTEXTS
    batches: tuple = rows.BATCHES
    clients: int = rows.CLIENTS
    requests: int = 64
    text: str = ""  # of perplexity
    isa: str = None  # Sluice's --isa; llama.cpp is built for one
    client: str = "sluice"  # the program whose `bench --serve` drives every server


def joined(numbers):
    return ",".join(map(str, numbers))


def single(key, value):
    return {key: rows.of_samples([value])}


def serve(settings, command, port):
    with processes.server(command, port):
        found = load.measure(settings.client, port, settings.clients, settings.requests)
    return {key: rows.of_samples([value]) for key, value in found.items()}


# --- Sluice ---------------------------------------------------------------------------------------

def parse_sluice(printed, batched):
    """Of `sluice bench --json`. Batched runs decode from a context; their prefill is not a row."""
    figures = {}
    for result in json.loads(printed)["results"]:
        speed = result["tokens_per_second"]
        if result["kind"] == "prefill":
            key = None if batched else f"prefill {result['prompt_tokens']}"
        elif batched:
            key = f"decode {result['batch']}"
        else:
            key = f"decode 1 at {result['context']}"
        if key:
            figures[key] = rows.Figure(speed["median"], speed["min"], speed["max"],
                                       result.get("ceiling_share"))
    return figures


class Sluice:
    name = rows.US
    groups = rows.GROUPS

    def __init__(self, settings, program):
        self.settings, self.program = settings, program
        self.common = ["--threads", str(settings.threads),
                       *(["--isa", settings.isa] if settings.isa else [])]

    def bench(self, batched, prompts, contexts, batches):
        settings = self.settings
        printed = processes.run([
            self.program, "bench", settings.model, "--prompt-tokens", joined(prompts), "--context",
            joined(contexts), "--batch", joined(batches), "--output-tokens", str(settings.output),
            "--repeat", str(settings.repeat), *self.common, "--json"]).stdout
        return parse_sluice(printed, batched)

    def generate(self, tokens):
        return [self.program, "generate", self.settings.model, "-p", START_PROMPT, "-n",
                str(tokens), "--ignore-eos", "--temperature", "0", *self.common]

    def measure(self, group):
        settings = self.settings
        if group in ("prefill", "decode"):
            figures = self.bench(False, settings.prefills if group == "prefill" else (16,),
                                 settings.contexts if group == "decode" else (0,), (1,))
            return {key: figure for key, figure in figures.items() if key.startswith(group)}
        if group == "batched":
            return self.bench(True, (16,), (rows.BATCH_CONTEXT,), settings.batches)
        if group == "serving":
            port = processes.free_port()
            return serve(settings, [self.program, "serve", settings.model, "--port", str(port),
                                    *self.common, "--max-num-seqs",
                                    str(settings.clients), "--max-model-len", "1024"], port)
        if group == "start":
            return single("start", processes.seconds_to_first_byte(self.generate(1)))
        if group == "memory":
            return single("memory", processes.peak_memory(self.generate(MEMORY_TOKENS)))
        printed = processes.run([self.program, "perplexity", settings.model, settings.text,
                                 "--context", "512", *self.common, "--json"]).stdout
        return single("perplexity", json.loads(printed)["perplexity"])

    def kv_bytes_per_token(self):
        described = json.loads(processes.run([self.program, "inspect", self.settings.model,
                                              "--json"]).stdout)
        return described["memory"]["cpu"]["kv_bytes_per_token"]

    def main_format(self):
        """Of the layers: most tensors have it."""
        described = json.loads(processes.run([self.program, "inspect", self.settings.model,
                                              "--json"]).stdout)
        formats = {name: sums["tensors"] for name, sums in described["formats"].items()
                   if name != "F32"}
        return max(formats, key=formats.get) if formats else "F32"


# --- llama.cpp ------------------------------------------------------------------------------------

def parse_llama_bench(printed):
    """Of `llama-bench -o json`: one entry per prompt length, or per depth that decoding starts at."""
    figures = {}
    for result in json.loads(printed):
        if result["n_prompt"]:
            key = f"prefill {result['n_prompt']}"
        else:
            key = f"decode 1 at {result.get('n_depth', 0)}"
        figures[key] = rows.of_samples(result["samples_ts"])
    return figures


def parse_batched_bench(printed):
    """Of `llama-batched-bench --output-format jsonl`: sequences -> decoded tokens per second."""
    found = {}
    for line in printed.splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            found[result["pl"]] = result["speed_tg"]
    return found


def parse_llama_perplexity(printed):
    return float(re.search(r"Final estimate: PPL = ([\d.]+) \+/- ([\d.]+)", printed).group(1))


class LlamaCpp:
    name = rows.LLAMA
    groups = rows.GROUPS

    def __init__(self, settings, folder):
        self.settings, self.folder = settings, folder
        self.common = ["-m", settings.model, "-t", str(settings.threads)]

    def bench(self, *arguments):
        return parse_llama_bench(processes.run(
            [f"{self.folder}/llama-bench", *self.common, "-r", str(self.settings.repeat), "-o",
             "json", *arguments]).stdout)

    def batched(self):
        settings = self.settings
        context = (rows.BATCH_CONTEXT + settings.output) * max(settings.batches)
        speeds = {}
        for _ in range(settings.repeat):
            printed = processes.run(
                [f"{self.folder}/llama-batched-bench", *self.common, "-c", str(context), "-b",
                 "2048", "-ub", "512", "-npp", str(rows.BATCH_CONTEXT), "-ntg",
                 str(settings.output), "-npl", joined(settings.batches), "--output-format",
                 "jsonl"]).stdout
            for batch, speed in parse_batched_bench(printed).items():
                speeds.setdefault(f"decode {batch}", []).append(speed)
        return {key: rows.of_samples(samples) for key, samples in speeds.items()}

    def completion(self, tokens):
        return [f"{self.folder}/llama-completion", *self.common, "-p", START_PROMPT, "-n",
                str(tokens), "--temp", "0", "--ignore-eos", "-no-cnv", "--no-display-prompt"]

    def measure(self, group):
        settings = self.settings
        if group == "prefill":
            return self.bench("-n", "0", "-p", joined(settings.prefills))
        if group == "decode":
            return self.bench("-p", "0", "-n", str(settings.output), "-d",
                              joined(settings.contexts))
        if group == "batched":
            return self.batched()
        if group == "serving":
            port = processes.free_port()
            return serve(settings, [f"{self.folder}/llama-server", *self.common, "--port",
                                    str(port), "-np", str(settings.clients), "-c",
                                    str(1024 * settings.clients)], port)
        if group == "start":
            return single("start", processes.seconds_to_first_byte(self.completion(1)))
        if group == "memory":
            return single("memory", processes.peak_memory(self.completion(MEMORY_TOKENS)))
        done = processes.run([f"{self.folder}/llama-perplexity", *self.common, "-f", settings.text,
                              "-c", "512"])
        return single("perplexity", parse_llama_perplexity(done.stdout + done.stderr))


# --- OpenVINO GenAI -------------------------------------------------------------------------------

def parse_openvino(printed):
    """Of openvino_worker.py: the last line is a JSON object, row key -> samples."""
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    return {key: rows.of_samples(samples) for key, samples in json.loads(lines[-1]).items()}


class OpenVino:
    name = rows.OPENVINO
    groups = ("prefill", "decode", "batched", "start", "memory")

    def __init__(self, settings, python, worker):
        self.settings, self.python, self.worker = settings, python, worker

    def command(self, *arguments):
        settings = self.settings
        return [self.python, self.worker, settings.model, "--threads", str(settings.threads),
                "--repeat", str(settings.repeat), "--output", str(settings.output), *arguments]

    def measure(self, group):
        settings = self.settings
        if group == "start":
            return single("start", processes.seconds_to_first_byte(self.command("--answer", "1")))
        if group == "memory":
            return single("memory", processes.peak_memory(self.command("--answer", str(MEMORY_TOKENS))))
        arguments = {"prefill": ("--prefill", joined(settings.prefills)),
                     "decode": ("--context", joined(settings.contexts)),
                     "batched": ("--batch", joined(settings.batches), "--batch-context",
                                 str(rows.BATCH_CONTEXT))}[group]
        return parse_openvino(processes.run(self.command(*arguments)).stdout)
