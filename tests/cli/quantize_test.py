"""sluice quantize on the demo model: the files it writes, and that it leaves nothing half-written."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import demo_model

PROGRAM = sys.argv.pop(1)
MODEL = demo_model.path()

# Bytes of the files that llama-quantize --allow-requantize of llama.cpp (llama-cpp-python 0.3.36)
# makes of the demo model: the same types for the same tensors, and nothing more.
LLAMA_BYTES = {"Q4_0": 91726912, "Q8_0": 144811072, "Q4_K_M": 105454144, "Q2_K": 88201792,
               "Q6_K": 138382912, "BF16": 270885952}


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300,
                          check=False, **options)


class Quantize(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, "out.gguf")

    def names(self):
        return os.listdir(self.folder.name)

    def test_sizes_are_those_of_llama_quantize(self):
        for name, size in LLAMA_BYTES.items():
            done = run("quantize", MODEL, self.out, "--type", name, "--force")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.path.getsize(self.out), size, name)
            self.assertEqual(self.names(), ["out.gguf"])
            self.assertIn("100 %", done.stderr)
            self.assertNotIn("\r", done.stderr)

    def test_json_names_type_and_error_of_every_tensor(self):
        done = run("quantize", MODEL, self.out, "--type", "q4_k_m", "--json", "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        tensors = {tensor["name"]: tensor for tensor in answer["tensors"]}
        self.assertEqual(len(tensors), 272)
        self.assertEqual(tensors["blk.0.attn_norm.weight"]["type"], "F32")
        self.assertEqual(tensors["blk.0.attn_norm.weight"]["rmse"], 0)
        down = tensors["blk.3.ffn_down.weight"]
        self.assertEqual((down["source_type"], down["type"]), ("Q4_1", "Q4_K"))
        self.assertGreater(down["rmse"], 0)
        self.assertLess(down["rmse"], 0.01)
        self.assertEqual(answer["file_bytes"], os.path.getsize(self.out))
        described = json.loads(run("inspect", self.out, "--json").stdout)
        self.assertEqual({name: sums["tensors"] for name, sums in described["formats"].items()},
                         {"F32": 61, "Q4_K": 16, "Q5_0": 166, "Q6_K": 14, "Q8_0": 15})
        self.assertEqual(described["file_type"], "Q4_K_M")  # though most of it is in Q5_0

    def test_what_is_written_answers(self):
        for name in ["Q8_0", "Q4_K_M"]:
            run("quantize", MODEL, self.out, "--type", name, "--force")
            done = run("generate", self.out, "-p", "The capital of France is", "-n", "6",
                       "--temperature", "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Paris", done.stdout)

    def test_threads_do_not_change_a_byte(self):
        files = []
        for threads in ["1", "0"]:
            run("quantize", MODEL, self.out, "--type", "Q3_K_S", "--force", "--threads", threads)
            with open(self.out, "rb") as file:
                files.append(file.read())
        self.assertTrue(files[0] == files[1])

    def test_a_terminal_gets_a_bar(self):
        mine, its = pty.openpty()
        done = subprocess.run([PROGRAM, "quantize", MODEL, self.out, "--type", "Q4_1"],
                              stdout=subprocess.DEVNULL, stderr=its, timeout=300, check=False)
        os.close(its)
        shown = os.read(mine, 1 << 16)
        os.close(mine)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"\r[", shown)

    def refuse(self, code, words, *arguments, **options):
        done = run("quantize", *arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_wrong_usage(self):
        self.refuse(2, ["Q9", "Q4_K_M", "BF16"], MODEL, self.out, "--type", "Q9")
        self.refuse(2, ["--type"], MODEL, self.out)
        self.refuse(2, ["folder"], self.folder.name, self.out, "--type", "Q4_0")
        self.refuse(2, ["--threads"], MODEL, self.out, "--type", "Q4_0", "--threads", "1000")
        self.refuse(2, ["regular"], MODEL, self.folder.name, "--type", "Q4_0", "--force")
        self.refuse(3, ["absent"], "/absent.gguf", self.out, "--type", "Q4_0")
        self.refuse(3, ["GGUF"], __file__, self.out, "--type", "Q4_0")
        self.refuse(1, ["absent"], MODEL, "/absent/out.gguf", "--type", "Q4_0")
        self.assertEqual(self.names(), [])

    def test_the_input_and_what_exists_are_safe(self):
        with open(self.out, "w") as old:
            old.write("old")
        self.refuse(2, ["--force"], MODEL, self.out, "--type", "Q4_0")
        link = os.path.join(self.folder.name, "link.gguf")
        os.symlink(MODEL, link)
        size = os.path.getsize(MODEL)
        self.refuse(2, ["input"], MODEL, link, "--type", "Q4_0", "--force")
        self.assertEqual(os.path.getsize(MODEL), size)
        with open(self.out) as old:
            self.assertEqual(old.read(), "old")

    def test_a_full_disk_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 20, 32 << 20))

        self.refuse(1, [self.out, "free some room"], MODEL, self.out, "--type", "Q8_0",
                    preexec_fn=limit)
        self.assertEqual(self.names(), [])

    def test_an_interrupt_leaves_the_old_file_alone(self):
        with open(self.out, "w") as old:
            old.write("old")
        # What it writes of its tensors is more than so small a pipe holds: until all of it is read it is
        # at work.
        program = subprocess.Popen([PROGRAM, "quantize", MODEL, self.out, "--type", "Q5_K_S",
                                    "--force"], bufsize=0, pipesize=4096,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        os.read(program.stdout.fileno(), 1)
        program.send_signal(signal.SIGINT)
        program.stdout.read()
        program.stdout.close()
        self.assertEqual(program.wait(60), 130)
        self.assertEqual(self.names(), ["out.gguf"])
        with open(self.out) as old:
            self.assertEqual(old.read(), "old")


if __name__ == "__main__":
    unittest.main()
