#!/usr/bin/env python3
"""The server with the demo model, through the openai package, curl and raw sockets.

Usage: server_test.py PROGRAM [--short] [unittest options]

--short leaves out the tests that need a fast build. Needs the openai package: $SLUICE_PYTHON.
"""
import contextlib
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

if os.environ.get("SLUICE_PYTHON") and os.environ["SLUICE_PYTHON"] != sys.executable:
    os.execv(os.environ["SLUICE_PYTHON"], [os.environ["SLUICE_PYTHON"], *sys.argv])

import openai  # noqa: E402  (after the change of interpreter)

from serving import (DRAWN_MAX, ENDLESS, LASTING, MODEL, UNREAD, Serving, bare_model,  # noqa: E402
                     post, read_all, read_head)

PROGRAM = ""
QUESTION = [{"role": "user", "content": "What is photosynthesis?"}]
long_test = unittest.skipIf("--short" in sys.argv, "needs a fast build")


def chat_body(**fields):
    return {"messages": QUESTION, "max_tokens": 8, "temperature": 0, **fields}


class ServerCase(unittest.TestCase):
    """One server for all tests of a class."""
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Serving(PROGRAM, *cls.options))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0,
                                   timeout=300)

    def error(self, status, answer, param=None):
        code, body = answer
        self.assertEqual(code, status, body)
        self.assertEqual(set(body["error"]), {"message", "type", "param", "code"})
        self.assertTrue(body["error"]["message"])
        if param is not None:
            self.assertEqual(body["error"]["param"], param)

    def canary(self):
        answer = self.client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=12,
                                                     temperature=0)
        return answer.choices[0].message.content


