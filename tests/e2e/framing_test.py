#!/usr/bin/env python3
"""Where an HTTP request ends and whom it is for, by raw sockets: nothing that a client writes, or a
proxy passes on, may become a second request, hold others up, or be taken for another site's.

Usage: framing_test.py PROGRAM [unittest options]

Needs no model but a random one of a few hundred kilobytes. Standard library only.
"""
import concurrent.futures
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

from serving import DRAWN_MAX, ENDLESS, UNREAD, Serving, bare_model, read_all, read_head, replies

PROGRAM = ""
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "gguf",
                     "llama-F32.gguf")
# A body that would be answered with 200 if it were taken for a request.
SMUGGLED = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
GOOD = b'{"content": "a"}'
LIVE = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
MAX_BODY = 16 << 20


def chunked(body, trailers=b""):
    return b"%x\r\n" % len(body) + body + b"\r\n0\r\n" + trailers + b"\r\n"


def request(*lines, body=b"", start=b"POST /tokenize HTTP/1.1", host=b"Host: localhost"):
    return b"\r\n".join([start, *([host] if host else []), *lines, b"", b""]) + body


class FramingCase(unittest.TestCase):
    """One server for all tests of a class."""
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Serving(PROGRAM, *cls.options, model=MODEL))

    def send(self, data):
        """The answers to `data`, after the last of which the server must close."""
        with self.server.connect(30) as sock:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(data)
            return replies(read_all(sock))

    def statuses(self, data):
        return [answer[0] for answer in self.send(data)]

    def status(self, data):
        """The status of the only answer."""
        statuses = self.statuses(data)
        self.assertEqual(len(statuses), 1, data[:200])
        return statuses[0]

    def refused(self, data, *statuses):
        """One answer with one of these statuses, after which the connection is closed."""
        answers = self.send(data)
        self.assertEqual(len(answers), 1, (data[:200], answers))
        status, head, body = answers[0]
        self.assertIn(status, statuses, (data[:200], answers))
        self.assertIn(b"connection: close", head.lower(), data[:200])
        self.assertTrue(json.loads(body)["error"]["message"])


# Spellings of a length N; %d stands for it. The first ones are right.
RIGHT_LENGTHS = [b"Content-Length: %d", b"content-length:%d", b"CONTENT-LENGTH:\t %d \t",
                 b"Content-Length: 00%d"]
WRONG_LENGTHS = [b"Content-Length: +%d", b"Content-Length: -%d", b"Content-Length: %d, %d",
                 b"Content-Length: %d,", b"Content-Length: %d %d", b"Content-Length: 0x%d",
                 b"Content-Length: %d.0", b"Content-Length: %dx", b"Content-Length: \"%d\"",
                 b"Content-Length:", b"Content-Length: 99999999999999999999",
                 b"Content-Length : %d", b" Content-Length: %d", b"Content-Length\t: %d",
                 b"Content-Length: \xc2\xa0%d", b"Content-Length: %d\0", b"Content-Length: %d\x0b",
                 b"Content-Length: %d\n", b"Content-Length: %d\rX: a"]
RIGHT_CODINGS = [b"Transfer-Encoding: chunked", b"transfer-encoding:CHUNKED",
                 b"TRANSFER-ENCODING:\t Chunked \t"]
WRONG_CODINGS = [b"Transfer-Encoding: " + value for value in
                 (b"gzip", b"identity", b"x", b"", b",", b"chunked,", b", chunked",
                  b"chunked, chunked", b"chunked, identity", b"identity, chunked", b"gzip, chunked",
                  b"chunked;q=1", b"\"chunked\"", b"xchunked", b"chunked x", b"\x0bchunked",
                  b"chunked\0", b"chunked\n", b"chunked\rX: a", b"\xc2\xa0chunked")
                 ] + [b"Transfer-Encoding : chunked", b" Transfer-Encoding: chunked",
                      b"Transfer-Encoding\0: chunked"]


def length_lines(spellings, body):
    return [line.replace(b"%d", b"%d" % len(body)) for line in spellings]


