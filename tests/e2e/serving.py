"""A `sluice serve` process for tests, and raw HTTP to it. Standard library only.

It runs on the device that SLUICE_DEVICE names, as any sluice does: `SLUICE_DEVICE=xpu
server_test.py PROGRAM LoadTest` puts these tests on another one.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

MODEL = "SmolLM2-135M-Instruct.Q4_1"
# Tokens of an answer that no machine ends within a test: the quickest one writes 15,000 a second.
ENDLESS = 500_000
# A client that leaves costs so many tokens of each of its answers at most: some that were drawn before the
# server could know of it.
DRAWN_MAX = ENDLESS // 10
# For streams that a test opens and does not read on. Without it the server takes their clients for slow readers
# and cancels their requests: those of a tiny model within a second, which a test may not see.
UNREAD = ("--stream-buffer-bytes", str(1 << 30))
# An answer that takes five seconds on every machine, and then ends well.
LASTING = {"prompt": "a", "max_tokens": ENDLESS, "ignore_eos": True, "timeout": 5}


def model_path():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = os.environ.get("SLUICE_CACHE") or os.path.join(home, "sluice")
    return os.path.join(cache, MODEL + ".gguf")


def bare_model(folder, positions=2 * ENDLESS):
    """A model of tests/golden within `folder`, called "tiny", whose answers can grow to `positions` tokens."""
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "models")
    model = os.path.join(folder, "tiny")
    shutil.copytree(os.path.join(golden, "llama"), model)
    with open(os.path.join(model, "config.json")) as file:
        config = json.load(file)
    with open(os.path.join(model, "config.json"), "w") as file:
        json.dump({**config, "max_position_embeddings": positions}, file)
    return model


def tiny_model(folder, positions=4096):
    """The same with the chat template of Qwen3, which has tools; it is one of $SLUICE_FIXTURES."""
    model = bare_model(folder, positions)
    shutil.copy(os.path.join(os.environ["SLUICE_FIXTURES"], "templates", "Qwen-Qwen3-0.6B.jinja"),
                os.path.join(model, "chat_template.jinja"))
    return model


class Serving:
    """Starts a server, on a port that the system chooses unless told; ends it on leaving the context.

    `streams` are subprocess.Popen's, but for standard output.
    """

    def __init__(self, program, *options, model=None, port=0, **streams):
        self.command = [program, "serve", model or model_path(), "--port", str(port), *options]
        self.streams = streams

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True,
                                        **self.streams)
        line = self.process.stdout.readline()
        found = re.search(r"https?://127\.0\.0\.1:(\d+)", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"the server said {line!r} and {self.process.wait()}")
        self.line = line
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.process.stdout.close()

    def request(self, method, path, body=None, headers=None, timeout=120):
        """Status, headers and body of one request; `body` is bytes, or a value to send as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, headers=None):
        status, _, text = self.request(method, path, body, headers)
        return status, json.loads(text)

    def metric(self, name):
        _, _, text = self.request("GET", "/metrics")
        found = re.search(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text.decode(), re.MULTILINE)
        return float(found.group(1))

    def connect(self, timeout=120, receive_bytes=None):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        if receive_bytes:  # counts only if it is set before the connection is made
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def raw(self, data, timeout=120):
        """Everything that comes back for `data` until the server closes."""
        with self.connect(timeout) as sock:
            sock.sendall(data)
            return read_all(sock)

    def wait_idle(self):
        """Returns once no request runs or waits; the test's own time limit ends a wait in vain."""
        turn = threading.Event()
        while (self.metric("vllm:num_requests_running") or self.metric("vllm:num_requests_waiting")
               or self.metric("sluice_kv_blocks_free") != self.metric("sluice_kv_blocks_total")):
            turn.wait(0.05)


def read_all(sock):
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def read_head(sock):
    """Reads up to the end of an answer's header."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(4096)
        if not part:
            break
        data += part
    return data


def replies(data):
    """The answers in `data`, as (status, header, body) each; all have a length. What is left over
    is not HTTP, and an error."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        status = re.fullmatch(rb"HTTP/1\.1 (\d{3}) [^\r\n]+", head.split(b"\r\n")[0])
        length = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
        if not status or not length or len(rest) < int(length.group(1)):
            raise AssertionError(f"not a whole answer: {data[:200]!r}")
        found.append((int(status.group(1)), head, rest[:int(length.group(1))]))
        data = rest[int(length.group(1)):]
    return found


def post(path, body, extra=""):
    """The bytes of a POST."""
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{extra}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body