class OpenAIClientTest(ServerCase):
    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("gpt-9")

    def test_chat(self):
        answer = self.client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0,
                                                     max_tokens=24)
        self.assertIn("plants", answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertTrue(answer.id.startswith("chatcmpl-"))

    def test_stream_says_what_the_whole_answer_says(self):
        whole = self.canary()
        stream = self.client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=12, temperature=0, stream=True,
            stream_options={"include_usage": True})
        chunks = list(stream)
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertIn(chunks[-2].choices[0].finish_reason, ("stop", "length"))
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)
        self.assertTrue(all(c.usage is None for c in chunks[:-1]))

    def test_chat_logprobs(self):
        answer = self.client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=4, temperature=0, logprobs=True,
            top_logprobs=3)
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), 4)
        for entry in content:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertEqual(entry.token, entry.top_logprobs[0].token)  # greedy
            self.assertEqual(bytes(entry.bytes).decode(), entry.token)
            self.assertLessEqual(entry.logprob, 0)

    def test_completions(self):
        answer = self.client.completions.create(model=MODEL, prompt="The sky is", max_tokens=5,
                                                temperature=0)
        self.assertTrue(answer.choices[0].text)
        self.assertEqual(answer.usage.completion_tokens, 5)
        ids = self.server.json("POST", "/tokenize", {"prompt": "The sky is"})[1]["tokens"]
        for prompt in (ids, ["The sky is"], [ids]):
            again = self.client.completions.create(model=MODEL, prompt=prompt, max_tokens=5,
                                                   temperature=0)
            self.assertEqual(again.choices[0].text, answer.choices[0].text)
        two = self.client.completions.create(model=MODEL, prompt=["The sky is", "One, two,"], n=2,
                                             max_tokens=5, seed=1)
        self.assertEqual([c.index for c in two.choices], [0, 1, 2, 3])

    def test_echo_with_logprobs(self):
        answer = self.client.completions.create(model=MODEL, prompt="The sky is blue", max_tokens=2,
                                                temperature=0, echo=True, logprobs=2)
        choice = answer.choices[0]
        self.assertTrue(choice.text.startswith("The sky is blue"))
        logprobs = choice.logprobs
        self.assertEqual("".join(logprobs.tokens), choice.text)
        self.assertIsNone(logprobs.token_logprobs[0])
        self.assertTrue(all(value <= 0 for value in logprobs.token_logprobs[1:]))
        self.assertEqual(logprobs.text_offset[1], len(logprobs.tokens[0]))
        for token, top in zip(logprobs.tokens[1:], logprobs.top_logprobs[1:]):
            self.assertIn(token, top)
        score = self.client.completions.create(model=MODEL, prompt="The sky is blue", max_tokens=0,
                                               echo=True, logprobs=0)
        self.assertEqual(score.choices[0].text, "The sky is blue")
        self.assertEqual(score.usage.completion_tokens, 0)
        for a, b in zip(score.choices[0].logprobs.token_logprobs[1:], logprobs.token_logprobs[1:]):
            self.assertAlmostEqual(a, b, places=3)

    def test_seeds_repeat_and_differ(self):
        def draw(seed):
            answer = self.client.completions.create(model=MODEL, prompt="Once upon a time", n=3,
                                                    max_tokens=12, temperature=1, seed=seed)
            return [choice.text for choice in answer.choices]
        first = draw(7)
        self.assertEqual(first, draw(7))
        self.assertNotEqual(first, draw(8))
        self.assertEqual(len(set(first)), 3)
        drawn = self.client.completions.create(model=MODEL, prompt="Once upon a time",
                                               max_tokens=8, temperature=1)
        again = self.client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=8,
                                               temperature=1, seed=drawn.seed)
        self.assertEqual(drawn.choices[0].text, again.choices[0].text)

    def test_stop_strings(self):
        body = {"prompt": "1, 2, 3, 4, 5,", "max_tokens": 24, "temperature": 0}
        text = self.server.json("POST", "/v1/completions", body)[1]["choices"][0]["text"]
        stop = text[4:7]
        status, answer = self.server.json("POST", "/v1/completions", {**body, "stop": stop})
        self.assertEqual(status, 200)
        choice = answer["choices"][0]
        self.assertEqual(choice["text"], text[:text.index(stop)])
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
        kept = self.server.json("POST", "/v1/completions",
                                {**body, "stop": [stop], "include_stop_str_in_output": True})[1]
        self.assertEqual(kept["choices"][0]["text"], text[:text.index(stop)] + stop)

    def test_text_paths(self):
        text = "Grüße, 世界! 🙂"
        ids = self.server.json("POST", "/tokenize", {"content": text})[1]["tokens"]
        self.assertEqual(self.server.json("POST", "/detokenize", {"tokens": ids})[1]["content"], text)
        prompt = self.server.json("POST", "/apply-template", {"messages": QUESTION})[1]["prompt"]
        self.assertIn(QUESTION[0]["content"], prompt)
        self.assertTrue(prompt.endswith("<|im_start|>assistant\n"))

    def test_paths_for_machines(self):
        for path in ("/health", "/live", "/ready", "/version", "/openapi.json"):
            self.assertEqual(self.server.json("GET", path)[0], 200, path)
        self.assertEqual(self.server.request("GET", "/")[0], 200)
        self.assertGreater(self.server.metric("sluice_kv_blocks_total"), 0)
        self.error(404, self.server.json("GET", "/nowhere"))
        self.error(405, self.server.json("DELETE", "/v1/models"))
        self.assertEqual(self.server.json("GET", self.server.url + "/v1/models?a=b")[0], 200)
        self.assertEqual(self.server.json("GET", "/version")[1]["backends"][0], "cpu")
        status, headers, body = self.server.request("HEAD", "/health")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 0)

    def test_curl(self):
        answer = subprocess.run(
            ["curl", "-sS", "--max-time", "120", self.server.url + "/v1/chat/completions", "-d",
             json.dumps(chat_body())], capture_output=True, check=True)
        self.assertTrue(json.loads(answer.stdout)["choices"][0]["message"]["content"])
        # Over 1 MiB, curl asks before it sends (Expect: 100-continue).
        body = json.dumps({"prompt": "a " * (1 << 19)}).encode() + b" " * (1 << 20)
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            answer = subprocess.run(
                ["curl", "-sS", "--max-time", "120", "-w", "%{http_code}", "-o", os.devnull,
                 self.server.url + "/tokenize", "--data-binary", "@" + file.name],
                capture_output=True, check=True)
        self.assertEqual(answer.stdout, b"200")

    def test_context_is_a_limit(self):
        limit = self.client.models.list().data[0].max_model_len
        ids = [5] * (limit + 1)
        self.error(400, self.server.json("POST", "/v1/completions", {"prompt": ids}), "prompt")