class ProductTest(FramingCase):
    def lines(self, body):
        """Every (lengths, codings) that says where `body` ends, rightly or not."""
        right, wrong = length_lines(RIGHT_LENGTHS, body), length_lines(WRONG_LENGTHS, body)
        one, other = right[0], b"Content-Length: 0"
        lengths = [(), *((line,) for line in right + wrong), (one, one), (one, other), (other, one),
                   (one, right[1]), (one, wrong[0])]
        coding = RIGHT_CODINGS[0]
        codings = [(), *((line,) for line in RIGHT_CODINGS + WRONG_CODINGS), (coding, coding),
                   (coding, WRONG_CODINGS[0]), (WRONG_CODINGS[1], coding), (coding, RIGHT_CODINGS[1])]
        return [pair for pair in itertools.product(lengths, codings) if any(pair)]

    def served(self, lengths, codings, body):
        """Whether this is a request with that body, by RFC 9112."""
        if not codings:
            return len(lengths) == 1 and lengths[0] in length_lines(RIGHT_LENGTHS, body)
        return not lengths and len(codings) == 1 and codings[0] in RIGHT_CODINGS

    def test_no_body_becomes_a_request(self):
        seen = {True: 0, False: 0}
        for body in (SMUGGLED, chunked(SMUGGLED)):
            for lengths, codings in self.lines(body):
                served = self.served(lengths, codings, body)
                seen[served] += 1
                for lines in {(*lengths, *codings), (*codings, *lengths)}:
                    data = request(*lines, body=body)
                    if not served or (codings and body == SMUGGLED):  # which is no chunk
                        self.refused(data, 400, 501)
                    else:  # it is no JSON, and what stands behind it is the next request
                        self.assertEqual(self.statuses(data + LAST), [400, 200], data)
        self.assertGreater(seen[False], 1000)
        self.assertEqual(seen[True], 2 * (len(RIGHT_LENGTHS) + len(RIGHT_CODINGS)))

    def test_right_requests_are_answered_and_the_next_one_too(self):
        for line in length_lines(RIGHT_LENGTHS, GOOD):
            self.assertEqual(self.statuses(request(line, body=GOOD) + LAST), [200, 200], line)
        for line in RIGHT_CODINGS:
            self.assertEqual(self.statuses(request(line, body=chunked(GOOD)) + LAST), [200, 200],
                             line)

    def test_unknown_codings_are_501(self):
        for coding in (b"gzip", b"identity", b"br"):
            self.refused(request(b"Transfer-Encoding: " + coding, body=SMUGGLED), 501)

    def test_http_1_0_has_no_chunks(self):
        self.refused(request(b"Transfer-Encoding: chunked", start=b"POST /tokenize HTTP/1.0",
                             body=chunked(GOOD)), 400)

    def test_a_folded_line_is_refused(self):
        for line in (b"Content-Length:\r\n %d" % len(SMUGGLED), b"X-Any: a\r\n b", b"X-Any: a\r\n\tb",
                     b"X-Any:\r\n ", b"Transfer-Encoding: chunked\r\n , identity",
                     b"Transfer-Encoding: identity\r\n chunked"):
            self.refused(request(line, body=SMUGGLED), 400)
        # However the line is cut into packets.
        data = request(b"X-Any: a\r\n b", start=b"GET /live HTTP/1.1")
        for end in range(data.index(b"\r\n b"), data.index(b" b") + 2):
            with self.server.connect(30) as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.sendall(data[:end])
                self.assertEqual(self.statuses(LAST), [200])  # time for the first part to arrive
                sock.sendall(data[end:])
                self.assertEqual([answer[0] for answer in replies(read_all(sock))], [400])

    def test_a_body_of_a_get_is_read_and_dropped(self):
        get = b"GET /live HTTP/1.1"
        for data in (request(b"Content-Length: %d" % len(SMUGGLED), start=get, body=SMUGGLED),
                     request(b"Transfer-Encoding: chunked", start=get, body=chunked(SMUGGLED))):
            self.assertEqual(self.statuses(data + LAST), [200, 200])
        self.refused(request(b"Content-Length: %d" % (MAX_BODY + 1), start=get), 413)

    def test_a_refused_body_is_not_read_as_the_next_request(self):
        for start in (b"POST /nowhere HTTP/1.1", b"DELETE /v1/models HTTP/1.1"):
            self.refused(request(b"Content-Length: %d" % len(SMUGGLED), start=start, body=SMUGGLED),
                         404, 405)
            # Without a body the connection goes on.
            self.assertEqual(len(self.send(request(start=start) + LAST)), 2)


