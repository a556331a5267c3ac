#!/usr/bin/env python3
"""Several models in one server: which one answers, how they are loaded and unloaded, and what they may
take of the memory.

Usage: models_test.py PROGRAM [unittest options]

Needs no model but random ones of a few hundred kilobytes. Standard library only.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from serving import LASTING, Serving, bare_model, post, read_all, read_head

PROGRAM = ""
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
LLAMA = os.path.join(GOLDEN, "gguf", "llama-F32.gguf")
QWEN = os.path.join(GOLDEN, "gguf", "qwen2-F32.gguf")
ENCODER = os.path.join(GOLDEN, "encoders", "bert")
KV = ("--kv-memory", "4MiB")


def states(server):
    _, answer = server.json("GET", "/v1/models")
    return {model["id"]: model["status"]["value"] for model in answer["data"]}


def complete(server, model, **fields):
    return server.json("POST", "/v1/completions",
                       {"model": model, "prompt": "a b c", "max_tokens": 4, "temperature": 0, **fields})


class SeveralTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(
            Serving(PROGRAM, "b=" + QWEN, "e=" + ENCODER, *KV, "--preload", "llama-F32,b", model=LLAMA))

    def test_a_each_is_loaded_as_told(self):
        self.assertIn('serving "llama-F32", "b", "e" at', self.server.line)
        self.assertEqual(states(self.server), {"llama-F32": "loaded", "b": "loaded", "e": "unloaded"})

    def test_b_each_answers_for_itself(self):
        alone = {}
        for name, path in (("llama-F32", LLAMA), ("b", QWEN)):
            with Serving(PROGRAM, *KV, "--served-model-name", name, model=path) as server:
                alone[name] = complete(server, name)[1]["choices"]
        self.assertNotEqual(alone["llama-F32"][0]["text"], alone["b"][0]["text"])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            names = ["llama-F32", "b"] * 8
            for name, (status, answer) in zip(names, pool.map(lambda n: complete(self.server, n), names)):
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["model"], name)
                self.assertEqual(answer["choices"], alone[name])

    def test_c_a_request_loads_its_model(self):
        status, answer = self.server.json("POST", "/v1/embeddings", {"model": "e", "input": "a b"})
        self.assertEqual(status, 200, answer)
        self.assertEqual(states(self.server)["e"], "loaded")
        status, answer = complete(self.server, "e")
        self.assertEqual(status, 400, answer)  # it embeds

    def test_d_one_that_is_not_there_is_told(self):
        status, answer = complete(self.server, "x")
        self.assertEqual(status, 404)
        self.assertEqual(answer["error"]["message"],
                         'the model "x" is not served here; this server has "llama-F32", "b", "e"')

    def test_e_metrics_name_the_model(self):
        _, _, text = self.server.request("GET", "/metrics")
        lines = text.decode().splitlines()
        for name in ("llama-F32", "b"):
            self.assertIn(f'vllm:num_requests_running{{model_name="{name}"}} 0', lines)
        heads = [line for line in lines if line.startswith("# TYPE ")]
        self.assertEqual(len(heads), len(set(heads)))

    def test_f_a_batch_reaches_each_models(self):
        lines = [json.dumps({"custom_id": name, "method": "POST", "url": "/v1/completions",
                             "body": {"model": name, "prompt": "a", "max_tokens": 1}})
                 for name in ("llama-F32", "b", "x")]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "in.jsonl")
            with open(path, "w") as file:
                file.write("\n".join(lines))
            boundary = "xyz"
            body = (f"--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
                    f"--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; "
                    f"filename=\"in.jsonl\"\r\n\r\n" + "\n".join(lines) + f"\r\n--{boundary}--\r\n")
        status, _, answer = self.server.request(
            "POST", "/v1/files", body.encode(),
            {"Content-Type": f"multipart/form-data; boundary={boundary}"})
        self.assertEqual(status, 200, answer)
        _, batch = self.server.json("POST", "/v1/batches", {
            "input_file_id": json.loads(answer)["id"], "endpoint": "/v1/completions",
            "completion_window": "24h"})
        turn = threading.Event()
        while batch["status"] not in ("completed", "failed"):
            turn.wait(0.05)
            _, batch = self.server.json("GET", "/v1/batches/" + batch["id"])
        self.assertEqual(batch["request_counts"], {"total": 3, "completed": 2, "failed": 1})
        _, _, answers = self.server.request("GET", f"/v1/files/{batch['output_file_id']}/content")
        for line in answers.decode().splitlines():
            answer = json.loads(line)
            self.assertEqual(answer["response"]["body"]["model"], answer["custom_id"])


class OrderTest(unittest.TestCase):
    def test_models_come_and_go_while_others_answer(self):
        with Serving(PROGRAM, "b=" + QWEN, *KV, model="a=" + LLAMA) as server:
            expected = complete(server, "a")[1]["choices"]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                going = [pool.submit(complete, server, "a") for _ in range(40)]
                for _ in range(3):
                    status, answer = server.json("POST", "/v1/models/b/unload")
                    self.assertEqual((status, answer["status"]["value"]), (200, "unloaded"))
                    status, answer = server.json("POST", "/models/load", {"model": "b"})
                    self.assertEqual((status, answer["success"], answer["status"]["value"]),
                                     (200, True, "loaded"))
                for one in going:
                    status, answer = one.result()
                    self.assertEqual((status, answer["choices"]), (200, expected))

    def test_requests_for_a_model_that_leaves_are_answered(self):
        with Serving(PROGRAM, "b=" + QWEN, *KV, model="a=" + LLAMA) as server:
            expected = complete(server, "b", max_tokens=16)[1]["choices"]
            with concurrent.futures.ThreadPoolExecutor(9) as pool:
                going = [pool.submit(complete, server, "b", max_tokens=16) for _ in range(40)]
                leaving = [pool.submit(server.json, "POST", "/v1/models/b/unload") for _ in range(3)]
                for one in leaving:
                    self.assertEqual(one.result()[0], 200)
                for one in going:
                    status, answer = one.result()
                    self.assertEqual((status, answer.get("choices")), (200, expected), answer)

    def test_a_stream_ends_before_its_model_leaves(self):
        with tempfile.TemporaryDirectory() as folder, \
                Serving(PROGRAM, "b=" + bare_model(folder), "--kv-memory", "256MiB",
                        model="a=" + LLAMA) as server:
            with server.connect() as sock:
                body = json.dumps({**LASTING, "model": "b", "stream": True}).encode()
                sock.sendall(post("/v1/completions", body, "Connection: close\r\n"))
                read_head(sock)
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    leaving = pool.submit(server.json, "POST", "/v1/models/b/unload")
                    data = read_all(sock)
                    self.assertEqual(leaving.result()[0], 200)
                # Its own time ended it, long after the order.
                self.assertIn(b'"finish_reason":"timeout"', data)
                self.assertIn(b"data: [DONE]", data)
                self.assertEqual(states(server)["b"], "unloaded")

    def test_without_autoload_a_request_is_refused(self):
        with Serving(PROGRAM, "b=" + QWEN, *KV, "--no-models-autoload", "--preload", "none",
                     model="a=" + LLAMA) as server:
            status, answer = complete(server, "b")
            self.assertEqual(status, 503)
            self.assertIn("POST /v1/models/NAME/load", answer["error"]["message"])
            self.assertEqual(server.json("POST", "/v1/models/b/load")[0], 200)
            self.assertEqual(complete(server, "b")[0], 200)
            self.assertEqual(states(server), {"a": "unloaded", "b": "loaded"})

    def test_only_a_key_of_an_administrator_orders(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "keys")
            with open(keys, "w") as file:
                file.write("one\ntwo admin\n")
            with Serving(PROGRAM, *KV, "--api-key-file", keys, model="a=" + LLAMA) as server:
                for key, status in (("one", 403), ("three", 401), ("two", 200)):
                    answer = server.request("POST", "/v1/models/a/unload", b"", {
                        "Authorization": f"Bearer {key}", "Content-Type": "application/json"})
                    self.assertEqual(answer[0], status, answer)


class BudgetTest(unittest.TestCase):
    def test_what_does_not_fit_is_refused_before_another_is_touched(self):
        with Serving(PROGRAM, "b=" + QWEN, *KV, "--memory-budget", "9MiB", "--preload", "a",
                     model="a=" + LLAMA) as server:
            before = complete(server, "a")
            status, answer = complete(server, "b")
            self.assertEqual(status, 503, answer)
            self.assertIn("--memory-budget 9 MiB", answer["error"]["message"])
            self.assertEqual(states(server), {"a": "loaded", "b": "unloaded"})
            self.assertEqual(complete(server, "a")[1]["choices"], before[1]["choices"])
            _, answer = server.json("GET", "/v1/models/b")
            self.assertTrue(answer["status"]["failed"])
            self.assertEqual(server.json("POST", "/v1/models/a/unload")[0], 200)
            self.assertEqual(complete(server, "b")[0], 200)
            self.assertEqual(complete(server, "a")[0], 503)
            self.assertEqual(states(server), {"a": "unloaded", "b": "loaded"})

    def test_a_start_that_does_not_fit_says_so(self):
        for words, code, said in (
                (("a=" + LLAMA, *KV, "--memory-budget", "1MiB"), 4, "of --memory-budget 1 MiB"),
                (("a=" + LLAMA, "a=" + QWEN), 2, 'two models have the name "a"'),
                (("a=" + LLAMA, "b=/nowhere.gguf"), 3, "/nowhere.gguf"),
                (("a=" + LLAMA, "b=" + QWEN, "--preload", "c"), 2, '--preload names "c"')):
            done = subprocess.run([PROGRAM, "serve", *words, "--port", "0"], capture_output=True, text=True,
                                  timeout=120, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
