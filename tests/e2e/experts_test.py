#!/usr/bin/env python3
"""/admin/experts over a tiny model with experts that lie among ranks: shown, moved by hand and by
their loads while answers are written, and wrong orders refused; and experts on the host beside an
OpenCL device.

Usage: experts_test.py PROGRAM [unittest options]
"""
import os
import re
import subprocess
import sys
import threading
import time
import unittest

from serving import Serving

PROGRAM = ""
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "models", "qwen3_moe")
RANKS = ("--expert-ranks", "2", "--redundant-experts", "2", "--expert-balance-interval", "none",
         "--expert-migration-bytes", "2000")


def metric(server, name):
    _, _, text = server.request("GET", "/metrics")
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text.decode(), re.MULTILINE)
    return sum(float(value) for value in found) if found else None


def settled(server):
    """The balance once nothing moves any more."""
    for _ in range(600):
        status, answer = server.json("GET", "/admin/experts")
        assert status == 200, answer
        if not answer["balance"]["moving"]:
            return answer["balance"]
        time.sleep(0.05)
    raise AssertionError("experts move without an end")


def answers(server, count=40):
    """Ids and log-probs of greedy answers."""
    out = []
    for seed in range(4):
        status, answer = server.json("POST", "/v1/completions", {
            "prompt": [1, 75, 65 + seed, 67, 20, 98, 13], "max_tokens": count, "temperature": 0, "logprobs": 2,
            "ignore_eos": True})
        assert status == 200, answer
        out.append((answer["choices"][0]["text"], answer["choices"][0]["logprobs"]))
    return out


class ExpertsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Serving(PROGRAM, model=MODEL) as still:
            cls.expected = answers(still)
            status, answer = still.json("POST", "/admin/experts", {"rebalance": True})
            assert status == 400 and "--expert-ranks" in answer["error"]["message"], answer
            assert "balance" not in still.json("GET", "/admin/experts")[1]
        cls.server = cls.enterClassContext(Serving(PROGRAM, *RANKS, model=MODEL))

    def test_experts_lie_where_they_are_ordered_to(self):
        layers = [{"layer": 0, "ranks": [[7, 6, 5, 4, 3], [0, 1, 2, 3, 4]]},
                  {"layer": 1, "ranks": [[0, 2, 4, 6, 1], [1, 3, 5, 7, 0]]}]
        before = settled(self.server)
        self.assertEqual((before["ranks"], before["redundant_experts"], before["slots_per_rank"]), (2, 2, 5))
        self.assertEqual(self.server.json("POST", "/admin/experts", {"layers": layers}), (200, {"ok": True}))
        after = settled(self.server)
        self.assertEqual([layer["ranks"] for layer in after["layers"]],
                         [[sorted(rank) for rank in layer["ranks"]] for layer in layers])
        self.assertGreater(after["version"], before["version"])
        self.assertGreater(after["migrations"], before["migrations"])
        self.assertGreater(after["migrated_bytes"], before["migrated_bytes"])
        self.assertEqual(metric(self.server, "sluice_expert_map_version"), after["version"])
        self.assertEqual(metric(self.server, "sluice_expert_migrations_total"), after["migrations"])
        self.assertEqual(answers(self.server), self.expected)

    def test_answers_stay_what_they_are_while_experts_move(self):
        version = settled(self.server)["version"]
        done, ordered = threading.Event(), threading.Event()

        def order():
            turn = 0
            while not done.is_set():
                ranks = [[(turn + i) % 8 for i in range(5)], [(turn + 5 + i) % 8 for i in range(5)]]
                self.server.json("POST", "/admin/experts",
                                 {"layers": [{"layer": turn % 2, "ranks": ranks}]})
                turn += 3
                if turn > 12:
                    ordered.set()

        thread = threading.Thread(target=order)
        thread.start()
        try:
            for _ in range(3):
                self.assertEqual(answers(self.server), self.expected)
            self.assertTrue(ordered.wait(60))
        finally:
            done.set()
            thread.join()
        self.assertGreater(settled(self.server)["version"], version + 2)

    def test_loads_decide_where_nobody_orders(self):
        answers(self.server)
        order = [[0, 1, 2, 3, 4], [5, 6, 7, 0, 1]]
        self.server.json("POST", "/admin/experts", {"layers": [{"layer": n, "ranks": order} for n in (0, 1)]})
        settled(self.server)
        self.assertEqual(self.server.json("POST", "/admin/experts", {"rebalance": True})[0], 200)
        balance = settled(self.server)
        self.assertGreater(balance["plans"], 0)
        for layer in balance["layers"]:
            self.assertLessEqual(layer["imbalance_planned"], layer["imbalance_before"])
            self.assertEqual(len(layer["rank_load"]), 2)
        self.assertGreater(metric(self.server, "sluice_expert_rank_load"), 0)
        self.assertEqual(answers(self.server), self.expected)

    def test_wrong_orders_change_nothing(self):
        good = {"layer": 0, "ranks": [[0, 1, 2, 3, 4], [5, 6, 7, 0, 1]]}
        version = settled(self.server)["version"]

        def refused(body, *words):
            status, answer = self.server.json("POST", "/admin/experts", body)
            self.assertEqual(status, 400, body)
            for word in words:
                self.assertIn(word, answer["error"]["message"])

        def ranks(*lists):
            return {"layers": [good | {"layer": 1}, {"layer": 0, "ranks": list(lists)}]}

        refused(ranks([0, 1, 2, 3, 4], [5, 6, 0, 1, 2]), "no slot for expert 7")
        refused(ranks([0, 1, 2, 3, 4], [5, 6, 7, 0, 1], [2]), "rank 2", "out of range")
        refused(ranks([0, 1, 2, 3, 4]), "1 ranks", "there are 2")
        refused(ranks([0, 1, 2, 3], [4, 5, 6, 7, 0, 1]), "4 experts but 5")
        refused(ranks([0, 1, 2, 3, 3], [4, 5, 6, 7, 0]), "expert 3 twice")
        refused(ranks([0, 1, 2, 3, 4], [5, 6, 7, 0, 8]), "expert 8")
        refused(ranks([0, 1, 2, 3, 4], [5, 6, 7, 0, -1]), "ranks of layer 0")
        refused({"layers": [good, good]}, "given twice")
        refused({"layers": [{"layer": 9, "ranks": good["ranks"]}]}, "no experts in layer 9")
        refused({"layers": []}, "one at least")
        refused({"layers": [{"layer": 0}]}, "each of layers")
        refused({"layers": [good], "rebalance": True}, "either layers")
        refused({"rebalance": True, "nodes": 2}, "nodes")
        refused({"rebalance": False}, "true alone")
        refused({}, "either layers")
        refused({"layer": [good]}, "layer")
        self.assertEqual(self.server.json("GET", "/admin/experts")[1]["balance"]["version"], version)

    def test_options_that_do_not_fit_are_refused(self):
        for options, words in ((("--expert-ranks", "3"), "cannot share 8 experts"),
                               (("--redundant-experts", "2"), "--expert-ranks"),
                               (("--expert-ranks", "2", "--expert-balance-interval", "often"), "3000"),
                               (("--expert-ranks", "2", "--expert-migration-bytes", "0"), "0"),
                               (("--expert-ranks", "2", "--experts-on", "host"), "--expert-ranks 2"),
                               (("--experts-on", "host:0-2"), "names layer 2; the model has 2"),
                               (("--experts-on", "gpu"), "none of auto, device, host")):
            run = subprocess.run([PROGRAM, "serve", MODEL, "--port", "0", *options], capture_output=True,
                                 text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(words, run.stderr)


class ExpertsOnTheHostTest(unittest.TestCase):
    def test_they_answer_alike_whoever_asks_beside_and_are_counted(self):
        devices = subprocess.run([PROGRAM, "devices"], capture_output=True, text=True, timeout=60, check=True).stdout
        if "xpu:0" not in devices:
            self.skipTest("no OpenCL device")
        host = ("--device", "xpu", "--experts-on", "host")
        with Serving(PROGRAM, *host, model=MODEL, stderr=subprocess.PIPE) as server:
            alone = answers(server)
            beside = []
            threads = [threading.Thread(target=lambda: beside.append(answers(server))) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(beside, [alone] * 3)
            self.assertGreater(server.json("GET", "/admin/experts")[1]["choices"], 0)
            server.process.terminate()
            log = server.process.stderr.read()
            server.process.stderr.close()
        self.assertRegex(log, r"memory: weights \S+ \S+ beside \S+ \S+ of experts on the host")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
