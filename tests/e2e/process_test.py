#!/usr/bin/env python3
"""The server as a process: its signals, its log and output, and its files while it runs.

Usage: process_test.py PROGRAM [unittest options]
"""
import contextlib
import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from serving import DRAWN_MAX, LASTING, UNREAD, Serving, bare_model, model_path, post, read_all, read_head

PROGRAM = ""
# A second signal ends the program within 4 s (signals_test.cc), of which a busy machine makes more.
END_SECONDS_MAX = 30


@contextlib.contextmanager
def threads_held(pid):
    """All threads of a child but its main one stand still, as if each were in a call that never ends."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes, ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long
    seize, interrupt, all_threads = 0x4206, 0x4207, 0x40000000
    held = [int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != pid]
    for thread in held:
        for request in (seize, interrupt):
            if ptrace(request, thread, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "a thread of the server cannot be held")
        os.waitpid(thread, all_threads)
    try:
        yield
    finally:
        # The program has not ended before each of them was waited for.
        end, turn = time.monotonic() + 2 * END_SECONDS_MAX, threading.Event()
        while held and time.monotonic() < end:
            held = [thread for thread in held if os.waitpid(thread, all_threads | os.WNOHANG)[0] == 0]
            turn.wait(0.02)
        if held:
            os.kill(pid, signal.SIGKILL)
            for thread in held:
                os.waitpid(thread, all_threads)


def heeds(pid, number):
    """Whether a process has a handler for a signal."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        caught = re.search(r"^SigCgt:\s*(\w+)", status.read(), re.MULTILINE)
    return caught is not None and int(caught.group(1), 16) >> (number - 1) & 1 == 1


def listening_port(pid):
    """At which a server listens that has not told it; None: at none."""
    held = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it may be closed meanwhile
            held.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    with open(f"/proc/{pid}/net/tcp", encoding="utf-8") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    listening = "0A"  # the kernel's TCP_LISTEN
    return next((int(row[1].split(":")[1], 16) for row in rows
                 if row[3] == listening and f"socket:[{row[9]}]" in held), None)


def generate(server, **fields):
    return server.json("POST", "/v1/completions", {"prompt": "a", "max_tokens": 4, **fields})


def open_stream(server, stack, **fields):
    """A stream that ends after five seconds, unless `fields` say otherwise."""
    sock = stack.enter_context(server.connect())
    sock.sendall(post("/v1/completions", json.dumps({**LASTING, "stream": True, **fields}).encode()))
    read_head(sock)
    return sock


class SignalTest(unittest.TestCase):
    def test_a_second_signal_ends_it_whatever_its_workers_do(self):
        with tempfile.TemporaryFile("w+") as errors, Serving(PROGRAM, stderr=errors) as server:
            with threads_held(server.process.pid):
                server.process.send_signal(signal.SIGTERM)
                self.wait_until_taken(server.process.pid)
                self.assertIsNone(server.process.poll())
                server.process.send_signal(signal.SIGTERM)
                start = time.monotonic()
            self.assertEqual(server.process.wait(60), 1)
            self.assertLess(time.monotonic() - start, END_SECONDS_MAX)
            errors.seek(0)
            self.assertIn("a thread did not end in time", errors.read())

    def wait_until_taken(self, pid):
        """Two signals of a kind that wait together are one."""
        turn = threading.Event()
        while True:
            with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                if not re.search(r"^(SigPnd|ShdPnd):\s*0*[1-9a-f]", status.read(), re.MULTILINE):
                    return
            turn.wait(0.01)

    def test_a_hangup_drains_as_sigterm_does(self):
        # The tests themselves may run under nohup.
        heed = lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with Serving(PROGRAM, preexec_fn=heed) as server, contextlib.ExitStack() as stack:
            stream = open_stream(server, stack)
            server.process.send_signal(signal.SIGHUP)
            answer = read_all(stream)
            self.assertIn(b'"finish_reason":"timeout"', answer)  # so that it ran when the signal came
            self.assertIn(b"data: [DONE]", answer)
            self.assertEqual(server.process.wait(60), 0)

    def test_a_hangup_under_nohup_is_ignored(self):
        ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with Serving(PROGRAM, preexec_fn=ignore) as server:
            server.process.send_signal(signal.SIGHUP)
            self.assertEqual(generate(server)[0], 200)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)