class ChunkTest(FramingCase):
    def test_right_chunks(self):
        half = b"8\r\n" + GOOD[:8] + b"\r\n"
        rest = b"0008;a=b; c=\"d;e\"\r\n" + GOOD[8:] + b"\r\n"
        for body in (chunked(GOOD), half + rest + b"0\r\n\r\n", half + rest + b"000;x\r\n\r\n"):
            self.assertEqual(self.statuses(request(RIGHT_CODINGS[0], body=body) + LAST), [200, 200],
                             body)

    def test_wrong_chunks(self):
        for size in (b"", b"0x10", b"+10", b"-10", b" 10", b"10 ", b"1 0", b"g", b"10;", b"10;=",
                     b"10;a=\"", b"10000000000000010", b"FFFFFFFFFFFFFFFFF", b"10\0", b"10\n",
                     b"10\r", b"f", b"11"):
            body = size + b"\r\n" + GOOD + b"\r\n0\r\n\r\n" + SMUGGLED
            self.refused(request(RIGHT_CODINGS[0], body=body), 400)

    def test_chunks_over_the_limit(self):
        for size in (b"1000001", b"FFFFFFFFFFFFFFFF"):
            self.refused(request(b"Transfer-Encoding: chunked", body=size + b"\r\n"), 413)
        self.refused(request(b"Transfer-Encoding: chunked", body=b"5;" + b"a" * 200_000), 431)
        for part in (b"5;" + b"a" * 200_000, b"0\r\na: " + b"b" * 200_000):
            answer = self.send(request(b"Transfer-Encoding: chunked", body=part))[0]
            self.assertEqual(answer[0], 431)
            self.assertIn(b"chunk", answer[2])
            self.assertIn(b"%d" % (16384 + 65536), answer[2])

    def test_bare_line_ends(self):
        for body in (chunked(GOOD).replace(b"\r\n", b"\n"), chunked(GOOD).replace(b"\r\n", b"\r"),
                     b"10\n" + GOOD + b"\r\n0\r\n\r\n", b"10\r\n" + GOOD + b"\n0\r\n\r\n"):
            self.refused(request(RIGHT_CODINGS[0], body=body + SMUGGLED), 400)

    def test_trailers_are_dropped(self):
        for trailer in (b"X-Any: a", b"Connection: close", b"Host: evil.example", b"Origin: null",
                        b"Expect: 100-continue"):
            data = request(b"Transfer-Encoding: chunked", body=chunked(GOOD, trailer + b"\r\n"))
            self.assertEqual(self.statuses(data + LAST), [200, 200], trailer)
        for trailer in (b"Content-Length: 5", b"Transfer-Encoding: gzip", b"a b", b": a", b"a\0: b"):
            data = request(b"Transfer-Encoding: chunked",
                           body=chunked(GOOD, trailer + b"\r\n") + SMUGGLED)
            self.refused(data, 400)

    def test_a_folded_line_of_a_trailer_is_refused(self):
        for trailer in (b"X-Any: a\r\n b", b"X-Any: a\r\n\tb", b"X-Any:\r\n ", b" X-Any: a",
                        b"X-Any: a\r\nX-More: b\r\n c"):
            data = request(b"Transfer-Encoding: chunked", body=chunked(GOOD, trailer + b"\r\n"))
            self.refused(data + SMUGGLED, 400)
            self.assertIn(b"behind the last chunk begins with a space", self.send(data)[0][2])
            # In any number of packets.
            with self.server.connect(30) as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.sendall(data[:data.index(trailer) + 4])
                self.assertEqual(self.statuses(LAST), [200])  # time for the first part to arrive
                sock.sendall(data[data.index(trailer) + 4:])
                self.assertEqual([answer[0] for answer in replies(read_all(sock))], [400])
        # Lines of a chunk may begin as they like, and so may what stands behind the trailer.
        body = b'{"content":\r\n "x"}'
        data = request(b"Transfer-Encoding: chunked", body=chunked(body, b"X-Any: a\r\n"))
        self.assertEqual(self.statuses(data + LAST), [200, 200])
        self.assertEqual(self.statuses(data + b" " + LAST), [200, 400])


