#!/usr/bin/env python3
"""Programs that measure and use servers, unchanged, against this one: lm-eval, guidellm and aider.

Usage: programs_test.py PROGRAM [unittest options]

Each is installed in an environment of its own in $SLUICE_CLIENTS, by scripts/test --clients.
"""
import glob
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

from serving import MODEL, Serving

PROGRAM = ""
FACTS = [
    {"question": "The capital of France is", "choices": ["Paris", "a banana"], "answer": 0},
    {"question": "Two and two is", "choices": ["purple", "four"], "answer": 1},
    {"question": "The sky is", "choices": ["blue", "angry at me"], "answer": 0},
]


class ProgramCase(unittest.TestCase):
    """A folder for each test, and one server."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Serving(PROGRAM))

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return path

    def run_client(self, environment, program, *arguments, **variables):
        """Runs it to its good end. What it keeps beside its results lands in the folder."""
        command = [os.path.join(os.environ["SLUICE_CLIENTS"], environment, "bin", program), *arguments]
        own = {"HOME": self.folder, "HF_HUB_OFFLINE": "1", "HF_HOME": self.folder, **variables}
        done = subprocess.run(command, cwd=self.folder, env={**os.environ, **own}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        return done.stdout


class LmEvalTest(ProgramCase):
    def setUp(self):
        super().setUp()
        lines = "\n".join(json.dumps(fact) for fact in FACTS)
        shared = {"dataset_path": "json", "test_split": "test", "doc_to_text": "{{question}}",
                  "dataset_kwargs": {"data_files": {"test": self.write("facts.jsonl", lines)}}}
        self.write("facts.yaml", {  # JSON is YAML, too
            **shared, "task": "facts", "output_type": "multiple_choice",
            "doc_to_choice": "{{choices}}", "doc_to_target": "answer",
            "metric_list": [{"metric": "acc"}]})
        self.write("says.yaml", {
            **shared, "task": "says", "output_type": "generate_until",
            "doc_to_target": "{{choices[answer]}}",
            "generation_kwargs": {"until": ["."], "max_gen_toks": 8, "temperature": 0.0},
            "metric_list": [{"metric": "exact_match"}]})

    def evaluate(self, model, path, tasks, *options):
        """The samples of the tasks by name."""
        base_url, out = self.server.url + path, tempfile.mkdtemp(dir=self.folder)
        self.run_client(
            "lm-eval", "lm_eval", "--model", model, "--model_args",
            f"model={MODEL},base_url={base_url},max_retries=1,{options[0]}", "--include_path", ".",
            "--tasks", ",".join(tasks), "--output_path", out, "--log_samples", *options[1:])
        found = {}
        for task in tasks:
            (name,) = glob.glob(os.path.join(out, "*", f"samples_{task}_*.jsonl"))
            with open(name, encoding="utf-8") as file:
                found[task] = sorted(map(json.loads, file), key=lambda sample: sample["doc_id"])
        return found

    def log_likelihood(self, question, choice):
        """By the server's own words: of the tokens behind the question's."""
        count = self.server.json("POST", "/tokenize", {"prompt": question})[1]["count"]
        _, answer = self.server.json(
            "POST", "/v1/completions", {"prompt": f"{question} {choice}", "max_tokens": 0, "echo": True,
                                        "logprobs": 1})
        return sum(answer["choices"][0]["logprobs"]["token_logprobs"][count:])

    def test_completions(self):
        for tokenized in ("True", "False"):
            with self.subTest(tokenized=tokenized):
                samples = self.evaluate(
                    "local-completions", "/v1/completions", ["facts", "says"],
                    f"num_concurrent=2,tokenizer_backend=remote,tokenized_requests={tokenized}")
                for fact, sample in zip(FACTS, samples["facts"], strict=True):
                    self.assertEqual(sample["acc"], 1.0, sample)
                    for choice, response in zip(fact["choices"], sample["filtered_resps"]):
                        self.assertTrue(math.isclose(
                            float(response[0]), self.log_likelihood(fact["question"], choice),
                            abs_tol=1e-3))
                self.check_texts(samples["says"])

    def check_texts(self, samples):
        for fact, sample in zip(FACTS, samples, strict=True):
            _, answer = self.server.json(
                "POST", "/v1/completions", {"prompt": fact["question"], "max_tokens": 8,
                                            "temperature": 0, "stop": ["."]})
            self.assertEqual(sample["resps"][0][0], answer["choices"][0]["text"])

    def test_chat(self):
        samples = self.evaluate("local-chat-completions", "/v1/chat/completions", ["says"],
                                "num_concurrent=1", "--apply_chat_template")
        for fact, sample in zip(FACTS, samples["says"], strict=True):
            _, answer = self.server.json(
                "POST", "/v1/chat/completions",
                {"messages": [{"role": "user", "content": fact["question"]}], "max_tokens": 8,
                 "temperature": 0, "stop": ["."]})
            self.assertEqual(sample["resps"][0][0], answer["choices"][0]["message"]["content"])


class GuidellmTest(ProgramCase):
    def test_a_short_run(self):
        prompts = ["What is photosynthesis?", "Name three colours.", "Count to five.", "Say a word."]
        data = self.write("prompts.jsonl", "\n".join(json.dumps({"prompt": p}) for p in prompts))
        for request_type in ("chat_completions", "text_completions"):
            with self.subTest(request_type):
                self.run_client(
                    "guidellm", "guidellm", "benchmark", "run", "--target", self.server.url,
                    "--rate-type", "concurrent", "--rate", "2", "--max-requests", "4",
                    "--data", data, "--data-args", '{"prompt_column": "prompt"}',
                    "--backend-args", '{"max_output_tokens": 8}', "--output-path", "out.json",
                    "--disable-progress", GUIDELLM__PREFERRED_ROUTE=request_type)
                with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
                    (benchmark,) = json.load(file)["benchmarks"]
                totals = benchmark["request_totals"]
                self.assertEqual((totals["successful"], totals["errored"]), (4, 0))
                for request in benchmark["requests"]["successful"]:
                    self.assertEqual(request["request_type"], request_type)
                    self.assertGreater(request["prompt_tokens"], 0)
                    self.assertTrue(0 < request["output_tokens"] <= 8)


class AiderTest(ProgramCase):
    BEFORE = 'def greet():\n    return "hello"\n'
    AFTER = 'def greet():\n    return "goodbye"\n'

    def test_an_edit_of_a_file(self):
        def git(*arguments):
            return subprocess.run(
                ["git", "-c", "user.name=Tester", "-c", "user.email=tester@localhost", *arguments],
                cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout

        self.write("greet.py", self.BEFORE)
        git("init", "--quiet")
        git("add", "greet.py")
        git("commit", "--quiet", "--message", "Greet")
        # The demo model writes no code; it is held to what a larger one would write.
        answer = f"greet.py\n```\n{self.AFTER}```\n"
        name = "openai/" + MODEL
        self.write("settings.yml", [{
            "name": name, "edit_format": "whole", "use_temperature": 0, "extra_params": {
                "extra_body": {"structured_outputs": {"choice": [answer]}}}}])
        self.run_client(
            "aider", "aider", "--model", name, "--model-settings-file", "settings.yml",
            "--no-check-update", "--analytics-disable", "--no-show-model-warnings",
            "--no-show-release-notes", "--no-pretty", "--no-gitignore", "--no-auto-commits",
            "--yes-always", "--message", "Make greet return goodbye.", "greet.py",
            OPENAI_API_BASE=self.server.url + "/v1", OPENAI_API_KEY="none",
            LITELLM_LOCAL_MODEL_COST_MAP="True")
        with open(os.path.join(self.folder, "greet.py"), encoding="utf-8") as file:
            self.assertEqual(file.read(), self.AFTER)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