class StreamTest(unittest.TestCase):
    def test_it_serves_on_when_nobody_reads_its_log_or_output(self):
        reader, writer = os.pipe()
        with Serving(PROGRAM, stderr=writer) as server, contextlib.ExitStack() as stack:
            os.close(writer)
            os.close(reader)
            server.process.stdout.close()
            stream = open_stream(server, stack)
            server.process.send_signal(signal.SIGTERM)  # which it logs
            answer = read_all(stream)
            self.assertIn(b'"finish_reason":"timeout"', answer)
            self.assertIn(b"data: [DONE]", answer)
            self.assertEqual(server.process.wait(60), 0)

    def test_it_starts_when_nobody_reads_the_line_that_says_so(self):
        reader, writer = os.pipe()
        os.close(reader)
        command = [PROGRAM, "serve", model_path(), "--port", "0"]
        with subprocess.Popen(command, stdout=writer) as process:
            os.close(writer)
            turn = threading.Event()
            # A server listens before it heeds signals, one of which would end it until then.
            while process.poll() is None and not heeds(process.pid, signal.SIGTERM):
                turn.wait(0.05)
            self.assertIsNone(process.poll())
            connection = http.client.HTTPConnection("127.0.0.1", listening_port(process.pid), timeout=60)
            connection.request("GET", "/live")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)


class FileTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.model = os.path.join(self.folder, "model.gguf")
        shutil.copyfile(model_path(), self.model)

    def test_a_file_that_is_cut_in_place_ends_it_with_a_word(self):
        with tempfile.TemporaryFile("w+") as errors, \
                Serving(PROGRAM, model=self.model, stderr=errors) as server:
            self.assertEqual(generate(server)[0], 200)
            os.truncate(self.model, 0)
            with contextlib.suppress(OSError):
                server.request("POST", "/v1/completions", {"prompt": "Now read on", "max_tokens": 4})
            self.assertEqual(server.process.wait(60), 1)
            errors.seek(0)
            last = errors.read().splitlines()[-1]
            self.assertIn(self.model, last)
            self.assertIn("was shortened", last)

    def test_weights_that_are_packed_are_read_no_more(self):
        """Of the file only the embedding stays mapped, and of a file that is replaced, the old one."""
        with Serving(PROGRAM, model=self.model) as server:
            with open(f"/proc/{server.process.pid}/maps", encoding="utf-8") as maps:
                mapped = [line for line in maps if self.model in line]
            size = 0
            for line in mapped:
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                size += end - begin
            self.assertLess(size, os.path.getsize(self.model) / 2, mapped)
            before = generate(server, temperature=0)
            other = self.model + ".new"
            with open(other, "wb") as file:
                file.write(b"something else")
            os.replace(other, self.model)
            self.assertEqual(generate(server, temperature=0)[1]["choices"], before[1]["choices"])


class BoundTest(unittest.TestCase):
    """The largest answer that can be asked for: what bounds it is the model's length."""
    FIELDS = {"n": 16, "max_tokens": 2**31 - 1, "logprobs": 20, "ignore_eos": True,
              "temperature": 1}

    def test_the_length_of_the_model_bounds_every_choice(self):
        length = 64
        with Serving(PROGRAM, "--max-model-len", str(length)) as server:
            status, answer = generate(server, **self.FIELDS)
            self.assertEqual(status, 200)
            self.assertEqual({choice["finish_reason"] for choice in answer["choices"]}, {"length"})
            self.assertEqual(answer["usage"]["completion_tokens"],
                             16 * (length - answer["usage"]["prompt_tokens"]))

    def test_a_client_that_leaves_ends_all_choices(self):
        with tempfile.TemporaryDirectory() as folder, \
                Serving(PROGRAM, *UNREAD, model=bare_model(folder)) as server:
            for stream in (True, False):
                before = server.metric("sluice_generated_tokens_total")
                body = {"prompt": "a", "stream": stream, **self.FIELDS}
                with server.connect() as sock:
                    sock.sendall(post("/v1/completions", json.dumps(body).encode()))
                    while server.metric("vllm:num_requests_running") < 16:
                        pass
                server.wait_idle()
                drawn = server.metric("sluice_generated_tokens_total") - before
                self.assertLess(drawn, 16 * DRAWN_MAX)


class PortTest(unittest.TestCase):
    def test_the_same_port_right_after_a_restart(self):
        with Serving(PROGRAM) as server, contextlib.ExitStack() as stack:
            stream = open_stream(server, stack, max_tokens=4)
            port = server.port
            server.process.send_signal(signal.SIGTERM)  # so that its side closes connections first
            read_all(stream)
            self.assertEqual(server.process.wait(60), 0)
            with Serving(PROGRAM, port=port) as again:
                self.assertEqual(again.port, port)
                self.assertEqual(generate(again)[0], 200)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