class HeaderTest(FramingCase):
    def get(self, *lines, target=b"/live", host=b"Host: localhost", version=b"1.1", method=b"GET"):
        return self.status(request(b"Connection: close", *lines, host=host,
                                   start=b"%s %s HTTP/%s" % (method, target, version)))

    def test_host(self):
        for host in (b"localhost", b"LOCALHOST:1", b"127.0.0.1:65535", b"127.1.2.3", b"[::1]:80"):
            self.assertEqual(self.get(host=b"Host: " + host), 200, host)
        for host in (b"evil.example", b"127.0.0.1.nip.io:80", b"192.168.0.1", b"[fe80::1]"):
            self.assertEqual(self.get(host=b"Host: " + host), 403, host)
        for host in (b"", b"a b", b"a,localhost", b"localhost/a", b"a@localhost", b"localhost:x",
                     b"localhost:65536", b"[::1", b"::1", b"loc\xc3\xa9"):
            self.assertEqual(self.get(host=b"Host: " + host), 400, host)
        self.assertEqual(self.get(host=None), 400)
        self.assertEqual(self.get(b"Host: localhost"), 400)
        self.assertEqual(self.get(b"host: localhost", version=b"1.0"), 400)
        self.assertEqual(self.get(host=None, version=b"1.0"), 200)
        body = self.send(request(b"Connection: close", host=b"Host: evil.example"))[0][2]
        self.assertIn(b"--allow-host", body)

    def test_targets(self):
        for target, status in ((b"http://localhost/live", 200), (b"HTTP://127.0.0.1:9/live", 200),
                               (b"http://evil.example/live", 403), (b"http:///live", 400),
                               (b"http://a@localhost/live", 400), (b"ftp://localhost/live", 400),
                               (b"live", 400), (b"*", 400), (b"/live?a=b#c", 200),
                               (b"//localhost/live", 404), (b"/%6cive", 404), (b"/../live", 404),
                               (b"/" + b"a" * 15_000, 404), (b"/" + b"a" * 17_000, 431),
                               (b"/\0", 400), (b"/\x7f", 400), (b"/a b", 400)):
            self.assertEqual(self.get(target=target), status, target[:40])
        # RFC 9112, 3.2.2: the target's host counts, not the header's.
        self.assertEqual(self.get(target=b"http://localhost/live", host=b"Host: evil.example"), 200)
        self.assertEqual(self.get(target=b"*", method=b"OPTIONS"), 404)
        self.assertEqual(self.get(target=b"localhost:80", method=b"CONNECT"), 400)

    def test_fields(self):
        self.assertEqual(self.get(*[b"a: b"] * 2000), 200)
        self.assertEqual(self.get(*[b"a: b"] * 3000), 431)
        self.assertEqual(self.get(b"a: " + b"b" * 17_000), 431)
        for line in (b"a", b": a", b"a : b", b"a b: c", b"a: b\0c", b"a: b\rc", b"a: b\nc: d",
                     b"a\xc3: b", b"(a): b", b"Authorization: a\r\nAuthorization: a",
                     b"x-api-key: a\r\nX-API-Key: b"):
            self.assertEqual(self.get(line), 400, line)

    def test_lines_end_with_both_characters(self):
        for data in (LAST.replace(b"\r\n", b"\n"), LAST.replace(b"\r\n", b"\r"),
                     LAST.replace(b"Host", b"\nHost"), b"\n" + LAST,
                     LAST.replace(b" HTTP", b"  HTTP"), LAST.replace(b"GET ", b"GET\t")):
            self.refused(data, 400)

    def test_a_page_of_another_site_cannot_post(self):
        def post(*lines):
            return self.status(request(b"Content-Length: %d" % len(GOOD), b"Connection: close",
                                       *lines, body=GOOD))
        for origin in (b"https://evil.example", b"null", b"http://localhost.evil.example"):
            for kind in ([], [b"Content-Type: text/plain"],
                         [b"Content-Type: text/plain; application/json"]):
                self.assertEqual(post(b"Origin: " + origin, *kind), 415, (origin, kind))
            self.assertEqual(post(b"Origin: " + origin, b"Content-Type: application/json; a=b"), 200)
        for origin in (b"http://localhost:3000", b"http://127.0.0.1"):
            self.assertEqual(post(b"Origin: " + origin, b"Content-Type: text/plain"), 200, origin)
        self.assertEqual(post(b"Content-Type: text/plain"), 200)
        # The question that a browser asks before it sends JSON to another site is not answered yes.
        asked = self.send(request(b"Origin: https://evil.example", b"Connection: close",
                                  b"Access-Control-Request-Method: POST",
                                  start=b"OPTIONS /tokenize HTTP/1.1"))
        self.assertEqual(asked[0][0], 405)
        self.assertNotIn(b"access-control", asked[0][1].lower())


