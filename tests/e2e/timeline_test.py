#!/usr/bin/env python3
"""What happened to a request, asked for by its id, and the trace of the engine.

Usage: timeline_test.py PROGRAM [unittest options]

Needs no model but a random one of a few hundred kilobytes. Standard library only.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from serving import Serving

PROGRAM = ""
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "gguf",
                     "llama-F32.gguf")
PROMPT = " ".join("abcdefghijklmnopqrstuvwxyz")


class TimelineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        keys = os.path.join(folder, "keys")
        with open(keys, "w", encoding="utf-8") as file:
            file.write("one\ntwo\n")
        cls.server = cls.enterClassContext(
            Serving(PROGRAM, "--device", "cpu", "--api-key-file", keys, "--block-size", "8",
                    "--kernel-block-size", "8", "--speculate", "none", model=MODEL))

    def call(self, method, path, body=None, key="one", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, answered, data = self.server.request(
            method, path, body,
            {"Authorization": "Bearer " + key, "Content-Type": "application/json", **named})
        return status, answered, json.loads(data)

    def complete(self, name, **fields):
        body = {"prompt": PROMPT, "max_tokens": 6, "ignore_eos": True, **fields}
        status, headers, answer = self.call("POST", "/v1/completions", body, X_Request_Id=name)
        self.assertEqual((status, headers["X-Request-Id"]), (200, name), answer)
        return answer

    def timeline(self, name, key="one"):
        return self.call("GET", f"/v1/requests/{name}/timeline", key=key)

    def test_it_tells_the_way_of_a_request(self):
        usage = self.complete("first", prompt=PROMPT + " first")["usage"]
        status, _, answer = self.timeline("first")
        self.assertEqual((status, answer["id"], answer["requests"]), (200, "first", 1))
        (told,) = answer["timelines"]
        times = [told[name] for name in ("submitted_ms", "queued_ms", "admitted_ms", "first_chunk_ms",
                                         "first_token_ms", "ended_ms")]
        self.assertEqual(times, sorted(times))
        self.assertLessEqual(told["ended_ms"], answer["age_ms"])
        self.assertEqual(told["prompt_tokens"], usage["prompt_tokens"])
        self.assertEqual(told["drawn_tokens"], 6)
        prefill, decode = told["events"]
        self.assertEqual((prefill["kind"], decode["kind"]), ("prefill", "decode"))
        self.assertEqual(decode["steps"], 5)
        for event in told["events"]:
            self.assertLess(event["begin_ms"], event["end_ms"])
        self.assertEqual(prefill["end_ms"], told["first_chunk_ms"])
        self.assertLessEqual(told["admitted_ms"], prefill["begin_ms"])
        self.assertGreater(decode["first_step"], prefill["first_step"])

    def test_it_tells_what_the_cache_had(self):
        for name in ("before", "behind"):
            self.complete(name)
        (told,) = self.timeline("behind")[2]["timelines"]
        self.assertGreater(told["cached_tokens"], 0)
        computed = sum(event["tokens"] for event in told["events"] if event["kind"] == "prefill")
        self.assertEqual(computed, told["prompt_tokens"] - told["cached_tokens"])

    def test_it_belongs_to_its_key(self):
        self.complete("mine")
        self.assertEqual(self.timeline("mine")[0], 200)
        for name, key in (("mine", "two"), ("nobody", "one")):
            status, _, answer = self.timeline(name, key)
            self.assertEqual(status, 404)
            self.assertIn(name, answer["error"]["message"])

    def test_prompts_and_choices_are_told_apart(self):
        self.complete("several", prompt=[PROMPT, "a b c"], n=2, temperature=1)
        answer = self.timeline("several")[2]
        self.assertEqual((answer["requests"], len(answer["timelines"])), (2, 2))
        for told in answer["timelines"]:
            self.assertEqual({event["choice"] for event in told["events"]}, {0, 1})
            self.assertEqual(told["drawn_tokens"], 12)


class MetricsTest(unittest.TestCase):
    def test_the_metrics_of_one_request_are_those_of_its_timeline(self):
        with Serving(PROGRAM, "--device", "cpu", "--speculate", "none", model=MODEL) as server:
            body = {"prompt": PROMPT, "max_tokens": 200, "ignore_eos": True}
            headers = {"Content-Type": "application/json", "X-Request-Id": "one"}
            self.assertEqual(server.request("POST", "/v1/completions", body, headers)[0], 200)
            (told,) = server.json("GET", "/v1/requests/one/timeline")[1]["timelines"]

            def metric(name):
                """The sum of a histogram to which this request alone has added, in milliseconds."""
                self.assertEqual(server.metric(f"vllm:{name}_seconds_count"), 1, name)
                return server.metric(f"vllm:{name}_seconds_sum") * 1000

            at = {name: told[name + "_ms"] for name in
                  ("submitted", "queued", "admitted", "first_token", "ended")}
            rounding = 0.01
            self.assertAlmostEqual(metric("request_queue_time"), at["admitted"] - at["submitted"],
                                   delta=rounding)
            self.assertAlmostEqual(metric("request_prefill_time"), at["first_token"] - at["admitted"],
                                   delta=rounding)
            self.assertAlmostEqual(metric("time_to_first_token"), at["first_token"] - at["submitted"],
                                   delta=rounding)
            # The last token comes after the last step began, and the end may be noted a little later.
            last = told["events"][-1]
            decode = metric("request_decode_time")
            self.assertGreaterEqual(decode, last["end_ms"] - at["first_token"] - rounding)
            self.assertLessEqual(decode, at["ended"] - at["first_token"] + rounding)
            whole = metric("e2e_request_latency")
            self.assertGreaterEqual(whole, at["first_token"] - at["submitted"] + decode - rounding)
            self.assertLessEqual(whole, at["ended"] - at["submitted"] + rounding)
            phases = re.findall(r"^sluice_step_seconds_count{.*} (\S+)$",
                                server.request("GET", "/metrics")[2].decode(), re.MULTILINE)
            self.assertGreater(len(phases), 1)
            self.assertNotIn("0", phases)


class TraceTest(unittest.TestCase):
    def test_the_file_has_every_step_and_request(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            with Serving(PROGRAM, "--device", "cpu", "--trace", path, model=MODEL) as server:
                for _ in range(2):
                    status, _ = server.json("POST", "/v1/completions",
                                            {"prompt": PROMPT, "max_tokens": 5, "ignore_eos": True})
                    self.assertEqual(status, 200)
                server.wait_idle()  # a step is counted when what it drew is on its way
                steps = server.metric("sluice_execute_tokens_count")
            with open(path, encoding="utf-8") as file:
                events = json.load(file)
        names = [event["name"] for event in events]
        for name in ("step", "plan", "execute", "emit"):
            self.assertEqual(names.count(name), steps)
        requests = [event for event in events if event.get("cat") == "request"]
        self.assertEqual([event["ph"] for event in requests], ["b", "n", "e"] * 2)
        times = [event["ts"] for event in requests]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len({event["id"] for event in requests}), 2)

    def test_several_models_are_processes_of_one_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            with Serving(PROGRAM, "two=" + MODEL, "--device", "cpu", "--trace", path, model="one=" + MODEL) as server:
                for name in ("one", "two", "two"):
                    body = {"model": name, "prompt": PROMPT, "max_tokens": 5, "ignore_eos": True}
                    self.assertEqual(server.json("POST", "/v1/completions", body)[0], 200)
                self.assertEqual(server.json("POST", "/v1/models/two/unload", {})[0], 200)
                self.assertEqual(server.json("POST", "/v1/models/two/load", {})[0], 200)
                self.assertEqual(server.json("POST", "/v1/completions", body)[0], 200)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)
        names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(sorted(names.values()), ["one", "two", "two"])
        ended = [names[event["pid"]] for event in events
                 if event.get("cat") == "request" and event["ph"] == "e"]
        self.assertEqual(sorted(ended), ["one", "two", "two", "two"])
        self.assertEqual({event["pid"] for event in events if event["name"] == "step"}, set(names))

    def test_a_profile_has_the_steps_that_come_while_it_is_taken(self):
        with Serving(PROGRAM, "--device", "cpu", model=MODEL) as server:
            answers = []
            profile = threading.Thread(target=lambda: answers.append(server.request(
                "POST", "/admin/profile", {"steps": 4, "seconds": 30},
                {"Content-Type": "application/json"})))
            profile.start()
            while profile.is_alive():
                server.json("POST", "/v1/completions",
                            {"prompt": PROMPT, "max_tokens": 5, "ignore_eos": True})
            profile.join()
            ((status, _, data),) = answers
            self.assertEqual(status, 200, data)
            names = [event["name"] for event in json.loads(data)]
            self.assertEqual([names.count(name) for name in ("step", "plan", "execute", "emit")],
                             [4] * 4)
            status, answer = server.json("POST", "/admin/profile", {"steps": 5000})
            self.assertEqual((status, answer["error"]["param"]), (400, "steps"))

    def test_orders_pause_resume_flush_and_drain_an_engine(self):
        with Serving(PROGRAM, "--device", "cpu", model=MODEL) as server:
            body = {"prompt": PROMPT, "max_tokens": 5, "ignore_eos": True}
            self.assertEqual(server.json("POST", "/v1/completions", body)[0], 200)
            self.assertEqual(server.json("POST", "/admin/pause", {}), (200, {"ok": True}))
            self.assertEqual(server.json("GET", "/ready")[0], 503)
            self.assertEqual(server.json("GET", "/health")[0], 200)
            answers = []
            waiting = threading.Thread(
                target=lambda: answers.append(server.json("POST", "/v1/completions", body)))
            waiting.start()
            while server.metric("vllm:num_requests_waiting") == 0:
                time.sleep(0.01)
            self.assertEqual(answers, [])
            self.assertEqual(server.json("POST", "/admin/resume", {})[0], 200)
            waiting.join()
            self.assertEqual(answers[0][0], 200)
            status, answer = server.json("POST", "/admin/cache_flush", {})
            self.assertEqual((status, answer["blocks"] > 0), (200, True))
            # A request is taken off the list when its answer is out, which its client may know before.
            while (drained := server.json("POST", "/admin/drain", {}))[1]["running"]:
                time.sleep(0.01)
            self.assertEqual(drained, (200, {"ok": True, "running": 0}))
            self.assertEqual(server.json("POST", "/v1/completions", body)[0], 503)

    def test_a_file_that_cannot_be_written_is_told_before_the_model_is_loaded(self):
        done = subprocess.run([PROGRAM, "serve", MODEL, "--port", "0", "--trace", "/nowhere/t.json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                              check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/t.json", done.stderr)
        self.assertNotIn("model: loading", done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
