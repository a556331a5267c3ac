#!/usr/bin/env python3
"""`sluice bench --serve`: its load on the server that it starts itself, on one that is there, and on
servers that refuse, cut, or are silent.

Usage: bench_test.py PROGRAM [unittest options]

Needs no model but a random one of a few hundred kilobytes. Standard library only.
"""
import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from serving import Serving, bare_model

PROGRAM = ""
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "gguf",
                     "llama-F32.gguf")
LOAD = ("--input-tokens", "8", "--output-tokens", "4")


def bench(*arguments):
    return subprocess.run([PROGRAM, "bench", *map(str, arguments)], capture_output=True, text=True,
                          timeout=600, check=False)


class OwnServer(unittest.TestCase):
    """The server is started in the same process."""

    def figures(self, *arguments, model=MODEL):
        done = bench(model, "--serve", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_closed_loop_has_the_lengths_and_the_fields(self):
        load = ("--input-tokens", "lognormal:12:0.5:24", "--output-tokens", "uniform:3:9",
                "--requests", 30, "--concurrency", 4, "--seed", 5, "--warmup", 3, "--detailed")
        found = self.figures(*load)
        self.assertEqual((found["completed"], found["failed"], found["num_prompts"]), (30, 0, 30))
        self.assertEqual((found["request_rate"], found["max_concurrency"]), ("inf", 4))
        self.assertLessEqual(found["max_concurrent_requests"], 4)
        self.assertEqual(found["backend"], "sluice")
        self.assertLessEqual(set(found["output_lens"]), set(range(3, 10)))
        self.assertGreater(len(set(found["output_lens"])), 4)
        self.assertLessEqual(max(found["input_lens"]), 24)
        self.assertGreater(len(set(found["input_lens"])), 5)
        self.assertEqual(sum(found["input_lens"]), found["total_input_tokens"])
        self.assertEqual(sum(found["output_lens"]), found["total_output_tokens"])
        self.assertAlmostEqual(found["output_throughput"] * found["duration"],
                               found["total_output_tokens"])
        for name in ("ttft", "tpot", "itl", "e2el"):
            for kind in ("mean", "median", "std", "p99"):
                self.assertGreaterEqual(found[f"{kind}_{name}_ms"], 0)
        for ttft, itl, whole in zip(found["ttfts"], found["itls"], found["latencies"]):
            self.assertGreater(ttft, 0)
            self.assertLessEqual(ttft + sum(itl), whole + 1e-6)
        again = self.figures(*load)
        self.assertEqual(again["input_lens"], found["input_lens"])
        self.assertEqual(again["output_lens"], found["output_lens"])

    def test_arrivals_at_a_rate_and_goodput(self):
        load = (*LOAD, "--requests", 20, "--rate", 100, "--burstiness", 0.5)
        found = self.figures(*load, "--goodput", "ttft:90000", "tpot:90000", "e2el:90000")
        self.assertEqual((found["completed"], found["request_rate"]), (20, 100))
        self.assertEqual((found["burstiness"], found["max_concurrency"]), (0.5, None))
        self.assertEqual(found["goodput_share"], 1)
        self.assertEqual(found["request_goodput"], found["request_throughput"])
        none = self.figures(*load, "--goodput", "ttft:0")
        self.assertEqual((none["request_goodput"], none["goodput_share"]), (0, 0))
        at_once = self.figures(*LOAD, "--requests", 20, "--rate", "inf", "--concurrency", 20)
        self.assertEqual((at_once["completed"], at_once["request_rate"]), (20, "inf"))

    def test_what_is_above_the_queue_is_refused_and_nothing_is_lost(self):
        # Answers that last while 300 requests are sent.
        with tempfile.TemporaryDirectory() as folder:
            found = self.figures("--input-tokens", 8, "--output-tokens", 4000, "--requests", 300,
                                 "--rate", "inf", "--max-num-seqs", 2, "--max-queue", 4,
                                 model=bare_model(folder, positions=8192))
        self.assertEqual(found["completed"] + found["failed"], 300)
        self.assertGreaterEqual(found["completed"], 4)  # the queue was full when one was refused
        self.assertEqual([failure["what"] for failure in found["failures"]], ["HTTP 429"])
        self.assertIn("--max-queue", found["failures"][0]["first_detail"])

    def test_the_table_for_people(self):
        done = bench(MODEL, "--serve", *LOAD, "--requests", 5, "--goodput", "ttft:90000")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("completed               5 of 5 requests", "time to first token",
                      "of random token ids; seed 0", "100.0 % of the requests"):
            self.assertIn(words, done.stdout)
        self.assertEqual(done.stderr, "")


class ServerThatIsThere(unittest.TestCase):
    def test_a_dataset_in_two_forms_and_a_key(self):
        with tempfile.TemporaryDirectory() as folder:
            keys, lines = os.path.join(folder, "keys"), os.path.join(folder, "lines.jsonl")
            share = os.path.join(folder, "share.json")
            with open(keys, "w", encoding="utf-8") as file:
                file.write("secret\n")
            with open(lines, "w", encoding="utf-8") as file:
                for tokens in (2, 3, 4):
                    file.write(json.dumps({"prompt": "hello", "output_len": tokens}) + "\n")
                file.write(json.dumps({"prompt": [1, 2, 3], "output_len": 5}) + "\n")
            with open(share, "w", encoding="utf-8") as file:
                json.dump([{"conversations": [{"from": "human", "value": "hello"},
                                              {"from": "gpt", "value": "the answer"}]}], file)
            with Serving(PROGRAM, "--api-key-file", keys, "--log-level", "error",
                         model=MODEL) as server:
                url = ("--serve", "--url", server.url, "--json", "--detailed")
                done = bench(*url, "--key-file", keys, "--dataset", lines)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = json.loads(done.stdout)
                self.assertEqual(found["output_lens"], [2, 3, 4, 5])
                self.assertEqual(found["input_lens"][3], 3)
                done = bench(*url, "--key-file", keys, "--dataset", share)
                self.assertEqual(done.returncode, 0, done.stderr)
                _, counted = server.json("POST", "/tokenize", {"prompt": "the answer"},
                                         {"Authorization": "Bearer secret"})
                self.assertEqual(json.loads(done.stdout)["output_lens"], [counted["count"]])
                done = bench(*url, "--dataset", lines)
                self.assertEqual(done.returncode, 1)
                self.assertIn("HTTP 401", done.stderr)
                done = bench(*url, "--key-file", keys, "--dataset", lines, "--requests", 5)
                self.assertEqual(done.returncode, 2)
                self.assertIn("the 4 prompts", done.stderr)


def piece(text, finish=None):
    return {"choices": [{"text": text, "finish_reason": finish}]}


class FakeServer(http.server.ThreadingHTTPServer):
    """A server whose answers to completions `respond(handler, body)` writes."""
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, respond):
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.respond = respond
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()
        return super().__enter__()

    def __exit__(self, *error):
        self.shutdown()
        self.thread.join()
        super().__exit__(*error)


class FakeHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):
            super().handle()

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, data):
        data = data if isinstance(data, str) else json.dumps(data)
        line = f"data: {data}\r\n\r\n".encode()
        half = len(line) // 2  # a chunk of HTTP is not an event
        for part in (line[:half], line[half:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def whole(self, tokens=2):
        self.begin()
        for _ in range(tokens):
            self.event(piece("a"))
        self.event(piece("", "length"))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        self.reply(200, {"data": [{"id": "fake"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.respond(self, body)


class OddServers(unittest.TestCase):
    def figures(self, respond, *arguments, code=0):
        with FakeServer(respond) as server:
            done = bench("--serve", "--url", server.url, "--input-tokens", 8, "--output-tokens", 2,
                         "--concurrency", 4, *arguments, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_failures_are_counted_by_their_reason(self):
        turn = iter(range(1000))
        ready = threading.Lock()

        def respond(handler, _):
            with ready:
                number = next(turn)  # the first is the client's own question
            if number % 4 == 1:
                handler.reply(429, {"error": {"message": "come later"}})
            elif number % 4 == 2:
                handler.begin()
                handler.event(piece("a"))
                handler.close_connection = True  # in the middle
            elif number % 4 == 3:
                handler.begin()
                handler.event({"error": {"message": "lost"}})
                handler.wfile.write(b"0\r\n\r\n")
            else:
                handler.whole()

        found, _ = self.figures(respond, "--requests", 40)
        self.assertEqual((found["completed"], found["failed"]), (10, 30))
        self.assertEqual({(one["what"], one["requests"]) for one in found["failures"]},
                         {("HTTP 429", 10), ("the server closed the connection", 10),
                          ("an error in the stream", 10)})
        details = {one["what"]: one["first_detail"] for one in found["failures"]}
        self.assertEqual(details["HTTP 429"], "come later")
        self.assertEqual(details["an error in the stream"], "lost")

    def test_a_connection_that_was_closed_meanwhile_is_opened_again(self):
        def respond(handler, _):
            handler.whole()
            handler.close_connection = True  # which the answer does not say

        found, _ = self.figures(respond, "--requests", 30)
        self.assertEqual((found["completed"], found["total_output_tokens"]), (30, 60))

    def test_text_where_ids_are_not_taken(self):
        def respond(handler, body):
            if isinstance(body["prompt"], str):
                handler.whole(tokens=1)
            else:
                handler.reply(400, {"error": {"message": "prompt must be a string"}})

        found, said = self.figures(respond, "--requests", 3)
        self.assertEqual(found["completed"], 3)
        self.assertIn("prompt must be a string", said)

    def test_a_silent_server_and_one_that_does_not_stream(self):
        turn = iter(range(1000))
        silent = threading.Event()

        def say_nothing(handler, _):
            if next(turn) == 0:
                handler.whole()
            else:
                silent.wait()
                handler.close_connection = True

        found = self.figures(say_nothing, "--requests", 1, "--timeout", 8, code=1)[0]
        silent.set()
        self.assertEqual(found["failures"], [{"what": "no answer in time", "requests": 1,
                                              "first_detail": "no byte came for 8 s"}])
        with FakeServer(lambda handler, _: handler.reply(200, piece("a", "stop"))) as server:
            done = bench("--serve", "--url", server.url)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no stream of completions", done.stderr)

    def test_an_interrupt_prints_what_there_is(self):
        turn, reached, end = iter(range(1000)), threading.Event(), threading.Event()

        def respond(handler, _):
            if next(turn) < 4:
                return handler.whole()
            reached.set()
            end.wait()
            handler.close_connection = True

        with FakeServer(respond) as server:
            with subprocess.Popen([PROGRAM, "bench", "--serve", "--url", server.url,
                                   "--concurrency", "1", "--requests", "9", "--json"],
                                  stdout=subprocess.PIPE, text=True) as process:
                self.assertTrue(reached.wait(60))
                process.send_signal(signal.SIGINT)
                found = json.loads(process.communicate(timeout=60)[0])
            end.set()
        self.assertEqual(process.returncode, 130)
        self.assertTrue(found["interrupted"])
        self.assertEqual((found["completed"], found["cut_off"], found["not_sent"]), (3, 1, 5))


class Errors(unittest.TestCase):
    def refused(self, code, *arguments):
        done = bench(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_wrong_options_are_told_before_a_model_is_loaded(self):
        for words, arguments in {
                "no distribution of lengths": ("--input-tokens", "normal:5:1"),
                "--output-tokens": ("--output-tokens", "uniform:9:3"),
                "--rate 0 sends nothing": ("--rate", "0"),
                "--burstiness -1": ("--rate", "5", "--burstiness", "-1"),
                "about arrivals at a --rate": ("--burstiness", "2"),
                "is no limit of milliseconds": ("--goodput", "itl:5"),
                "means nothing with --serve": ("--batch", "8"),
                "not in range 1 to 1024": ("--concurrency", "2000"),
                "is not the address of a server": ("--url", "https://localhost:1"),
        }.items():
            model = () if "--url" in arguments else ("none.gguf",)
            self.assertIn(words, self.refused(2, *model, "--serve", *arguments))
        self.assertIn("MODEL before them", self.refused(2, "--serve", "--goodput", "ttft:5",
                                                        "none.gguf"))
        self.assertIn("goes with --serve", self.refused(2, "none.gguf", "--rate", "5"))
        self.assertIn("go with --serve", self.refused(2, "none.gguf", "--output-tokens",
                                                      "uniform:1:2"))
        self.assertIn("leave one out", self.refused(2, "none.gguf", "--serve", "--url",
                                                    "http://localhost:1"))

    def test_nobody_there(self):
        with FakeServer(None) as server:
            url = server.url
        said = self.refused(1, "--serve", "--url", url)
        self.assertIn(f"answers at {url}/v1/models: Connection refused", said)

    def test_a_line_of_a_dataset_that_is_no_json(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.write('{"prompt": "a"}\n{"prompt"\n')
            file.flush()
            self.assertIn("line 2: ", self.refused(2, "none.gguf", "--serve", "--dataset",
                                                   file.name))

    def test_a_request_that_is_longer_than_the_context(self):
        said = self.refused(2, MODEL, "--serve", "--input-tokens", "30", "--output-tokens", "30",
                            "--max-model-len", "48")
        self.assertIn("more than the 48 tokens", said)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