class PipeliningTest(FramingCase):
    def pipeline(self, first):
        """Sends `first` and many requests behind it at once; gives all statuses."""
        data = first + LIVE * 6000 + LAST
        self.assertGreater(len(data), 3 * (64 << 10))
        with self.server.connect(60) as sock:
            writer = threading.Thread(target=sock.sendall, args=(data,))
            writer.start()
            answers = replies(read_all(sock))
            writer.join()
        return [answer[0] for answer in answers]

    def test_every_request_is_answered(self):
        self.assertEqual(self.pipeline(b""), [200] * 6001)

    def test_requests_behind_a_long_answer_are_answered(self):
        body = json.dumps({"prompt": [5], "max_tokens": 100, "ignore_eos": True}).encode()
        first = request(b"Content-Length: %d" % len(body), start=b"POST /v1/completions HTTP/1.1",
                        body=body)
        self.assertEqual(self.pipeline(first), [200] * 6002)


def completion(max_tokens, version=b"1.1", **fields):
    body = json.dumps({"prompt": [5], "max_tokens": max_tokens, "ignore_eos": True,
                       **fields}).encode()
    return request(b"Content-Length: %d" % len(body), start=b"POST /v1/completions HTTP/" + version,
                   body=body)


def finals(data):
    """The answers in `data` without the interim ones."""
    return replies(data.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b""))


class HalfCloseTest(FramingCase):
    """Clients that end their side."""
    # One at a time, so that they last; together they are less than what may wait for a slow reader.
    options = ("--max-num-seqs", "1")
    LONG = {"prompt": [[5]] * 8, "logprobs": 5}

    def half_closed(self, data):
        with self.server.connect(60) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return read_all(sock)

    def test_what_was_sent_before_the_end_is_answered(self):
        for _ in range(40):
            self.assertEqual([a[0] for a in finals(self.half_closed(completion(1)))], [200])
        data = completion(2) + LIVE + completion(1) + request(b"Content-Length: %d" % len(GOOD),
                                                             body=GOOD) + LIVE
        self.assertEqual([a[0] for a in finals(self.half_closed(data))], [200] * 5)
        self.assertEqual([a[0] for a in finals(self.half_closed(data + LIVE[:-3]))], [200] * 5)
        self.assertEqual(self.half_closed(LIVE[:-3]), b"")

    def test_a_long_answer_to_a_half_closed_client_is_complete(self):
        for stream in (False, True):
            answer = self.half_closed(completion(200, stream=stream, **self.LONG))
            if stream:
                self.assertTrue(answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), answer[-100:])
            else:
                choices = json.loads(finals(answer)[0][2])["choices"]
                self.assertEqual({choice["finish_reason"] for choice in choices}, {"length"})