class ChoiceTest(ServerCase):
    CHOICES = ["yes", "yes, of course", "no", "perhaps", "\u20ac 5 \U0001f600"]

    def choose(self, choices=None, **fields):
        return self.client.chat.completions.create(
            model=MODEL, messages=QUESTION,
            extra_body={"structured_outputs": {"choice": choices or self.CHOICES}}, **fields)

    def test_greedy_and_sampled_answers_are_of_the_texts(self):
        seen = set()
        for seed in range(12):
            answer = self.choose(temperature=2.0 if seed else 0, seed=seed).choices[0]
            self.assertIn(answer.message.content, self.CHOICES)
            self.assertEqual(answer.finish_reason, "stop")
            seen.add(answer.message.content)
        self.assertGreater(len(seen), 1)
        answer = self.client.completions.create(model=MODEL, prompt="The sky is", temperature=0,
                                                extra_body={"guided_choice": [" blue", " made"]})
        self.assertEqual(answer.choices[0].text, " blue")

    def test_the_likeliest_text_is_chosen(self):
        for expected, other in ((" Paris", " Rome"), (" Paris", " London")):
            answer = self.client.completions.create(
                model=MODEL, prompt="The capital of France is", temperature=0,
                extra_body={"structured_outputs": {"choice": [other, expected]}})
            self.assertEqual(answer.choices[0].text, expected)

    def test_stream_says_what_the_whole_answer_says(self):
        for seed in range(4):
            whole = self.choose(temperature=1.5, seed=seed).choices[0].message.content
            stream = self.choose(temperature=1.5, seed=seed, stream=True)
            parts = [event.choices[0].delta.content or "" for event in stream]
            self.assertEqual("".join(parts), whole)

    def test_several_answers_with_logprobs(self):
        answer = self.choose(n=3, temperature=1.5, seed=5, logprobs=True, top_logprobs=2)
        self.assertEqual(len(answer.choices), 3)
        for choice in answer.choices:
            self.assertIn(choice.message.content, self.CHOICES)
            shown = b"".join(bytes(token.bytes) for token in choice.logprobs.content)
            self.assertTrue(shown.startswith(choice.message.content.encode()), shown)
            for token in choice.logprobs.content:
                self.assertIn(token.token, [top.token for top in token.top_logprobs] + [token.token])

    def test_free_answers_beside_them_are_those_alone(self):
        alone = self.canary()
        free = []
        threads = [threading.Thread(target=lambda: free.append(self.canary())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for seed in range(6):
            self.assertIn(self.choose(seed=seed, temperature=1).choices[0].message.content,
                          self.CHOICES)
        for thread in threads:
            thread.join()
        self.assertEqual(free, [alone] * 3)

    def test_a_thousand_long_texts(self):
        texts = [f"{i:04} " + "lorem ipsum dolor " * 56 for i in range(1000)]
        answer = self.choose(texts, max_tokens=8, temperature=0).choices[0]
        self.assertTrue(any(text.startswith(answer.message.content) for text in texts))
        self.assertEqual(answer.finish_reason, "length")

    def test_bad_ones(self):
        def chat(**fields):
            return self.server.json("POST", "/v1/chat/completions", chat_body(**fields))

        for choice in ([], [""], ["a", "a"], ["a", 1], "a", {"a": 1}, [f"{i}" for i in range(1001)],
                       ["x" * (1 << 20) + "y"]):
            code, body = chat(guided_choice=choice)
            self.assertEqual(code, 400, choice)
            self.assertIn(body["error"]["param"], ("choice", "guided_choice"))
        self.error(400, chat(structured_outputs={"choice": ["a"], "regex": "b"}),
                   "structured_outputs.regex")
        self.error(400, chat(structured_outputs={"choice": ["a"]}, guided_choice=["b"]),
                   "guided_choice")
        status, _, _ = self.server.request(
            "POST", "/v1/chat/completions",
            b'{"messages": [{"role": "user", "content": "a"}], "guided_choice": ["\xff"]}')
        self.assertEqual(status, 400)

    def test_curl(self):
        body = json.dumps(chat_body(structured_outputs={"choice": ["green", "yellow"]}))
        out = subprocess.run(["curl", "-sS", "-d", body, "-H", "Content-Type: application/json",
                              self.server.url + "/v1/chat/completions"],
                             capture_output=True, text=True, check=True).stdout
        self.assertIn(json.loads(out)["choices"][0]["message"]["content"], ("green", "yellow"))


class BadRequestTest(ServerCase):
    """The server answers with the right status, names the field, and goes on."""
    options = ("--max-body-bytes", "100000", "--idle-seconds", "2")

    def tearDown(self):
        self.assertEqual(self.server.json("GET", "/health")[0], 200)

    def test_wrong_types_of_every_field(self):
        wrong = {
            "n": ["1", True, 1.5, [], {}, 0, 17], "max_tokens": ["1", True, 1.5, [], -2, 2**31],
            "temperature": ["1", True, [], {}, -1, 101], "top_p": ["1", True, [], -1, 1.5],
            "top_k": ["1", True, [], 1.5], "min_p": ["1", -1, 2], "seed": ["1", True, [], 1.5],
            "stop": [1, {}, [1], "", ["x"] * 17], "stream": ["true", 1, []],
            "logit_bias": [[], 1, {"x": 1}, {"1": 1000}, {"999999999": 1}],
            "presence_penalty": ["1", 3], "frequency_penalty": [True, -3],
            "repetition_penalty": ["1", 0], "user": [1, []], "metadata": ["x"],
            "response_format": ["text", {"type": "json_objects"}], "ignore_eos": [1, "x"],
            "stop_token_ids": ["x", [-1], [10**9], ["1"]], "min_tokens": ["1", -1],
            "no_such_field": [1],
        }
        chat = {"messages": [[], {}, "x", [1], [{"role": "user"}], [{"role": "x", "content": "a"}],
                             [{"role": "user", "content": 1}]],
                "logprobs": [1, "true"], "top_logprobs": [21, "1"], "tools": [{}, [1]],
                "tool_choice": ["required", 1], "timeout": [0, "1"], "thinking_budget": [-2]}
        plain = {"prompt": [None, 1, {}, [], "", [[]], [1.5], [-1], [10**9], ["a"] * 65],
                 "logprobs": [True, 21], "echo": [1], "best_of": [0, 17, "2"], "suffix": ["x"]}
        for path, good, fields in (("/v1/chat/completions", chat_body(), {**wrong, **chat}),
                                   ("/v1/completions", {"prompt": "a"}, {**wrong, **plain})):
            for name, values in fields.items():
                for value in values:
                    with self.subTest(path=path, name=name, value=str(value)[:40]):
                        status, body = self.server.json("POST", path, {**good, name: value})
                        self.error(400, (status, body))
                        param = body["error"]["param"]
                        self.assertTrue(param == name or param.startswith((name + ".", name + "[")),
                                        body)

    def test_what_is_not_json(self):
        deep = b"[" * 100_000
        for body in (b"", b"hi", b"[]", b"null", b"{", b'{"temperature": NaN}', b'{"n":1,"n":1}',
                     b'{"temperature": 1e999}', b'{"temperature": -Infinity}',
                     b'{"prompt": "\xff\xfe"}', b'{"prompt": "\\ud800"}', b'{"prompt": "a\x00"}',
                     deep[:99_000], b'{"prompt":' + deep[:90_000],
                     b'{"metadata":' + b'{"a":' * 15_000):
            for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize",
                         "/apply-template"):
                with self.subTest(path=path, body=body[:30]):
                    self.error(400, self.server.json("POST", path, body))

    def test_deep_nesting_in_a_large_body(self):
        with Serving(PROGRAM) as server:
            deep = b"[" * 100_000 + b"]" * 100_000
            self.error(400, server.json("POST", "/v1/completions", b'{"prompt":' + deep + b"}"))
            self.assertEqual(server.json("GET", "/health")[0], 200)

    def test_unknown_model(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt-9", messages=QUESTION)
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_bodies_at_and_over_the_limit(self):
        frame = b'{"content": ""}'
        fits = frame[:-2] + b"a" * (100_000 - len(frame)) + frame[-2:]
        self.assertEqual(self.server.request("POST", "/tokenize", fits)[0], 200)
        self.error(413, self.server.json("POST", "/tokenize", fits + b" "))
        self.error(413, self.server.json("POST", "/tokenize", b" " * 1_000_000))
        chunked = (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                   + b"ea60\r\n" + b" " * 60_000 + b"\r\n" + b"ea60\r\n" + b" " * 60_000 + b"\r\n")
        self.assertIn(b" 413 ", self.server.raw(chunked).split(b"\r\n")[0])
        huge = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n"
        self.assertIn(b" 4", self.server.raw(huge).split(b"\r\n")[0])

    def test_bodies_that_do_not_come_and_answers_that_last_block_nobody(self):
        with Serving(PROGRAM, *UNREAD) as server, contextlib.ExitStack() as stack:
            idle = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16777216\r\n\r\n"
            for _ in range(40):
                stack.enter_context(server.connect()).sendall(idle + b"{")
            self.assertEqual(server.request("POST", "/tokenize", {"prompt": "a"})[0], 200)
            body = json.dumps({"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": True,
                               "stream": True}).encode()
            chunked = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n"
                       + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
            running = [stack.enter_context(server.connect()) for _ in range(40)]
            for sock in running:
                sock.sendall(chunked)
            for sock in running:
                self.assertIn(b" 200 ", read_head(sock).split(b"\r\n")[0])
            self.assertEqual(server.request("POST", "/tokenize", {"prompt": "a"})[0], 200)
            turn = threading.Event()
            while not server.metric("vllm:num_requests_running"):  # told behind the first step
                turn.wait(0.05)

    def test_bodies_past_the_shared_memory_are_refused_for_now(self):
        # Each client announces and sends most of 256 MiB; two fit, and three do not. Which of them is refused
        # is a matter of time: what a client has sent may not have been read when the next one begins.
        with Serving(PROGRAM, "--max-body-bytes", str(1 << 28)) as server, \
                contextlib.ExitStack() as stack:
            head = f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 28}\r\n\r\n"
            part = b" " * ((1 << 28) - 1)
            socks = [stack.enter_context(server.connect()) for _ in range(3)]
            for sock in socks[:2]:
                sock.sendall(head.encode() + part)
            self.assertEqual(select.select(socks[:2], [], [], 0)[0], [])
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socks[2].sendall(head.encode() + part)
            answered = select.select(socks, [], [], 120)[0]
            answer = read_head(answered[0]).lower()
            self.assertIn(b" 429 ", answer.split(b"\r\n")[0])
            self.assertRegex(answer, rb"\r\nretry-after: [1-9]")
            stack.close()
            turn = threading.Event()
            while server.request("POST", "/tokenize", {"prompt": "a"})[0] == 429:
                turn.wait(0.05)

    def test_texts_and_ids_at_and_over_the_limit(self):
        with Serving(PROGRAM) as server:
            text = "a" * (1 << 20)
            self.assertEqual(server.request("POST", "/tokenize", {"prompt": text})[0], 200)
            answer = server.json("POST", "/tokenize", {"prompt": text + "a", "with_pieces": True})
            self.error(400, answer, "prompt")
            self.assertIn("1048576", answer[1]["error"]["message"])
            ids = [5] * 262144
            self.assertEqual(server.request("POST", "/detokenize", {"tokens": ids})[0], 200)
            answer = server.json("POST", "/detokenize", {"tokens": ids + [5]})
            self.error(400, answer, "tokens")
            self.assertIn("262144", answer[1]["error"]["message"])

    def test_headers_at_and_over_the_limit(self):
        def status(size):
            head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: "
            return self.server.raw(head + b"a" * (size - len(head) - 4) + b"\r\n\r\n").split()[1]
        self.assertEqual(status(16_000), b"200")
        self.assertEqual(status(17_000), b"431")
        self.assertEqual(status(1_000_000), b"431")

    def test_what_is_not_http(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10, b"hello\r\n\r\n",
                     b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 1000, b"GET /\r\n\r\n"):
            answer = self.server.raw(data)
            self.assertIn(b" 400 ", answer.split(b"\r\n")[0], data[:20])
            self.assertIn(b'"error"', answer)

    def test_half_sent_requests_time_out(self):
        whole = post("/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1}).encode())
        for part in (whole[:10], whole[:80], whole[:-1]):
            answer = self.server.raw(part)
            self.assertIn(b" 408 ", answer.split(b"\r\n")[0], part)
        self.assertEqual(self.server.raw(b""), b"")  # idle: closed without a word

    def test_pipelined_and_kept_connections(self):
        one = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        self.assertEqual(self.server.raw(one * 20 + last).count(b"HTTP/1.1 200"), 21)
        with self.server.connect() as sock:
            for _ in range(5):
                body = json.dumps({"content": "a"}).encode()
                sock.sendall(post("/tokenize", body))
                head = read_head(sock)
                self.assertIn(b" 200 ", head)
            sock.sendall(last)
            self.assertIn(b" 200 ", read_all(sock))

    def test_http_1_0_streams_end_with_the_connection(self):
        body = json.dumps(chat_body(stream=True)).encode()
        answer = self.server.raw(post("/v1/chat/completions", body).replace(b"HTTP/1.1", b"HTTP/1.0"))
        self.assertNotIn(b"chunked", answer)
        self.assertTrue(answer.endswith(b"data: [DONE]\n\n"))


class LoadTest(ServerCase):
    options = ("--stream-buffer-bytes", "65536")

    def one_stream(self, number, errors):
        draw = random.Random(number)
        try:
            stream = self.client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": f"Count to {number}."}],
                max_tokens=draw.randint(4, 40), stream=True, seed=number)
            leave_after = draw.choice([None, 0, 1, 3, 8])
            for count, _ in enumerate(stream):
                if leave_after is not None and count >= leave_after:
                    stream.close()
                    break
        except Exception as error:  # pylint: disable=broad-except  (shown by the test)
            errors.append(error)

    @long_test
    def test_64_streams_with_random_cancels(self):
        before = self.canary()
        errors = []
        threads = [threading.Thread(target=self.one_stream, args=(i, errors)) for i in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.server.wait_idle()
        self.assertEqual(self.server.metric("sluice_kv_blocks_free"),
                         self.server.metric("sluice_kv_blocks_total"))
        self.assertEqual(self.canary(), before)

    def test_a_client_that_leaves_frees_its_request(self):
        with tempfile.TemporaryDirectory() as folder, \
                Serving(PROGRAM, *UNREAD, model=bare_model(folder)) as server:
            for stream in (True, False):
                before = server.metric("sluice_generated_tokens_total")
                body = json.dumps({"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": True,
                                   "stream": stream}).encode()
                with server.connect() as sock:
                    sock.sendall(post("/v1/completions", body))
                    if stream:
                        read_head(sock)
                    while not server.metric("vllm:num_requests_running"):
                        pass
                server.wait_idle()
                drawn = server.metric("sluice_generated_tokens_total") - before
                self.assertLess(drawn, DRAWN_MAX, "the server went on")

    @long_test
    def test_2000_idle_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        sockets = []
        try:
            for _ in range(2000):
                sockets.append(self.server.connect())
            self.assertTrue(self.canary())
            for sock in sockets[::100]:
                sock.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b" 200 ", read_head(sock))
            self.assertGreaterEqual(self.server.metric("sluice_http_connections"), 2000)
        finally:
            for sock in sockets:
                sock.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    @long_test
    def test_a_slow_reader_is_cancelled(self):
        body = json.dumps({"prompt": ["a"] * 16, "n": 8, "max_tokens": 1000, "ignore_eos": True,
                           "logprobs": 20, "stream": True}).encode()
        before = self.server.metric("sluice_generated_tokens_total")
        with self.server.connect(receive_bytes=4096) as sock:
            sock.sendall(post("/v1/completions", body))
            sock.recv(100)
            self.server.wait_idle()  # it never reads on, and the server does not wait for it
        drawn = self.server.metric("sluice_generated_tokens_total") - before
        self.assertLess(drawn, 16 * 8 * 1000)
        self.assertTrue(self.canary())


class KeyTest(unittest.TestCase):
    def test_keys_and_shutdown(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
            file.write("right-key\n")
            file.flush()
            with Serving(PROGRAM, "--api-key-file", file.name) as server:
                self.assertEqual(server.json("GET", "/v1/models")[0], 401)
                self.assertEqual(server.json("GET", "/health")[0], 200)
                for headers in ({"Authorization": "Bearer right-key"}, {"x-api-key": "right-key"}):
                    self.assertEqual(server.json("GET", "/v1/models", None, headers)[0], 200)
                client = openai.OpenAI(base_url=server.url + "/v1", api_key="wrong-key",
                                       max_retries=0)
                with self.assertRaises(openai.AuthenticationError):
                    client.models.list()

    def test_sigterm_lets_running_requests_end(self):
        with Serving(PROGRAM) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            stream = client.completions.create(model=MODEL, prompt="a", stream=True, extra_body=LASTING)
            chunks = [next(stream)]
            server.process.send_signal(signal.SIGTERM)
            chunks += list(stream)
            self.assertEqual(chunks[-1].choices[0].finish_reason, "timeout")  # in its own time
            self.assertEqual(server.process.wait(60), 0)
            with self.assertRaises(OSError):
                server.connect()

    def test_a_second_signal_ends_streams_with_an_error(self):
        with tempfile.TemporaryDirectory() as folder, \
                Serving(PROGRAM, *UNREAD, model=bare_model(folder)) as server, \
                contextlib.ExitStack() as stack:
            kept = []
            for _ in range(20):  # each answers once more while the server drains
                kept.append(stack.enter_context(server.connect()))
                kept[-1].sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b" 200 ", read_head(kept[-1]).split(b"\r\n")[0])
            body = json.dumps({"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": True, "n": 16,
                               "stream": True}).encode()
            stream = stack.enter_context(server.connect())
            stream.sendall(post("/v1/completions", body))
            read_head(stream)
            server.process.send_signal(signal.SIGTERM)
            states = set()
            # The signal is taken when its thread gets to run: until then a connection stays open.
            while kept and b"503" not in states:
                kept[-1].sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                head = read_head(kept[-1])
                states.add(head.split(b" ")[1])
                if b"connection: close" in head.lower():
                    kept.pop()
            self.assertIn(b"503", states)
            server.process.send_signal(signal.SIGTERM)
            self.assertIn(b"the server cancelled the request", read_all(stream)[-400:])
            self.assertEqual(server.process.wait(60), 0)

    def test_a_port_in_use_is_one_sentence(self):
        with Serving(PROGRAM) as server:
            command = [PROGRAM, *server.command[1:3], "--port", str(server.port)]
            second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(second.returncode, 1)
            self.assertIn(f"port {server.port} of 127.0.0.1 is in use", second.stderr)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--short"]
    PROGRAM = os.path.abspath(arguments[0])
    unittest.main(argv=[sys.argv[0], *arguments[1:]], verbosity=2)
