"""The program's standard streams: pipes whose readers leave, descriptors that are missing, and a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import demo_model

PROGRAM = sys.argv.pop(1)
MODEL = demo_model.path()
# A checkpoint with random weights, which says any byte.
BYTES_MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/models/llama")
LONG = ["-n", "4000", "--ignore-eos", "--temperature", "0"]
SECONDS_MAX = 120


def start(*arguments, **streams):
    return subprocess.Popen([PROGRAM, *arguments], **{"stdin": subprocess.DEVNULL, **streams})


class ClosedStreams(unittest.TestCase):
    def ends_with_its_reader(self, program, bytes_read):
        program.stdout.read(bytes_read)
        program.stdout.close()
        errors = program.stderr.read()
        self.assertEqual(program.wait(SECONDS_MAX), -signal.SIGPIPE)
        return errors

    def test_commands_end_quietly_with_the_reader_of_their_output(self):
        with start("generate", MODEL, "-p", "Once", *LONG, stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE) as program:
            self.assertEqual(self.ends_with_its_reader(program, 20), b"")
        with tempfile.TemporaryFile() as lines:
            lines.write(b'"a b c d e f g h i j k l m n o p"\n' * 200_000)
            lines.seek(0)
            with start("tokenize", MODEL, "--jsonl", stdin=lines, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE) as program:
                self.assertEqual(self.ends_with_its_reader(program, 20), b"")
        with start("chat", MODEL, *LONG[:2], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE) as program:
            program.stdin.write(b"Tell a story.\n")
            program.stdin.flush()  # and stays open: nothing more is read
            self.assertEqual(self.ends_with_its_reader(program, 5), b"")
        with start("inspect", MODEL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            self.assertEqual(self.ends_with_its_reader(program, 0), b"")

    def test_an_answer_outlives_the_reader_of_errors(self):
        reader, writer = os.pipe()
        os.close(reader)
        for arguments in [["generate", MODEL, "-p", "Once", "-n", "4", "--explain-kernels"],
                          ["devices", "--json"]]:
            with start(*arguments, stdout=subprocess.PIPE, stderr=writer) as program:
                self.assertGreater(len(program.stdout.read()), 4)
                self.assertEqual(program.wait(SECONDS_MAX), 0)
        os.close(writer)

    def test_missing_descriptors_are_taken_by_nothing_else(self):
        done = subprocess.run(["/bin/sh", "-c", 'exec "$0" inspect "$1" >&-', PROGRAM, MODEL],
                              stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output could not be written", done.stderr)
        with subprocess.Popen(["/bin/sh", "-c", 'exec "$0" chat "$1" 2>&-', PROGRAM, BYTES_MODEL],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            program.stdin.write(b"/stats\nhi\n")
            program.stdin.flush()
            self.assertIn(b"nothing was answered", program.stdout.readline())
            self.assertEqual(os.readlink(f"/proc/{program.pid}/fd/2"), "/dev/null")


class Terminal:
    """The program on a terminal of its own, as its session's leader."""

    def __init__(self, *arguments, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
                os.execve(PROGRAM, [PROGRAM, *arguments], {**os.environ, **(env or {})})
            finally:
                os._exit(99)
        self.seen = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.fd >= 0:
            os.close(self.fd)

    def read(self):
        """What has come next; nothing at the end."""
        if not select.select([self.fd], [], [], SECONDS_MAX)[0]:
            raise AssertionError(f"nothing came after {self.seen[-300:]!r}")
        try:
            part = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            part = b""
        self.seen += part
        return part

    def until(self, text):
        """Reads up to `text`, and forgets all that came before its end."""
        while text not in self.seen:
            if not self.read():
                raise AssertionError(f"{text!r} did not come: {self.seen[-300:]!r}")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.fd, text)

    def hang_up(self):
        os.close(self.fd)
        self.fd = -1

    def wait(self):
        """The exit code, or the signal's number below zero."""
        end = time.monotonic() + SECONDS_MAX
        while self.fd >= 0 and self.read():
            pass
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            select.select([], [], [], 0.02)
        raise AssertionError("the program did not end")


def controls(text):
    return sorted({byte for byte in text if byte < 32 and byte not in b"\t\r\n"} | ({127} & set(text)))


