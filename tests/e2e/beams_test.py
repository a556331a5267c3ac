#!/usr/bin/env python3
"""Beam searches and best_of through a server, over a tiny model: what the fields do, how answers are told and
which requests are refused.

Usage: beams_test.py PROGRAM [unittest options]. Standard library only.
"""
import json
import os
import sys
import unittest

from serving import Serving

PROGRAM = ""
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")


def searches():
    """Those of tests/golden/beams.json that are asked of the model here and end by its own end or by length."""
    with open(os.path.join(GOLDEN, "beams.json")) as file:
        return [case for case in json.load(file)["cases"] if case["model"] == "llama"]


def body_of(search):
    width = max(search["widths"])
    constant = len(search["widths"]) == 1
    own = search["ends"] == [2]
    return {"prompt": search["prompt"], "max_tokens": search["max_tokens"], "use_beam_search": True, "n": width,
            "beam_width": width if constant else search["widths"], "ignore_eos": not own,
            "stop_token_ids": [] if own else search["ends"], "min_tokens": search.get("min_tokens", 0),
            "length_penalty": search.get("length_penalty", 1.0),
            "early_stopping": search.get("early_stopping", False),
            **({"guided_regex": search["regex"]} if "regex" in search else {})}


class BeamsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Serving(
            PROGRAM, "--kv-dtype", "f32", "--max-num-seqs", "16", model=os.path.join(GOLDEN, "models", "llama")))

    def ask(self, body, path="/v1/completions"):
        status, answer = self.server.json("POST", path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def refused(self, field, body, path="/v1/completions"):
        status, answer = self.server.json("POST", path, body)
        self.assertEqual(status, 400, answer)
        self.assertEqual(answer["error"]["param"], field, answer)
        return answer["error"]["message"]

    def text_of(self, ids):
        return self.ask({"tokens": ids}, "/detokenize")["prompt"]

    def test_answers_are_those_of_transformers(self):
        free = [search for search in searches() if "regex" not in search]
        held = [search for search in searches() if "regex" in search]
        self.assertGreater(len(held), 20)
        for search in free[::4] + held[::3]:
            answer = self.ask(body_of(search))
            texts = [choice["text"] for choice in answer["choices"]]
            # The token that ends an answer is not a part of it.
            expected = [ids[:-1] if ids[-1] in search["ends"] else ids for ids in search["answers"]]
            self.assertEqual(texts, [self.text_of(ids) for ids in expected], search)
            reasons = ["stop" if ids[-1] in search["ends"] else "length" for ids in search["answers"]]
            self.assertEqual([choice["finish_reason"] for choice in answer["choices"]], reasons)
            self.assertEqual(answer["usage"]["completion_tokens"], sum(len(ids) for ids in search["answers"]))

    def test_the_first_n_answers_are_the_best(self):
        body = body_of(searches()[10])
        every = [choice["text"] for choice in self.ask({**body, "n": 4, "beam_width": 4})["choices"]]
        for n in (1, 2):
            some = self.ask({**body, "n": n, "beam_width": 4})["choices"]
            self.assertEqual([choice["text"] for choice in some], every[:n])
        # As vLLM spelt it before: best_of is the width.
        del body["beam_width"]
        some = self.ask({**body, "n": 2, "best_of": 4})["choices"]
        self.assertEqual([choice["text"] for choice in some], every[:2])

    def test_a_stream_has_each_answer_in_one_piece(self):
        body = {**body_of(searches()[10]), "n": 2, "beam_width": 4}
        whole = [choice["text"] for choice in self.ask(body)["choices"]]
        _, _, text = self.server.request("POST", "/v1/completions", {**body, "stream": True})
        events = [line[6:] for line in text.decode().split("\n") if line.startswith("data: ")]
        self.assertEqual(events.pop(), "[DONE]")
        pieces = [choice for event in events for choice in json.loads(event)["choices"]]
        self.assertEqual([piece["text"] for piece in pieces], whole)

    def test_log_probs_and_chat(self):
        answer = self.ask({"prompt": "ab", "max_tokens": 5, "use_beam_search": True, "n": 3, "logprobs": 2,
                           "ignore_eos": True})
        sums = []
        for choice in answer["choices"]:
            self.assertEqual(len(choice["logprobs"]["token_logprobs"]), 5)
            sums.append(sum(choice["logprobs"]["token_logprobs"]))
        self.assertEqual(sums, sorted(sums, reverse=True))
        chat = self.ask({"messages": [{"role": "user", "content": "ab"}], "max_tokens": 5,
                         "use_beam_search": True, "beam_width": [2, 4], "n": 2, "temperature": 0},
                        "/v1/chat/completions")
        self.assertEqual(len(chat["choices"]), 2)

    def test_best_of_tells_those_with_the_best_mean_log_prob(self):
        body = {"prompt": "abc", "max_tokens": 6, "seed": 5, "logprobs": 0, "ignore_eos": True}
        drawn = self.ask({**body, "n": 6})["choices"]
        means = {choice["text"]: sum(choice["logprobs"]["token_logprobs"]) / 6 for choice in drawn}
        ranked = sorted(means, key=lambda text: -means[text])
        best = self.ask({**body, "n": 2, "best_of": 6})
        self.assertEqual([choice["text"] for choice in best["choices"]], ranked[:2])
        self.assertEqual([choice["index"] for choice in best["choices"]], [0, 1])
        self.assertEqual(best["usage"]["completion_tokens"], 36)
        del body["logprobs"]
        plain = self.ask({**body, "n": 2, "best_of": 6, "echo": True, "prompt": ["abc", "xyz"]})["choices"]
        self.assertEqual([choice["text"] for choice in plain[:2]], ["abc" + text for text in ranked[:2]])
        self.assertEqual([choice["text"][:3] for choice in plain], ["abc", "abc", "xyz", "xyz"])
        self.assertIsNone(plain[0]["logprobs"])
        self.refused("best_of", {**body, "n": 1, "best_of": 2, "stream": True})

    def test_answers_are_held_to_what_the_request_asks_for(self):
        schema = {"type": "object", "properties": {"done": {"type": "boolean"}, "mood": {"enum": ["up", "down"]}},
                  "required": ["done", "mood"], "additionalProperties": False}
        body = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 60, "use_beam_search": True, "n": 4,
                "logprobs": True, "top_logprobs": 2,
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}
        answer = self.ask(body, "/v1/chat/completions")
        texts = [choice["message"]["content"] for choice in answer["choices"]]
        every = ['{"done":%s,"mood":"%s"}' % (done, mood) for done in ("true", "false") for mood in ("up", "down")]
        self.assertEqual(sorted(texts), sorted(every))
        scores = [sum(token["logprob"] for token in choice["logprobs"]["content"]) / len(choice["logprobs"]["content"])
                  for choice in answer["choices"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        # Whole in a stream, too.
        _, _, text = self.server.request("POST", "/v1/chat/completions", {**body, "stream": True, "n": 2,
                                                                           "beam_width": 4})
        events = [json.loads(line[6:]) for line in text.decode().split("\n") if line.startswith("data: {")]
        pieces = [choice["delta"].get("content") for event in events for choice in event["choices"]]
        self.assertEqual([piece for piece in pieces if piece], texts[:2])

    def test_there_are_no_more_answers_than_fit(self):
        body = {"prompt": ["ab", "cd"], "max_tokens": 20, "use_beam_search": True, "n": 4, "echo": True,
                "guided_choice": ["xq", "zq"]}
        choices = self.ask(body)["choices"]
        self.assertEqual([choice["index"] for choice in choices], [0, 1, 4, 5])
        self.assertEqual(sorted(choice["text"] for choice in choices), ["abxq", "abzq", "cdxq", "cdzq"])
        _, _, text = self.server.request("POST", "/v1/completions", {**body, "prompt": "ab", "stream": True})
        events = [line[6:] for line in text.decode().split("\n") if line.startswith("data: ")]
        self.assertEqual(events.pop(), "[DONE]")
        pieces = [choice for event in events for choice in json.loads(event)["choices"]]
        self.assertEqual(sorted(piece["text"] for piece in pieces), ["abxq", "abzq"])

    def test_min_new_tokens_is_min_tokens(self):
        body = {"prompt": "abc", "max_tokens": 8, "temperature": 0, "stop_token_ids": list(range(320))}
        self.assertEqual(self.ask(body)["usage"]["completion_tokens"], 1)
        self.assertEqual(self.ask({**body, "ignore_eos": True, "stop_token_ids": list(range(0, 320, 2)),
                                   "min_new_tokens": 4})["usage"]["completion_tokens"] >= 5, True)

    def test_what_makes_no_sense_is_refused_by_name(self):
        beams = {"prompt": "ab", "max_tokens": 4, "use_beam_search": True, "beam_width": 3}
        for field, more in (("temperature", {"temperature": 0.7}), ("top_p", {"top_p": 0.5}),
                            ("presence_penalty", {"presence_penalty": 1}), ("stop", {"stop": "a"}),
                            ("n", {"n": 4}), ("max_tokens", {"max_tokens": 0}),
                            ("beam_width", {"beam_width": 9}), ("logit_bias", {"logit_bias": {"5": 1}})):
            with self.subTest(field=field):
                message = self.refused(field, {**beams, **more})
                self.assertIn("beam", message)

    def tearDown(self):
        self.server.wait_idle()


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
