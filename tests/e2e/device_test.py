#!/usr/bin/env python3
"""The demo model through `sluice serve` on any device: 32 streams at once, most of which leave early,
and what a decode step costs the host.

Usage: device_test.py PROGRAM [--device cpu|cuda|xpu] [unittest options]

Standard library only, so that it runs on a bare machine with a GPU: SLUICE_CACHE names the folder
of the demo model.
"""
import http.client
import json
import os
import random
import sys
import threading
import unittest

from serving import MODEL, Serving

PROGRAM, DEVICE = "", "cpu"
STREAMS = 32
LAYERS = 30  # of the demo model
QUESTION = [{"role": "user", "content": "What is photosynthesis?"}]


class DeviceTest(unittest.TestCase):
    def canary(self, server):
        status, answer = server.json("POST", "/v1/chat/completions", {
            "model": MODEL, "messages": QUESTION, "max_tokens": 12, "temperature": 0,
            "logprobs": True})
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        return (choice["message"]["content"], choice["finish_reason"],
                [entry["logprob"] for entry in choice["logprobs"]["content"]])

    def one_stream(self, server, number, ends, errors):
        """Reads a stream to its end, or leaves after some chunks."""
        draw = random.Random(number)
        most = draw.randint(4, 16)
        leave_after = draw.choice([None, 0, 1, 3])
        body = json.dumps({"messages": [{"role": "user", "content": f"Count to {number}."}],
                           "max_tokens": most, "stream": True, "seed": number,
                           "temperature": draw.choice([0, 1])})
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=150)
        try:
            connection.request("POST", "/v1/chat/completions", body,
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise AssertionError(f"{answer.status}: {answer.read()}")
            last, chunks = b"", 0
            while leave_after is None or chunks <= leave_after:
                line = answer.readline()
                if not line:
                    break
                if line.startswith(b"data: "):
                    last, chunks = line.strip(), chunks + 1
                    if b'"error"' in line:
                        raise AssertionError(line)
            if leave_after is None:
                ends.append(last)
        except Exception as error:  # pylint: disable=broad-except  (shown by the test)
            errors.append((number, error))
        finally:
            connection.close()

    def test_32_streams_with_random_cancels(self):
        with Serving(PROGRAM, "--device", DEVICE) as server:
            before = self.canary(server)
            self.assertIn("plants", before[0])
            ends, errors = [], []
            threads = [threading.Thread(target=self.one_stream, args=(server, i, ends, errors))
                       for i in range(STREAMS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(errors, [])
            self.assertTrue(ends)
            self.assertLess(len(ends), STREAMS, "nobody left early")
            self.assertEqual(set(ends), {b"data: [DONE]"})
            server.wait_idle()
            self.assertEqual(server.metric("sluice_kv_blocks_free"),
                             server.metric("sluice_kv_blocks_total"))
            self.assertEqual(self.canary(server), before)
            server.wait_idle()

    def choices(self, server, choices, tokens):
        """Steps, kernels and driver calls that one request with some choices took."""
        names = ("sluice_execute_tokens_count", "sluice_kernel_launches_total",
                 "sluice_device_calls_total")
        before = [server.metric(name) for name in names]
        status, answer = server.json("POST", "/v1/completions", {
            "prompt": "Count:", "n": choices, "max_tokens": tokens, "ignore_eos": True, "seed": 1})
        self.assertEqual(status, 200, answer)
        server.wait_idle()
        return [server.metric(name) - old for name, old in zip(names, before)]

    def test_a_decode_step_takes_few_launches_whatever_the_batch(self):
        with Serving(PROGRAM, "--device", DEVICE) as server:
            launches = {}
            for choices in (1, 8):
                self.choices(server, choices, 4)  # the graph of this many sequences is made
                short, long = (self.choices(server, choices, tokens) for tokens in (4, 20))
                steps, kernels, calls = (b - a for a, b in zip(short, long))
                self.assertEqual(steps, 16)
                launches[choices] = kernels / steps
                self.assertLessEqual(calls / steps, 6)
            self.assertEqual(launches[1], launches[8])
            self.assertLessEqual(launches[1], 10 * LAYERS + 10)


if __name__ == "__main__":
    PROGRAM, arguments = os.path.abspath(sys.argv[1]), sys.argv[2:]
    if arguments[:1] == ["--device"]:
        DEVICE, arguments = arguments[1], arguments[2:]
    unittest.main(argv=[sys.argv[0], *arguments], verbosity=2)
