#!/usr/bin/env python3
"""HTTPS: `sluice serve --tls-cert --tls-key` against Python's ssl and curl, and what clients do that do
not speak TLS, or slowly.

Usage: tls_test.py PROGRAM [unittest options]

Needs no model but a random one of a few hundred kilobytes. Standard library only.
"""
import concurrent.futures
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

from serving import DRAWN_MAX, ENDLESS, UNREAD, Serving, bare_model, post, read_all

PROGRAM = ""
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
MODEL = os.path.join(GOLDEN, "gguf", "llama-F32.gguf")
CERT = os.path.join(GOLDEN, "tls", "localhost.crt")
KEY = os.path.join(GOLDEN, "tls", "localhost.key")
BODY = {"prompt": "a b c", "max_tokens": 4, "temperature": 0}


def context(**limits):
    made = ssl.create_default_context(cafile=CERT)
    for name, value in limits.items():
        setattr(made, name, value)
    return made


def ask(server, method, path, body=None, made=None):
    connection = http.client.HTTPSConnection("localhost", server.port, context=made or context(), timeout=60)
    try:
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(
            Serving(PROGRAM, "--tls-cert", CERT, "--tls-key", KEY, "--idle-seconds", "5",
                    "--max-connections", "16", model=MODEL))

    def test_answers_are_those_of_plain_http(self):
        self.assertIn("at https://127.0.0.1:", self.server.line)
        with Serving(PROGRAM, model=MODEL) as plain:
            expected = plain.json("POST", "/v1/completions", BODY)[1]["choices"]
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            made = context(minimum_version=version, maximum_version=version)
            status, answer = ask(self.server, "POST", "/v1/completions", BODY, made)
            self.assertEqual((status, answer["choices"]), (200, expected))

    def test_one_connection_serves_many_requests(self):
        connection = http.client.HTTPSConnection("localhost", self.server.port, context=context(), timeout=60)
        for length in (1, 100_000, 3_000_000):
            connection.request("POST", "/v1/completions", json.dumps(BODY) + " " * length,
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200, answer.read())
            answer.read()
        connection.close()

    def test_a_stream_comes_whole_and_with_a_goodbye(self):
        body = json.dumps({**BODY, "stream": True, "max_tokens": 50, "ignore_eos": True}).encode()
        raw = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
        with context().wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                         b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                         % (len(body), body))
            data = read_all(sock)  # an end without close_notify is an error
        self.assertIn(b"data: [DONE]", data)

    def test_curl_speaks_with_it(self):
        for more in ((), ("--tlsv1.3",), ("--http1.1",), ("--tls-max", "1.2")):
            done = subprocess.run(
                ["curl", "-sS", "--cacert", CERT, *more, "-d", json.dumps(BODY), "-H",
                 "Content-Type: application/json", f"https://localhost:{self.server.port}/v1/completions"],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["usage"]["completion_tokens"], 4)

    def test_an_old_version_is_refused(self):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version = ssl.TLSVersion.TLSv1_1
        made.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises(ssl.SSLError):
            ask(self.server, "GET", "/live", made=made)

    def test_a_client_without_tls_is_told(self):
        answer = self.server.raw(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 400 "), answer)
        self.assertIn(f"Content-Length: {len(body)}".encode(), head)
        self.assertIn("https://", json.loads(body)["error"]["message"])

    def test_rubbish_is_cut_off(self):
        for data in (b"\x00" * 100, b"\x16\x03\x01\x00\x05hello", b"SSH-2.0-x\r\n", b"\xff" * 20000):
            try:
                self.assertNotIn(b"HTTP/1.1 200", self.server.raw(data))
            except (BrokenPipeError, ConnectionResetError):
                pass
        self.assertEqual(ask(self.server, "GET", "/live")[0], 200)

    def test_a_handshake_that_stops_is_closed(self):
        # --idle-seconds is less than a handshake's own limit, and counts.
        with self.server.connect(timeout=60) as silent, self.server.connect(timeout=60) as begun:
            begun.sendall(b"\x16\x03\x01")
            self.assertEqual((read_all(silent), read_all(begun)), (b"", b""))

    def test_handshakes_that_stop_keep_nobody_out(self):
        silent = [self.server.connect() for _ in range(40)]
        try:
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for status, _ in pool.map(lambda _: ask(self.server, "GET", "/live"), range(12)):
                    self.assertEqual(status, 200)
        finally:
            for sock in silent:
                sock.close()

    def test_a_client_that_leaves_ends_its_request(self):
        def metric(server, name):
            connection = http.client.HTTPSConnection("localhost", server.port, context=context(), timeout=60)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

        body = json.dumps({**BODY, "max_tokens": ENDLESS, "ignore_eos": True, "stream": True}).encode()
        with tempfile.TemporaryDirectory() as folder, \
                Serving(PROGRAM, *UNREAD, "--tls-cert", CERT, "--tls-key", KEY,
                        model=bare_model(folder)) as server:
            raw = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            with context().wrap_socket(raw, server_hostname="localhost") as sock:
                sock.sendall(post("/v1/completions", body))
                sock.recv(100)
                while metric(server, "vllm:num_requests_running") != 1:  # told behind the first step
                    pass
            while metric(server, "vllm:num_requests_running"):
                pass
            self.assertLess(metric(server, "sluice_generated_tokens_total"), DRAWN_MAX)


class FilesTest(unittest.TestCase):
    def test_wrong_files_are_told_before_the_model_is_loaded(self):
        other = os.path.join(GOLDEN, "tls", "other.key")
        locked = os.path.join(GOLDEN, "tls", "passphrase.key")
        for options, said in (
                (("--tls-cert", CERT), "--tls-key is missing"),
                (("--tls-key", KEY), "--tls-cert is missing"),
                (("--tls-cert", "/nowhere", "--tls-key", KEY), "/nowhere"),
                (("--tls-cert", MODEL, "--tls-key", KEY), "holds no certificate"),
                (("--tls-cert", CERT, "--tls-key", other), "is not that of the certificate"),
                (("--tls-cert", CERT, "--tls-key", locked), "without a passphrase")):
            done = subprocess.run([PROGRAM, "serve", MODEL, "--port", "0", *options], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("loading", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
