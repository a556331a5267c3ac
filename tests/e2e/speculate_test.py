#!/usr/bin/env python3
"""A server that verifies drafts beside one that does not, with the demo model: the same requests get the
same answers, through the openai package and raw HTTP, and drafts are counted.

Usage: speculate_test.py PROGRAM [unittest options]. Needs the openai package: $SLUICE_PYTHON.
"""
import json
import os
import re
import subprocess
import sys
import threading
import unittest

if os.environ.get("SLUICE_PYTHON") and os.environ["SLUICE_PYTHON"] != sys.executable:
    os.execv(os.environ["SLUICE_PYTHON"], [os.environ["SLUICE_PYTHON"], *sys.argv])

import openai  # noqa: E402  (after the change of interpreter)

from serving import MODEL, Serving, model_path  # noqa: E402

PROGRAM = ""
TABLE = "".join(f"item {i}: price {i * 7 % 50} euro, weight {i * 3 % 20} kg\n" for i in range(12))
QUOTING = [{"role": "user", "content": f"Repeat this list word for word:\n{TABLE}"}]
TALK = [{"role": "user", "content": "What is photosynthesis?"}]

REQUESTS = {
    "quoting": {"messages": QUOTING, "max_tokens": 80, "temperature": 0},
    "sampled": {"messages": QUOTING, "max_tokens": 60, "temperature": 0.3, "seed": 7},
    "choices": {"messages": QUOTING, "max_tokens": 40, "temperature": 0.3, "seed": 3, "n": 3,
                "logprobs": True, "top_logprobs": 2},
    "talk": {"messages": TALK, "max_tokens": 40, "temperature": 0, "logprobs": True},
    "penalties": {"messages": QUOTING, "max_tokens": 50, "temperature": 0, "logprobs": True,
                  "frequency_penalty": 0.1, "presence_penalty": 0.1},
    "stop": {"messages": QUOTING, "max_tokens": 80, "temperature": 0, "stop": ["weight 6"]},
}


# Steps do not wait long for drafts, so that on a busy machine those of a whole answer may be late; of so many
# answers one has some that were in time.
TRIES_MAX = 20


def in_time(ask, told):
    """What ask() gives, once more and more while told(answer) is 0."""
    for _ in range(TRIES_MAX):
        answer = ask()
        if told(answer):
            break
    return answer


def accepted_of(answer):
    return answer.usage.completion_tokens_details.accepted_prediction_tokens


def details(usage):
    kept = usage["completion_tokens_details"]
    return kept["accepted_prediction_tokens"], kept["rejected_prediction_tokens"]


class SpeculateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = cls.enterClassContext(Serving(PROGRAM, "--speculate", "none"))
        # What drafts are worth is measured in time, of which neighbours and the machine's load have
        # their part, so that all are verified here. A step does not wait for drafts, and how many come
        # in time depends on the load, too: only that some do is the same everywhere.
        cls.drafting = cls.enterClassContext(
            Serving(PROGRAM, "--speculate", "ngram", "--speculate-adapt=false"))

    def ask(self, server, body):
        status, _, text = server.request("POST", "/v1/chat/completions", {"model": MODEL, **body})
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def counter(self, name):
        self.drafting.wait_idle()
        _, _, text = self.drafting.request("GET", "/metrics")
        values = re.findall(rf"^{name}{{.*}} (\S+)$", text.decode(), re.M)
        self.assertTrue(values, name)
        return sum(map(float, values))

    def test_answers_are_the_same_and_usage_counts_the_drafts(self):
        prefix = "vllm:spec_decode_num_"
        names = ["accepted_tokens_total", "accepted_tokens_per_pos_total", "draft_tokens_total"]
        before = [self.counter(prefix + name) for name in names]
        accepted = rejected = 0
        # Behind a stop string a server may verify drafts until it has read the text: they are no part of
        # an answer, and how many they are is a matter of time.
        for name, body in REQUESTS.items():
            if name == "stop":
                continue
            with self.subTest(name):
                expected = self.ask(self.plain, body)
                self.assertEqual(details(expected["usage"]), (0, 0))
                for _ in range(TRIES_MAX):
                    answer = self.ask(self.drafting, body)
                    self.assertEqual(answer["choices"], expected["choices"])
                    self.assertEqual(answer["usage"]["completion_tokens"],
                                     expected["usage"]["completion_tokens"])
                    kept, lost = details(answer["usage"])
                    self.assertLess(kept, answer["usage"]["completion_tokens"])
                    accepted, rejected = accepted + kept, rejected + lost
                    if name != "quoting" or kept and lost:
                        break
                if name == "quoting":
                    self.assertGreater(kept, 0)
        self.assertGreater(rejected, 0)
        after = [self.counter(prefix + name) for name in names]
        grown = [b - a for a, b in zip(before, after)]
        self.assertEqual(grown[0], grown[1])
        self.assertEqual(grown[2], accepted + rejected)
        self.assertGreaterEqual(grown[0], accepted)
        stop = REQUESTS["stop"]
        self.assertEqual(self.ask(self.drafting, stop)["choices"], self.ask(self.plain, stop)["choices"])

    def stream_all(self, server):
        """Texts by choice and usages of REQUESTS, streamed beside each other, by name."""
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                               timeout=300)
        texts, usages, errors = {}, {}, []

        def run(name):
            try:
                pieces = {}
                stream = client.chat.completions.create(
                    model=MODEL, stream=True, stream_options={"include_usage": True},
                    **REQUESTS[name])
                for chunk in stream:
                    for choice in chunk.choices:
                        pieces.setdefault(choice.index, []).append(choice.delta.content or "")
                    usages[name] = chunk.usage
                texts[name] = {index: "".join(parts) for index, parts in pieces.items()}
            except Exception as error:  # noqa: BLE001  (told by the main thread)
                errors.append((name, error))

        threads = [threading.Thread(target=run, args=(name,)) for name in REQUESTS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        return texts, usages

    def test_streams_and_neighbours_change_nothing(self):
        expected = {name: {choice["index"]: choice["message"]["content"]
                           for choice in self.ask(self.plain, body)["choices"]}
                    for name, body in REQUESTS.items()}
        with Serving(PROGRAM, "--speculate", "ngram") as server:  # lengths chosen by what they are worth
            self.assertEqual(self.stream_all(server)[0], expected)

        def quoting():
            texts, usages = self.stream_all(self.drafting)
            self.assertEqual(texts, expected)
            return usages["quoting"].completion_tokens_details

        kept = in_time(quoting, lambda kept: kept.accepted_prediction_tokens and kept.rejected_prediction_tokens)
        self.assertGreater(kept.accepted_prediction_tokens, 0)
        self.assertGreater(kept.rejected_prediction_tokens, 0)

    def test_suffix_drafts_from_other_answers_and_from_predictions(self):
        question = {"messages": [{"role": "user", "content": "What is gravity?"}], "max_tokens": 60,
                    "temperature": 0}
        sampled = {**question, "n": 2, "temperature": 0.5, "seed": 4}
        plain, several = self.ask(self.plain, question), self.ask(self.plain, sampled)
        text = plain["choices"][0]["message"]["content"]
        with Serving(PROGRAM, "--speculate", "suffix", "--speculate-adapt=false") as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                                   timeout=300)

            def create(body, content, **more):
                return client.chat.completions.create(
                    model=MODEL, prediction={"type": "content", "content": content}, **body, **more)

            answer = in_time(lambda: create(question, text), accepted_of)
            self.assertEqual(answer.choices[0].message.content, text)
            self.assertGreater(accepted_of(answer), 0)
            # It stands in the answer before, too, which the server has learned by now.
            server.wait_idle()
            kept = in_time(lambda: details(self.ask(server, question)["usage"])[0], int)
            self.assertGreater(kept, 0)
            parts = [{"type": "text", "text": part} for part in text.split("\n")]
            answer = create(sampled, parts)
            self.assertEqual([choice.message.content for choice in answer.choices],
                             [choice["message"]["content"] for choice in several["choices"]])
            *pieces, last = in_time(lambda: list(create(question, text, stream=True,
                                                        stream_options={"include_usage": True})),
                                    lambda found: accepted_of(found[-1]))
            self.assertEqual("".join(p.choices[0].delta.content or "" for p in pieces), text)
            self.assertGreater(accepted_of(last), 0)
            self.assertIsNotNone(last.usage.completion_tokens_details.rejected_prediction_tokens)
            for name, body in REQUESTS.items():
                with self.subTest(name):
                    self.assertEqual(self.ask(server, body)["choices"],
                                     self.ask(self.plain, body)["choices"])
            for content, said in {5: "prediction.content", "word " * 20000: "the context"}.items():
                with self.assertRaisesRegex(openai.BadRequestError, said):
                    create(question, content)

    def test_a_second_model_drafts(self):
        # The model itself, so that its greedy drafts are right.
        with Serving(PROGRAM, "--speculate", "model", "--draft-model", model_path(),
                     "--speculate-adapt=false", "--speculate-tokens", "3") as server:
            for name, body in REQUESTS.items():
                with self.subTest(name):
                    answer = self.ask(server, body)
                    self.assertEqual(answer["choices"], self.ask(self.plain, body)["choices"])
                    kept, lost = details(answer["usage"])
                    self.assertGreater(kept, 5)  # these are made within the steps, on every machine
                    if name == "talk":
                        self.assertEqual(lost, 0)

    def test_the_head_for_the_demo_model_drafts(self):
        head = os.path.join(os.path.dirname(__file__), "..", "..", "models", "smollm2-135m-instruct-eagle3")
        with Serving(PROGRAM, "--draft-model", head, "--speculate-adapt=false") as server:
            for name, body in REQUESTS.items():
                with self.subTest(name):
                    answer = self.ask(server, body)
                    self.assertEqual(answer["choices"], self.ask(self.plain, body)["choices"])
                    self.assertGreater(details(answer["usage"])[0], 0)

    def test_a_second_model_that_cannot_draft_is_refused_in_a_sentence(self):
        llama = os.path.join(os.path.dirname(__file__), "..", "golden", "models", "llama")
        for options, said in {("--speculate", "model"): "name it with --draft-model",
                              ("--draft-model", llama): "it has 320 tokens, not",
                              ("--draft-model", "/no/such"): "/no/such",
                              ("--draft-model", llama, "--speculate", "none"): "of no use"}.items():
            done = subprocess.run([PROGRAM, "generate", model_path(), "-p", "a", *options],
                                  capture_output=True, text=True)
            self.assertIn(done.returncode, (2, 3), done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)

    def test_generate_tells_the_accepted_drafts(self):
        command = [PROGRAM, "generate", model_path(), "--chat", "-n", "60", "--temperature", "0",
                   "-p", QUOTING[0]["content"]]
        plain = subprocess.run([*command, "--speculate", "none"], capture_output=True, text=True,
                               check=True)
        ngram = ["--speculate", "ngram", "--speculate-adapt=false"]  # as above: all are verified
        drafting = in_time(lambda: subprocess.run([*command, *ngram], capture_output=True, text=True, check=True),
                           lambda done: "drafts accepted" in done.stderr)
        self.assertEqual(drafting.stdout, plain.stdout)
        self.assertRegex(drafting.stderr, r"\d+ of \d+ drafts accepted")
        self.assertNotIn("drafts", plain.stderr)

        def accepted():
            answer = subprocess.run([*command, *ngram, "--json"], capture_output=True, text=True,
                                    check=True)
            return details(json.loads(answer.stdout)["usage"])[0]

        self.assertGreater(in_time(accepted, int), 0)

    def test_wrong_values_are_refused_in_a_sentence(self):
        for options, said in {("--speculate", "medusa"): "choose auto, none, ngram, suffix, mtp, model, eagle, eagle3 or block",
                              ("--speculate-tokens", "0"): "--speculate-tokens",
                              ("--speculate-tokens", "9"): "--speculate-tokens"}.items():
            done = subprocess.run([PROGRAM, "generate", model_path(), "-p", "a", *options],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