class OnATerminal(unittest.TestCase):
    def test_control_characters_of_an_answer_are_shown_and_pipes_get_every_byte(self):
        arguments = ["generate", BYTES_MODEL, "-p", "x", "-n", "200", "--ignore-eos", "--seed", "1",
                     "--temperature", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--device",
                     "cpu"]
        piped = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=SECONDS_MAX,
                               check=True).stdout
        self.assertIn(b"\x1b", piped)
        self.assertGreater(len(controls(piped)), 5)
        with Terminal(*arguments) as terminal:
            terminal.until(b"\\x1b")
            self.assertEqual(terminal.wait(), 0)
            shown = terminal.seen
        # Progress of loading is ours, and comes before.
        self.assertEqual(controls(shown), [])

    def test_names_of_a_file_reach_no_terminal_raw(self):
        name = b"general.name"
        with open(MODEL, "rb") as model, tempfile.NamedTemporaryFile(suffix=".gguf") as copy:
            data = bytearray(model.read())
            place = data.index(name) + len(name) + 4
            size = int.from_bytes(data[place:place + 8], "little")
            data[place + 8:place + 8 + size] = (b"\x1b]0;owned\x07\nforged  line" + b"x" * size)[:size]
            copy.write(data)
            copy.flush()
            piped = subprocess.run([PROGRAM, "inspect", copy.name], capture_output=True, check=True)
            self.assertIn(b'"\\x1b]0;owned\\x07\\x0a', piped.stdout)
            self.assertEqual(controls(piped.stdout + piped.stderr), [])
            with Terminal("inspect", "--json", copy.name) as terminal:
                self.assertEqual(terminal.wait(), 0)
                self.assertEqual(controls(terminal.seen), [])

    def test_a_command_that_does_not_exist_is_named_harmlessly(self):
        with Terminal("serv\x1b[31m\n") as terminal:
            self.assertEqual(terminal.wait(), 2)
            self.assertEqual(controls(terminal.seen), [])
            self.assertIn(b"serv\\x1b[31m\\x0a", terminal.seen)


class Chat(unittest.TestCase):
    def chat(self, *arguments, model=MODEL, env=None):
        terminal = Terminal("chat", model, *arguments, env=env)
        self.enterContext(terminal)
        terminal.until(b"> ")
        return terminal

    def test_an_answer_then_the_end(self):
        terminal = self.chat("-n", "8", "--temperature", "0")
        terminal.type(b"Say hello.\n")
        terminal.until(b"\r\n")  # the echo
        self.assertGreater(len(terminal.until(b"> ").strip()), 2)
        terminal.type(b"\x04")  # Ctrl-D
        self.assertEqual(terminal.wait(), 0)

    def test_control_characters_of_an_answer_are_shown(self):
        terminal = self.chat("-n", "200", "--seed", "1", "--temperature", "2", "--top-k", "0",
                             "--top-p", "1", "--min-p", "0", "--device", "cpu", model=BYTES_MODEL,
                             env={"NO_COLOR": "1"})  # whose escapes would be ours
        terminal.type(b"hi\n")
        terminal.until(b"\x1b[?2004l")  # the editor's last word on the line
        shown = terminal.until(b", context ")  # in the line of figures
        self.assertRegex(shown, rb"\\x[01]")
        self.assertEqual(controls(shown), [])
        terminal.type(b"\x04")
        self.assertEqual(terminal.wait(), 0)

    def test_ctrl_c_stops_the_answer_and_the_next_one_comes(self):
        terminal = self.chat(*LONG[:2], "--temperature", "0")
        terminal.type(b"Write a long story about a fox.\n")
        terminal.until(b"\r\n")
        while len(terminal.seen) < 10:  # it answers
            terminal.read()
        terminal.type(b"\x03")
        terminal.until(b"> ")
        terminal.type(b"/stats\n")
        terminal.until(b" tokens")
        terminal.until(b"> ")
        terminal.type(b"/exit\n")
        self.assertEqual(terminal.wait(), 0)

    def test_a_terminal_that_closes_ends_it(self):
        terminal = self.chat()
        terminal.hang_up()
        self.assertEqual(terminal.wait(), -signal.SIGHUP)


if __name__ == "__main__":
    unittest.main()