class LeaveTest(unittest.TestCase):
    def drawn_for_a_client_that_leaves(self, server, data):
        before = server.metric("sluice_generated_tokens_total")
        with server.connect() as sock:
            sock.settimeout(1)
            with contextlib.suppress(TimeoutError):
                sock.sendall(data)
            while not server.metric("vllm:num_requests_running"):
                pass
        server.wait_idle()
        return server.metric("sluice_generated_tokens_total") - before

    def test_a_client_that_leaves_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder, \
                Serving(PROGRAM, *UNREAD, model=bare_model(folder)) as server:
            for answers, data in ((1, completion(ENDLESS)), (1, completion(ENDLESS, stream=True)),
                                  (1, completion(ENDLESS, version=b"1.0")), (1, completion(ENDLESS) + LIVE),
                                  (16, completion(ENDLESS, n=16, logprobs=5)),
                                  (1, completion(ENDLESS) + LIVE * 2000)):  # more than is read ahead
                drawn = self.drawn_for_a_client_that_leaves(server, data)
                self.assertLess(drawn, answers * DRAWN_MAX, data[:300])


class PlacesTest(FramingCase):
    """Connections that keep others out."""
    options = ("--max-connections", "8")

    def answered(self):
        return self.status(LAST) == 200

    def test_silent_connections_keep_nobody_out(self):
        with contextlib.ExitStack() as stack:
            for sent in [b""] * 10 + [LIVE[:9]] * 10 + [LIVE] * 10 + [b"x\r\n\r\n"] * 10:
                sock = stack.enter_context(self.server.connect(30))
                sock.sendall(sent)
                if sent.endswith(b"\r\n\r\n"):
                    self.assertTrue(read_head(sock))  # answered; idle, or closing, from then on
            self.assertTrue(all(self.answered() for _ in range(20)))

    def test_unfinished_bodies_keep_nobody_out(self):
        head = request(b"Content-Length: %d" % len(GOOD), b"Connection: close")
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                sock = stack.enter_context(self.server.connect(30))
                sock.sendall(head + GOOD[:1])
            self.assertTrue(all(self.answered() for _ in range(20)))
            sock.sendall(GOOD[1:])  # the last of them, and no older one has had to give way to it
            self.assertEqual([answer[0] for answer in replies(read_all(sock))], [200])


class DeadlineTest(FramingCase):
    """Connections that keep their own places too long."""
    options = ("--max-connections", "8", "--idle-seconds", "2")

    def is_closed(self, head, most, slowly):
        """Whether the server closes a connection that sends `most` bytes behind `head` around the
        deadline, and then nothing, or `slowly` always one more."""
        with self.server.connect(30) as sock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begin = time.monotonic()
            sock.sendall(head)
            time.sleep(1.98)
            while time.monotonic() < begin + 2.15 and most > 0:
                most -= sock.send(b"a")
            # The deadline is 2 s; a busy machine may take long to act on it.
            sock.settimeout(0.2)
            while time.monotonic() < begin + 30:
                with contextlib.suppress(TimeoutError):
                    if slowly:
                        sock.send(b"a")
                    if not sock.recv(65536):
                        return True
            return False
        return True

    def test_bytes_around_the_deadline_do_not_lift_it(self):
        # Some at a time, so that the server has more to do than its threads can.
        for head, most in ((b"GET /live HTTP/1.1\r\nX: ", 15_000),
                           (request(b"Content-Length: 1000000"), 900_000)):
            for slowly in (False, True):
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    closed = pool.map(lambda _: self.is_closed(head, most, slowly), range(4))
                    self.assertEqual(list(closed), [True] * 4, (head, slowly))


class ServedPlacesTest(FramingCase):
    # Answers wait for those behind them, each of which a sanitized server may work on for long.
    options = ("--max-connections", "4", "--idle-seconds", "600")

    def test_what_is_served_keeps_its_place(self):
        # Answers that are longer than what the system keeps of them for a client that does not read.
        body = b'{"content": "%s", "return_token_strs": true}' % (b"a" * (1 << 20))
        data = request(b"Content-Length: %d" % len(body), b"Connection: close", body=body)
        with contextlib.ExitStack() as stack:
            socks = []
            for _ in range(4):  # each opened when the one before is answered: one that says nothing is closed
                socks.append(stack.enter_context(self.server.connect(300, 4096)))
                socks[-1].sendall(data)
                self.assertEqual(socks[-1].recv(1), b"H")
            self.assertEqual(self.status(LAST), 503)
            for sock in socks:
                self.assertEqual([answer[0] for answer in replies(b"H" + read_all(sock))], [200])
        self.assertEqual(self.status(LAST), 200)


