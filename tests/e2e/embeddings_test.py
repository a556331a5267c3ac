#!/usr/bin/env python3
"""/v1/embeddings by the openai client, over a tiny encoder whose vectors sentence-transformers gave.

Usage: embeddings_test.py PROGRAM [unittest options]
"""
import base64
import json
import math
import os
import struct
import sys
import unittest

import ollama
import openai

from serving import Serving

PROGRAM = ""
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "encoders", "bert")


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class EmbeddingsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Serving(PROGRAM, model=FOLDER))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)
        with open(os.path.join(FOLDER, "expected.json"), encoding="utf-8") as file:
            cls.expected = json.load(file)
        # Those that the model takes whole.
        fit = [i for i, tokens in enumerate(cls.expected["tokens"]) if tokens < max(cls.expected["tokens"])]
        cls.texts = [cls.expected["texts"][i] for i in fit]
        cls.vectors = [cls.expected["vectors"][i] for i in fit]
        cls.tokens = sum(cls.expected["tokens"][i] for i in fit)

    def test_vectors_of_texts_in_both_encodings(self):
        # The client asks for base64 unless told.
        for more in ({}, {"encoding_format": "float"}):
            answer = self.client.embeddings.create(model="bert", input=self.texts, **more)
            self.assertEqual(answer.object, "list")
            self.assertEqual(answer.model, "bert")
            self.assertEqual(answer.usage.prompt_tokens, self.tokens)
            self.assertEqual(answer.usage.total_tokens, self.tokens)
            self.assertEqual([item.index for item in answer.data], list(range(len(self.texts))))
            for item, expected in zip(answer.data, self.vectors):
                self.assertGreater(cosine(item.embedding, expected), 0.99999)
                self.assertAlmostEqual(math.hypot(*item.embedding), 1, places=5)

    def test_ollamas_form(self):
        _, answer = self.server.json("POST", "/api/embed", {"model": "bert:latest", "input": self.texts[:2]})
        for vector, expected in zip(answer["embeddings"], self.vectors):
            self.assertGreater(cosine(vector, expected), 0.99999)
        self.assertGreater(answer["prompt_eval_count"], 2)
        status, answer = self.server.json("POST", "/api/embed", {"input": ""})
        self.assertEqual((status, list(answer)), (400, ["error"]))

    def test_ollamas_older_form_by_its_client(self):
        client = ollama.Client(host=self.server.url)
        answer = client.embeddings(model="bert", prompt=self.texts[1], options={"num_ctx": 64}, keep_alive="5m")
        self.assertGreater(cosine(answer.embedding, self.vectors[1]), 0.99999)
        self.assertEqual(list(client.embeddings(model="bert", prompt="").embedding), [])
        with self.assertRaisesRegex(ollama.ResponseError, "input") as caught:
            client._request_raw("POST", "/api/embeddings", json={"input": "a"})
        self.assertEqual(caught.exception.status_code, 400)

    def test_base64_is_of_little_endian_floats(self):
        body = {"input": self.texts[0], "encoding_format": "base64"}
        _, answer = self.server.json("POST", "/v1/embeddings", body)
        data = base64.b64decode(answer["data"][0]["embedding"])
        vector = struct.unpack(f"<{len(data) // 4}f", data)
        self.assertGreater(cosine(vector, self.vectors[0]), 0.99999)

    def test_dimensions_and_token_ids(self):
        _, tokens = self.server.json("POST", "/tokenize", {"prompt": self.texts[2]})
        answer = self.client.embeddings.create(model="bert", input=[tokens["tokens"]], dimensions=16)
        vector = answer.data[0].embedding
        self.assertEqual(len(vector), 16)
        self.assertAlmostEqual(math.hypot(*vector), 1, places=5)
        self.assertGreater(cosine(vector, self.vectors[2][:16]), 0.99999)

    def test_a_text_that_is_too_long_is_refused_or_cut(self):
        long = self.expected["tokens"].index(max(self.expected["tokens"]))
        text, expected = self.expected["texts"][long], self.expected["vectors"][long]
        with self.assertRaisesRegex(openai.BadRequestError, "the model takes 48") as caught:
            self.client.embeddings.create(model="bert", input=text)
        self.assertEqual(caught.exception.body["param"], "input")
        answer = self.client.embeddings.create(model="bert", input=text, extra_body={"truncate": True})
        self.assertGreater(cosine(answer.data[0].embedding, expected), 0.99999)

    def test_documents_are_ordered_by_the_cosine_of_their_vectors(self):
        query, documents = self.texts[0], self.texts[1:]
        scores = [cosine(self.vectors[0], vector) for vector in self.vectors[1:]]
        best = sorted(range(len(scores)), key=lambda i: -scores[i])[:3]
        body = {"model": "bert", "query": query, "documents": documents, "top_n": 3}
        status, answer = self.server.json("POST", "/v1/rerank", body)
        self.assertEqual(status, 200)
        self.assertEqual([result["index"] for result in answer["results"]], best)
        for result in answer["results"]:
            self.assertAlmostEqual(result["relevance_score"], scores[result["index"]], places=4)
            self.assertEqual(result["document"]["text"], documents[result["index"]])
        status, cohere = self.server.json("POST", "/v2/rerank", body)
        self.assertEqual(status, 200)
        self.assertEqual(cohere["results"],
                         [{"index": result["index"], "relevance_score": result["relevance_score"]}
                          for result in answer["results"]])
        self.assertEqual(cohere["meta"]["billed_units"], {"search_units": 1})
        # Cut to one token, documents that begin alike are alike.
        alike = {**body, "documents": ["cat and a dog", "cat", "cat under a tree"],
                 "max_tokens_per_doc": 1}
        _, cohere = self.server.json("POST", "/v2/rerank", alike)
        self.assertEqual(len({result["relevance_score"] for result in cohere["results"]}), 1)
        status, refused = self.server.json("POST", "/v2/rerank", {**body, "surprise": 1})
        self.assertEqual((status, list(refused)), (400, ["message"]))
        _, answer = self.server.json("POST", "/v1/score", {"text_1": query, "text_2": documents})
        for item, score in zip(answer["data"], scores, strict=True):
            self.assertAlmostEqual(item["score"], score, places=4)

    def test_it_says_that_it_generates_nothing(self):
        with self.assertRaisesRegex(openai.BadRequestError, "embeds texts and generates none"):
            self.client.completions.create(model="bert", prompt="a")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
