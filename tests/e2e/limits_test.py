#!/usr/bin/env python3
"""What bounds and shares the server: deadlines, keys that change, a full queue, files and batches of
the openai client, and sluice batch.

Usage: limits_test.py PROGRAM [unittest options]

Needs the openai package ($SLUICE_PYTHON) and a published chat template of $SLUICE_FIXTURES.
"""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

if os.environ.get("SLUICE_PYTHON") and os.environ["SLUICE_PYTHON"] != sys.executable:
    os.execv(os.environ["SLUICE_PYTHON"], [os.environ["SLUICE_PYTHON"], *sys.argv])

import openai  # noqa: E402  (after the change of interpreter)

from serving import ENDLESS, UNREAD, Serving, post as raw_post, read_head, tiny_model  # noqa: E402

PROGRAM = ""
LONG = {"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": True, "temperature": 0}


def read(path):
    with open(path) as file:
        return file.read()


def lines(count, **body):
    return "".join(json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": "/v1/completions",
                               "body": {"prompt": f"{i}", "max_tokens": 3, "model": "tiny", **body}})
                   + "\n" for i in range(count))


class LimitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.model = tiny_model(cls.folder, positions=2 * ENDLESS)
        cls.keys = os.path.join(cls.folder, "keys")
        with open(cls.keys, "w") as file:
            file.write("one\ntwo weight=3\n")
        cls.errors = open(os.path.join(cls.folder, "log"), "w+")
        cls.addClassCleanup(cls.errors.close)
        cls.server = cls.enterClassContext(
            Serving(PROGRAM, *UNREAD, "--device", "cpu", "--max-queue", "3", "--max-num-seqs", "2",
                    "--api-key-file", cls.keys, model=cls.model, stderr=cls.errors))

    def client(self, key="one"):
        return openai.OpenAI(base_url=self.server.url + "/v1", api_key=key, max_retries=0, timeout=60)

    def answer(self, key="one", stream=False, **more):
        return self.client(key).completions.create(
            model="tiny", prompt=LONG["prompt"], stream=stream,
            extra_body={name: value for name, value in {**LONG, **more}.items() if name != "prompt"})

    def headers(self, key="one", **more):
        return {"Content-Type": "application/json", "Authorization": f"Bearer {key}", **more}

    def wait_for_log(self, text):
        turn = threading.Event()
        while text not in read(self.errors.name):
            turn.wait(0.02)

    def test_an_answer_ends_at_its_time_with_what_has_come(self):
        answer = self.answer(timeout=2)
        self.assertEqual(answer.choices[0].finish_reason, "timeout")
        self.assertGreater(answer.usage.completion_tokens, 0)
        # While others have all places nothing can have come.
        streams = [self.answer("two", stream=True) for _ in range(2)]
        for stream in streams:
            next(iter(stream))
        status, _, body = self.server.request("POST", "/v1/completions", LONG,
                                              self.headers("two", **{"X-Request-Timeout": "0.000001"}))
        for stream in streams:
            stream.close()
        self.assertEqual((status, json.loads(body)["error"]["param"]), (504, "timeout"))

    def test_a_full_queue_says_when_to_come_back(self):
        streams = [self.answer("two", stream=True) for _ in range(2)]
        for stream in streams:
            next(iter(stream))
        waiting = []
        ask = {**LONG, "max_tokens": 1}
        # A key that has two running ones waits; the other's requests would get one of their places.
        for _ in range(3):
            thread = threading.Thread(target=self.server.request,
                                      args=("POST", "/v1/completions", ask, self.headers("two")))
            thread.start()
            waiting.append(thread)
        turn = threading.Event()
        while self.metric("vllm:num_requests_waiting") < 3:
            turn.wait(0.02)
        status, headers, _ = self.server.request("POST", "/v1/completions", ask, self.headers("two"))
        self.assertEqual(status, 429)
        self.assertGreater(int(headers["Retry-After"]), 0)
        for stream in streams:
            stream.close()
        for thread in waiting:
            thread.join()

    def test_prompts_that_wait_are_counted_in_tokens_too(self):
        ask = {"prompt": [5] * 30, "max_tokens": 1, "ignore_eos": True}
        with Serving(PROGRAM, *UNREAD, "--device", "cpu", "--max-num-seqs", "1", "--max-queue-tokens", "50",
                     model=self.model) as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
            def post(_):
                return server.request("POST", "/v1/completions", ask)

            with server.connect() as sock:
                sock.sendall(raw_post("/v1/completions", json.dumps({**LONG, "stream": True}).encode()))
                read_head(sock)
                waiting = []
                # Behind the first there is room for 20 tokens, so that a second one is let in.
                for count in (1, 2):
                    waiting.append(pool.submit(post, None))
                    turn = threading.Event()
                    while server.metric("vllm:num_requests_waiting") < count:
                        turn.wait(0.02)
                for status, headers, body in pool.map(post, range(12)):
                    self.assertEqual(status, 429, body)
                    self.assertIn("--max-queue-tokens", json.loads(body)["error"]["message"])
                    self.assertGreater(int(headers["Retry-After"]), 0)
            for one in waiting:  # the stream's client has left
                self.assertEqual(one.result()[0], 200)
            self.assertEqual(post(None)[0], 200)

    def metric(self, name):
        _, _, text = self.server.request("GET", "/metrics", None, self.headers())
        return next(float(line.split()[-1]) for line in text.decode().splitlines()
                    if line.startswith(name))

    def test_another_key_does_not_wait_for_answers_to_end(self):
        streams = [self.answer("one", stream=True) for _ in range(2)]
        for stream in streams:
            next(iter(stream))
        answer = self.client("two").completions.create(model="tiny", prompt="b", max_tokens=2)
        self.assertEqual(answer.usage.completion_tokens, 2)
        for stream in streams:  # still running
            self.assertIsNone(next(iter(stream)).choices[0].finish_reason)
            stream.close()

    def test_keys_are_read_again(self):
        with open(self.keys, "w") as file:
            file.write("one\ntwo weight=3\nthree\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.wait_for_log("were read again")
        self.client("three").models.list()
        with open(self.keys, "w") as file:
            file.write("four weight=none\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.wait_for_log(f"the API keys stay as they were: the key file \"{self.keys}\", line 1, has "
                          "weight=\"none\"")
        self.client("three").models.list()
        with self.assertRaises(openai.AuthenticationError):
            self.client("four").models.list()

    def test_batches_of_the_client(self):
        client = self.client()
        file = client.files.create(file=("in.jsonl", lines(12).encode()), purpose="batch")
        self.assertEqual([kept.id for kept in client.files.list()], [file.id])
        batch = client.batches.create(input_file_id=file.id, endpoint="/v1/completions",
                                      completion_window="24h", metadata={"a": "b"})
        turn = threading.Event()
        while (batch := client.batches.retrieve(batch.id)).status != "completed":
            self.assertIn(batch.status, ("validating", "in_progress", "finalizing"))
            turn.wait(0.05)
        self.assertEqual((batch.request_counts.completed, batch.request_counts.failed), (12, 0))
        answers = [json.loads(line) for line in
                   client.files.content(batch.output_file_id).text.splitlines()]
        self.assertEqual({answer["custom_id"] for answer in answers},
                         {f"line-{i}" for i in range(12)})
        self.assertEqual({answer["response"]["status_code"] for answer in answers}, {200})
        self.assertEqual([kept.id for kept in client.batches.list()], [batch.id])
        for ask in (lambda: self.client("two").files.retrieve(file.id),
                    lambda: self.client("two").batches.retrieve(batch.id)):
            with self.assertRaises(openai.NotFoundError):
                ask()
        slow = client.files.create(file=("in.jsonl", lines(5, max_tokens=ENDLESS, ignore_eos=True)
                                         .encode()), purpose="batch")
        batch = client.batches.create(input_file_id=slow.id, endpoint="/v1/completions",
                                      completion_window="24h")
        self.assertEqual(client.batches.cancel(batch.id).status, "cancelling")
        while (batch := client.batches.retrieve(batch.id)).status != "cancelled":
            turn.wait(0.05)
        self.assertTrue(client.files.delete(file.id).deleted)
        with self.assertRaises(openai.NotFoundError):
            client.files.content(file.id)

    def test_a_file_of_lines_without_a_server(self):
        sent, answers = (os.path.join(self.folder, name) for name in ("in.jsonl", "out.jsonl"))
        with open(sent, "w") as file:
            file.write(lines(6))
        command = [PROGRAM, "batch", self.model, sent, answers, "--device", "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("6 lines answered, 0 with an error, 0 answered before", done.stderr)
        whole = read(answers)
        self.assertEqual(len(whole.splitlines()), 6)
        with open(answers, "w") as file:
            file.write(whole[:-20])
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertIn("1 line answered, 0 with an error, 5 answered before", done.stderr)
        ids = [json.loads(line)["custom_id"] for line in read(answers).splitlines()]
        self.assertEqual(sorted(ids), [f"line-{i}" for i in range(6)])

    def test_lines_of_a_file_that_fail_are_told_by_the_exit_code(self):
        sent, answers = (os.path.join(self.folder, name) for name in ("bad.jsonl", "bad.out"))
        with open(sent, "w") as file:
            file.write(lines(1) + lines(2, max_tokens=-7).splitlines()[1] + "\nnothing\n")
        command = [PROGRAM, "batch", self.model, sent, answers, "--device", "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1 line answered, 2 with an error, 0 answered before", done.stderr)
        self.assertIn("the answers of 2 lines are errors", done.stderr)
        whole = read(answers)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("0 lines answered, 0 with an error, 1 answered before, 2 with an error before",
                      done.stderr)
        self.assertEqual(read(answers), whole)
        with open(sent, "w") as file:
            file.write(lines(1) * 2)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('line 2: custom_id is "line-0", as in line 1;', done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