def flood(server, stack):
    """Bodies that never come to their end: long ones all but for nine bytes, and ones of which nine
    bytes came."""
    head = request(b"Content-Length: %d" % MAX_BODY)
    for sent in [MAX_BODY - 9] * 31 + [9] * 460:
        sock = stack.enter_context(server.connect(30))
        # The server may refuse and not read all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            sock.sendall(head + b" " * sent)


class BodyMemoryTest(FramingCase):
    def test_bodies_that_do_not_end_keep_no_ordinary_request_out(self):
        with contextlib.ExitStack() as stack:
            flood(self.server, stack)
            # Many times, since the server may still be reading what the flood has sent.
            for body in [GOOD, b'{"content": "' + b"a" * 60_000 + b'"}'] * 100:
                data = request(b"Content-Length: %d" % len(body), b"Connection: close", body=body)
                self.assertEqual(self.status(data), 200)


class KeyTest(unittest.TestCase):
    def setUp(self):
        keys = self.enterContext(tempfile.NamedTemporaryFile("w", suffix=".keys"))
        keys.write("right-key\n")
        keys.flush()
        self.server = self.enterContext(
            Serving(PROGRAM, "--api-key-file", keys.name, model=MODEL))

    def statuses(self, data):
        return [answer[0] for answer in replies(self.server.raw(data, timeout=30))]

    def test_a_key_in_a_trailer_is_none(self):
        for trailer in (b"X-Api-Key: right-key\r\n", b"Authorization: Bearer right-key\r\n"):
            data = request(b"Transfer-Encoding: chunked", b"Connection: close",
                           body=chunked(GOOD, trailer))
            self.assertEqual(self.statuses(data), [401])

    def test_without_a_key_no_body_is_read(self):
        data = request(b"Content-Length: %d" % MAX_BODY, b"Expect: 100-continue")
        with self.server.connect(30) as sock:
            sock.sendall(data)  # and no byte of the body
            answer = read_head(sock)
        self.assertIn(b" 401 ", answer.split(b"\r\n")[0])
        self.assertIn(b"connection: close", answer.lower())
        # A request without a body leaves the connection as it was; a key's owner may go on.
        get = b"GET /v1/models HTTP/1.1"
        last = request(b"X-Api-Key: right-key", b"Connection: close", start=get)
        self.assertEqual(self.statuses(request(start=get) + last), [401, 200])

    def test_clients_without_a_key_do_not_keep_one_with_a_key_out(self):
        with contextlib.ExitStack() as stack:
            flood(self.server, stack)
            long = b'{"content": "a"' + b" " * (1 << 20) + b"}"
            for body in (GOOD, long):
                data = request(b"X-Api-Key: right-key", b"Content-Length: %d" % len(body),
                               b"Connection: close", body=body)
                self.assertEqual(self.statuses(data), [200])

    def test_a_server_with_keys_answers_to_every_name(self):
        data = request(b"X-Api-Key: right-key", b"Connection: close", host=b"Host: models.example",
                       start=b"GET /v1/models HTTP/1.1")
        self.assertEqual(self.statuses(data), [200])


class OptionTest(unittest.TestCase):
    def test_listed_names_are_answered(self):
        with Serving(PROGRAM, "--allow-host", "chat.example,[fd00::1]", model=MODEL) as server:
            for host, status in ((b"chat.example:80", 200), (b"[fd00::1]", 200), (b"localhost", 200),
                                 (b"evil.example", 403)):
                data = request(b"Connection: close", start=b"GET /live HTTP/1.1",
                               host=b"Host: " + host)
                self.assertEqual([answer[0] for answer in replies(server.raw(data))], [status], host)

    def test_the_same_port_is_free_at_once(self):
        with Serving(PROGRAM, model=MODEL) as server:
            # The server closes first: its end of these connections stays in TIME_WAIT.
            for _ in range(3):
                self.assertEqual(len(replies(server.raw(LAST))), 1)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)
            with Serving(PROGRAM, model=MODEL, port=server.port) as again:
                self.assertEqual(again.port, server.port)
                self.assertEqual(len(replies(again.raw(LAST))), 1)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
