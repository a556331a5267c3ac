"""The program of docs/embedding-the-engine.md on a tiny checkpoint: its answer, and what it says of errors."""

import os
import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
# A checkpoint with random weights: what it says is noise, but the same noise each time.
MODEL = os.path.join(ROOT, "tests/golden/gguf/llama-F32.gguf")
SECONDS_MAX = 50


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=SECONDS_MAX)


class EmbedExampleTest(unittest.TestCase):
    def test_it_answers_and_says_the_same_again(self):
        first = run(MODEL, "hello")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertGreater(len(first.stdout.strip()), 0)
        self.assertEqual(run(MODEL, "hello").stdout, first.stdout)

    def test_a_model_that_is_not_there_is_told_in_a_sentence(self):
        done = run("/no/such.gguf", "hello")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(done.stderr.decode().strip(), "there is no file or folder /no/such.gguf")

    def test_a_question_that_is_too_long_is_told_in_a_sentence(self):
        done = run(MODEL, "a " * 3000)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"the context of 256 tokens has no room for it", done.stderr)

    def test_wrong_usage_is_told(self):
        self.assertEqual(run(MODEL).returncode, 2)

    def test_the_page_names_what_the_headers_have(self):
        with open(os.path.join(ROOT, "docs/embedding-the-engine.md")) as file:
            page = file.read()
        headers = ""
        for name in os.listdir(os.path.join(ROOT, "include/sluice")):
            with open(os.path.join(ROOT, "include/sluice", name)) as file:
                headers += file.read()
        calls = re.findall(r"`(?:\w+::)?([A-Z]\w+)\(", page)
        self.assertGreater(len(calls), 5)
        for call in calls:
            self.assertRegex(headers, rf"\b{call}\(", call)
        with open(os.path.join(ROOT, "apps/CMakeLists.txt")) as file:
            apps = file.read()
        lines = re.search(r"```cmake\n(.*?)```", page, re.DOTALL).group(1).replace("my_program", "embed_example")
        self.assertIn(lines, apps)


if __name__ == "__main__":
    unittest.main()
