"""A hub and a package index on loopback for tests, which misbehave when they are told to. Standard library only."""
import hashlib
import http.server
import json
import re
import ssl
import threading
import urllib.parse


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server.hub
        path = urllib.parse.urlsplit(self.path).path
        with hub.lock:
            hub.requests.append((self.headers.get("Host"), path, dict(self.headers)))
        for pattern, answer in hub.answers:
            if re.fullmatch(pattern, path):
                return answer(self)
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", path)
        if found and found[1] in hub.repositories:
            return self.text(200, json.dumps(hub.listing(found[1])))
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        name = urllib.parse.unquote(found[3]) if found else ""
        if found and name in hub.repositories.get(found[1], {}):
            if hub.store:
                return self.redirect(hub.store + self.path)
            return self.file(hub.repositories[found[1]][name])
        if path in hub.pages:
            kind, body = hub.pages[path]
            return self.file(body) if kind is None else self.text(200, body, kind)
        return self.text(404, "{}")

    def text(self, status, body, kind="application/json", headers=()):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def redirect(self, url):
        self.text(302, "", headers=[("Location", url)])

    def file(self, data, cut=None):
        """The bytes that Range asks for; of these only `cut`, and then the connection ends."""
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(found[1]) if found else 0
        if self.headers.get("If-Range", etag) != etag:
            first, found = 0, None
        if found and first >= len(data):
            return self.text(416, "", headers=[("Content-Range", f"bytes */{len(data)}")])
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.send_header("ETag", etag)
        self.end_headers()
        if cut is None:
            self.wfile.write(data[first:])
        else:
            self.wfile.write(data[first:first + cut])
            self.wfile.flush()
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_):  # a client that leaves is what some tests are about
        pass


class Hub:
    """`repositories`: name to files; `answers`: (pattern of a path, function of the handler), asked
    first; `pages`: path to (media type or None, body); `store`: where files are, as the hub tells."""

    def __init__(self, certificate=None):  # (its file, that of its key): HTTPS
        self.certificate = certificate
        self.lock = threading.Lock()
        self.repositories, self.answers, self.pages, self.requests = {}, [], {}, []
        self.store = None
        self.commit = "c" * 40
        self.changes = {}  # by file: what the list says of it instead

    def __enter__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.hub = self
        self.port = self.server.server_address[1]
        self.url = f"{'https' if self.certificate else 'http'}://127.0.0.1:{self.port}"
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def listing(self, name):
        files = []
        for path, data in self.repositories[name].items():
            one = {"rfilename": path, "size": len(data), "blobId": git_blob(data)}
            if path.endswith((".safetensors", ".gguf", ".bin")):
                one["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data),
                              "pointerSize": 134}
                one["blobId"] = git_blob(b"a pointer")
            one.update(self.changes.get(path, {}))
            files.append(one)
        return {"id": name, "sha": self.commit, "siblings": files}

    def paths(self, word=""):
        with self.lock:
            return [path for _, path, _ in self.requests if word in path]

    def headers_of(self, word):
        with self.lock:
            return [headers for _, path, headers in self.requests if word in path]
