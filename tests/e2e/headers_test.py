#!/usr/bin/env python3
"""What clients put beside a body and what answers carry: compressed bodies, dates, names of requests,
and browsers that ask for another site's page.

Usage: headers_test.py PROGRAM [unittest options]

Needs no model but a random one of a few hundred kilobytes. Standard library only.
"""
import email.utils
import gzip
import json
import os
import sys
import time
import unittest
import zlib

from serving import Serving

PROGRAM = ""
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "gguf",
                     "llama-F32.gguf")
BODY = json.dumps({"prompt": "a b c", "max_tokens": 2}).encode()
JSON = {"Content-Type": "application/json"}
MAX_BODY = 1 << 20


class HeadersCase(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(
            Serving(PROGRAM, "--max-body-bytes", str(MAX_BODY), *cls.options, model=MODEL))

    def post(self, body=BODY, path="/v1/completions", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.server.request("POST", path, body, {**JSON, **named})


class EncodingTest(HeadersCase):
    def test_a_compressed_body_is_read(self):
        for coding, body in (("gzip", gzip.compress(BODY)), ("deflate", zlib.compress(BODY)),
                             ("identity", BODY)):
            status, _, answer = self.post(body, Content_Encoding=coding)
            self.assertEqual(status, 200, answer)
            self.assertEqual(json.loads(answer)["usage"]["completion_tokens"], 2)

    def test_others_are_refused_in_a_sentence(self):
        bomb = gzip.compress(b" " * (50 * MAX_BODY), 9)
        self.assertLess(len(bomb), MAX_BODY)
        for coding, body, expected in (("br", BODY, 415), ("gzip", BODY, 400),
                                       ("gzip", gzip.compress(BODY)[:-3], 400),
                                       ("gzip", gzip.compress(BODY) + b"x", 400),
                                       ("gzip", bomb, 413)):
            status, _, answer = self.post(body, Content_Encoding=coding)
            self.assertEqual(status, expected, answer)
            self.assertTrue(json.loads(answer)["error"]["message"])


class NamesTest(HeadersCase):
    def test_every_answer_has_a_date(self):
        for method, path in (("GET", "/live"), ("GET", "/nowhere"), ("POST", "/v1/completions")):
            _, headers, _ = self.server.request(method, path)
            moment = email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
            self.assertLess(abs(moment - time.time()), 60, headers["Date"])

    def test_a_request_has_the_name_that_its_client_gave_or_one_that_is_drawn(self):
        _, headers, answer = self.post(X_Request_Id="run-7")
        self.assertEqual(headers["X-Request-Id"], "run-7")
        self.assertEqual(json.loads(answer)["id"], "cmpl-run-7")
        drawn = set()
        for given in ({}, {}, {"X_Request_Id": "a b"}, {"X_Request_Id": "x" * 200}):
            _, headers, answer = self.post(**given)
            self.assertRegex(headers["X-Request-Id"], "^[0-9a-f]{24}$")
            self.assertEqual(json.loads(answer)["id"], "cmpl-" + headers["X-Request-Id"])
            drawn.add(headers["X-Request-Id"])
        self.assertEqual(len(drawn), 4)

    def test_a_stream_and_an_error_have_it_too(self):
        stream = json.dumps({"prompt": "a", "max_tokens": 2, "stream": True}).encode()
        for body, expected in ((stream, 200), (b"{", 400)):
            status, headers, _ = self.post(body, X_Request_Id="run-8")
            self.assertEqual((status, headers["X-Request-Id"]), (expected, "run-8"))
            self.assertIn("GMT", headers["Date"])

    def test_a_prompt_over_the_context_has_openais_code(self):
        status, _, answer = self.post(json.dumps({"prompt": list(range(100)) * 100}).encode())
        self.assertEqual(status, 400, answer)
        self.assertEqual(json.loads(answer)["error"]["code"], "context_length_exceeded")


class NoOriginTest(HeadersCase):
    def test_no_page_of_another_site_may_read_an_answer(self):
        _, headers, _ = self.post(Origin="https://a.example")
        self.assertIsNone(headers["Access-Control-Allow-Origin"])
        status, headers, _ = self.server.request(
            "OPTIONS", "/v1/completions", None,
            {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual(status, 405)
        self.assertIsNone(headers["Access-Control-Allow-Origin"])


class OriginTest(HeadersCase):
    options = ("--allow-origin", "https://a.example,http://localhost:3000")

    def test_a_named_page_may(self):
        asks = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type"}
        status, headers, _ = self.server.request("OPTIONS", "/v1/completions", None, asks)
        self.assertEqual(status, 200)
        self.assertEqual(headers["Access-Control-Allow-Origin"], "https://a.example")
        self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization,content-type")
        stream = json.dumps({"prompt": "a", "max_tokens": 2, "stream": True}).encode()
        for body in (BODY, stream, b"{"):
            _, headers, _ = self.post(body, Origin="https://a.example")
            self.assertEqual(headers["Access-Control-Allow-Origin"], "https://a.example")

    def test_a_refused_body_is_one_that_the_page_may_read_of(self):
        # Longer than it may be, as its header says or as it turns out.
        long = b"x" * (MAX_BODY + 1)
        for given, body in (({"Content-Length": str(len(long))}, b""),
                            ({"Transfer-Encoding": "chunked"}, b"%x\r\n%s\r\n0\r\n\r\n" % (len(long), long))):
            head = {"Host": "localhost", "Origin": "https://a.example", "X-Request-Id": "run-9", **JSON, **given}
            lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            answer = self.server.raw(f"POST /v1/completions HTTP/1.1\r\n{lines}\r\n".encode() + body)
            self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer[:200])
            self.assertIn(b"\r\nAccess-Control-Allow-Origin: https://a.example\r\n", answer)
            self.assertIn(b"\r\nX-Request-Id: run-9\r\n", answer)

    def test_a_page_may_load_and_delete(self):
        for method, path in (("GET", "/v1/models"), ("DELETE", "/v1/files/x"), ("POST", "/models/load")):
            asks = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": method}
            status, headers, _ = self.server.request("OPTIONS", path, None, asks)
            self.assertEqual(status, 200)
            self.assertIn(method, headers["Access-Control-Allow-Methods"].split(", "))
            self.assertEqual(headers["Vary"], "Origin")

    def test_others_may_not(self):
        for origin in ("https://b.example", "null", "http://a.example"):
            _, headers, _ = self.post(Origin=origin)
            self.assertIsNone(headers["Access-Control-Allow-Origin"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
