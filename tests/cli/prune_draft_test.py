"""sluice prune-draft on tiny checkpoints: what is written, that it drafts, and what is refused."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
MODEL = os.path.join(GOLDEN, "drafts/target")
HEAD = os.path.join(GOLDEN, "drafts/eagle3")
GGUF = os.path.join(GOLDEN, "gguf/llama-Q4_0.gguf")


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120,
                          check=False)


class PruneDraft(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, "cut")
        self.text = os.path.join(self.folder.name, "text")
        with open(self.text, "w", encoding="utf-8") as file:
            file.write("aaaa bbb the cc!\n" * 50)

    def cut(self, model, *options):
        done = run("prune-draft", model, self.out, "--text", self.text, "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def draft(self, model, kind):
        """The tokens of an answer with the cut draft, and without any."""
        command = ["generate", model, "--prompt", "the cc", "--max-tokens", "24", "--temperature", "0",
                   "--json", "--threads", "1", "--ignore-eos"]
        plain = run(*command, "--speculate", "none")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        drafted = run(*command, "--speculate", kind, "--draft-model", self.out,
                      "--speculate-adapt=false")
        self.assertEqual(drafted.returncode, 0, drafted.stderr)
        answer = json.loads(drafted.stdout)
        self.assertEqual(answer["choices"][0]["token_ids"],
                         json.loads(plain.stdout)["choices"][0]["token_ids"])
        details = answer["usage"]["completion_tokens_details"]
        self.assertGreater(details["accepted_prediction_tokens"], 0)

    def test_a_model_is_cut_to_what_the_text_uses(self):
        done = self.cut(MODEL, "--tokens", "20")
        self.assertEqual((done["tokens"], done["tokens_before"]), (20, 128))
        self.assertEqual(done["covered"], 1.0)
        with open(os.path.join(self.out, "config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["draft_vocab_size"], 20)
        self.draft(MODEL, "model")

    def test_a_file_is_cut(self):
        self.out += ".gguf"
        self.assertEqual(self.cut(GGUF, "--tokens", "100")["tokens_before"], 320)
        self.draft(GGUF, "model")

    def test_a_head_is_cut_with_the_tokenizer_of_its_model(self):
        done = self.cut(HEAD, "--tokens", "30", "--tokenizer", MODEL)
        self.assertEqual((done["tokens"], done["tokens_before"]), (30, 112))
        self.draft(MODEL, "eagle3")

    def refuse(self, words, *arguments):
        done = run("prune-draft", *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_what_cannot_be_is_refused(self):
        self.refuse(["--tokens 128", "cuts nothing"], MODEL, self.out, "--text", self.text,
                    "--tokens", "128")
        self.refuse(["has no tokenizer", "--tokenizer"], HEAD, self.out, "--text", self.text,
                    "--tokens", "30")
        for head in ("eagle1", "dflash"):
            self.refuse(["its model's output matrix, so there is none to be cut"],
                        os.path.join(GOLDEN, "drafts", head), self.out, "--text", self.text, "--tokens", "30")
        empty = os.path.join(self.folder.name, "empty")
        with open(empty, "w", encoding="utf-8"):
            pass
        self.refuse(["has no tokens to count"], MODEL, self.out, "--text", empty, "--tokens", "30")

    def test_a_cut_draft_is_no_model_to_serve(self):
        self.cut(MODEL, "--tokens", "20")
        done = run("generate", self.out, "--prompt", "a", "--max-tokens", "1")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("guesses 20 of 128 tokens; name it with --draft-model", done.stderr)


if __name__ == "__main__":
    unittest.main()
