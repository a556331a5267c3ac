#!/usr/bin/env python3
"""What a server writes while it starts and works: its log and the count of its requests.

Usage: log_test.py PROGRAM [unittest options]

Needs no model but a random one of a few hundred kilobytes. Standard library only.
"""
import json
import os
import re
import sys
import tempfile
import time
import unittest

from serving import ENDLESS, Serving, bare_model, post, read_head

PROGRAM = ""
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "gguf",
                     "llama-F32.gguf")
GOOD = {"prompt": "a b c", "max_tokens": 2}


def log_of(work, *options, model=MODEL):
    """The lines that a server writes while work(server) runs, those of its start and end among them."""
    with tempfile.TemporaryFile("w+") as errors:
        with Serving(PROGRAM, *options, model=model, stderr=errors) as server:
            work(server)
        errors.seek(0)
        return errors.read().splitlines()


def three(server):
    headers = {"Content-Type": "application/json", "X-Request-Id": "run-7"}
    server.request("POST", "/v1/completions", GOOD, headers)
    server.request("POST", "/v1/completions", {**GOOD, "no_such_field": 1})
    server.request("GET", "/live")
    server.request("GET", "/nowhere")


def of_requests(lines):
    """What was said behind the start. The last request's line may come after that of the end."""
    return [line for line in lines[4:] if " info stopping: " not in line]


class LogTest(unittest.TestCase):
    def test_the_start_is_four_lines_and_the_address(self):
        lines = log_of(lambda server: None)
        self.assertRegex(lines[0], " info model: loading .*llama-F32.gguf")
        self.assertRegex(lines[1], " info device: .*kernels ")
        self.assertRegex(lines[2], " info memory: .*KV cache up to .*room for up to ")
        self.assertRegex(lines[3], " info answers: tool calls told apart as none, thinking as none")
        self.assertRegex(lines[4], " info stopping: ")
        self.assertNotIn("\r", "".join(lines))

    def test_each_request_has_a_line_and_errors_too(self):
        lines = of_requests(log_of(three))
        self.assertEqual(len(lines), 3, lines)
        # Each is written when its answer is out, which the client of the next may know before.
        for words in (r" info POST /v1/completions 200 in \d+ ms: \d+ prompt tokens.*, "
                      r"2 tokens, length; id run-7, from 127\.0\.0\.1$",
                      " warning POST /v1/completions 400 in .*no_such_field.*; id ",
                      " warning GET /nowhere 404 in .*there is no path"):
            self.assertEqual(len([line for line in lines if re.search(words, line)]), 1, lines)

    def test_fewer_may_be_asked_for(self):
        self.assertEqual(len(of_requests(log_of(three, "--log-requests", "errors"))), 2)
        self.assertEqual(len(of_requests(log_of(three, "--log-requests", "none"))), 0)
        lines = log_of(three, "--log-level", "warning")
        self.assertEqual([line.split()[2] for line in lines], ["warning", "warning"], lines)

    def test_json_is_an_object_a_line(self):
        lines = [json.loads(line) for line in log_of(three, "--log-format", "json")]
        for line in lines:
            self.assertEqual(list(line)[:3], ["time", "level", "message"])
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["level"], ("info", "warning", "error"))
        self.assertTrue(all(len(line) == 3 for line in lines if "status" not in line), lines)
        requests = {(line["method"], line["path"], line["status"]): line for line in lines if "status" in line}
        self.assertEqual(len(requests), 3, lines)
        good = requests["POST", "/v1/completions", 200]
        self.assertGreater(good.pop("duration_ms"), 0)
        self.assertGreater(good.pop("prompt_tokens"), 0)
        for name in ("queue_ms", "prefill_ms", "decode_ms"):
            self.assertGreaterEqual(good.pop(name), 0)
        facts = {name: value for name, value in good.items() if name not in ("time", "message")}
        self.assertEqual(facts, {
            "level": "info", "status": 200, "method": "POST", "path": "/v1/completions", "request_id": "run-7",
            "client": "127.0.0.1", "model": "llama-F32", "cached_tokens": 0, "completion_tokens": 2,
            "finish_reason": "length"})
        refused = requests["POST", "/v1/completions", 400]
        self.assertEqual((refused["level"], refused["model"]), ("warning", "llama-F32"))
        self.assertIn("no_such_field", refused["error"])
        self.assertTrue(refused["request_id"])
        self.assertNotIn("model", requests["GET", "/nowhere", 404])

    def test_json_names_the_key_and_the_reason_of_each_answer(self):
        def ask(server):
            for key in ("secret", "other"):
                headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
                server.request("POST", "/v1/completions", {**GOOD, "n": 2, "temperature": 1}, headers)

        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("secret weight=2 name=team-a\nother\n")
            keys.flush()
            lines = [json.loads(line) for line in
                     log_of(ask, "--log-format", "json", "--api-key-file", keys.name)]
        requests = [line for line in lines if "status" in line]
        self.assertEqual({line.get("key") for line in requests}, {"team-a", None})
        self.assertEqual([line["finish_reason"] for line in requests], [["length", "length"]] * 2)
        self.assertNotIn("secret", json.dumps(requests))

    def test_a_client_that_left_is_told(self):
        def leave(server):
            with server.connect() as sock:
                sock.sendall(post("/v1/completions", json.dumps(
                    {"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": True, "stream": True}).encode()))
                read_head(sock)
            server.wait_idle()

        with tempfile.TemporaryDirectory() as folder:
            (line,) = of_requests(log_of(leave, model=bare_model(folder)))
        self.assertRegex(line, r" POST /v1/completions 499 in \d+ ms.*, the client left; id ")

    def test_what_is_no_request_has_a_line(self):
        lines = log_of(lambda server: server.raw(b"hello\r\n\r\n"))
        self.assertTrue(any("what is no request 400" in line for line in lines), lines)

    def test_requests_are_counted_by_status(self):
        def check(server):
            three(server)
            counts = ["sluice_http_requests_total{" + label + "} 1\n"
                      for label in ('path="/v1/completions",status="200"', 'path="/v1/completions",status="400"',
                                    'path="/live",status="200"', 'path="other",status="404"')]
            # A request is counted when its answer is out, which its client may know before.
            end = time.monotonic() + 60
            while True:
                text = server.request("GET", "/metrics")[2].decode()
                missing = [count for count in counts if count not in text]
                if not missing or time.monotonic() > end:
                    break
                time.sleep(0.01)
            self.assertEqual(missing, [], text)

        log_of(check)

    def test_the_address_line_says_whether_keys_are_asked_for(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("secret\n")
            keys.flush()
            for options, words in (((), "no API key is asked for"),
                                   (("--api-key-file", keys.name), "with the API keys of")):
                with Serving(PROGRAM, *options, model=MODEL) as server:
                    self.assertIn(words, server.line)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
