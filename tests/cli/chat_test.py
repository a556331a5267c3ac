"""`sluice chat` on a terminal: what is typed, pasted and shown."""

import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import demo_model

PROGRAM = sys.argv.pop(1)
MODEL = demo_model.path()
SECONDS_MAX = 120
PROMPT = "\x1b[2C"  # the cursor behind "> "


class Screen:
    """What a terminal shows that breaks its lines again when its width changes, as most do. Of one column a
    character, and without an upper end."""

    def __init__(self, columns):
        self.columns, self.lines, self.line, self.at = columns, [""], 0, 0

    def rows_of(self, line):
        text = self.lines[line]
        return [text[i:i + self.columns] for i in range(0, max(1, len(text)), self.columns)]

    def rows(self):
        return [row.rstrip() for line in range(len(self.lines)) for row in self.rows_of(line)]

    def place(self):
        """The row of the cursor within its line, and the column; behind a full row it has not moved on."""
        full = self.at > 0 and self.at == len(self.lines[self.line]) and self.at % self.columns == 0
        row = (self.at - full) // self.columns
        return row, self.at - row * self.columns

    def up(self):
        row, column = self.place()
        if row == 0:
            self.line -= 1
            assert self.line >= 0, "above the first row"
            row = len(self.rows_of(self.line))
        self.at = (row - 1) * self.columns + column

    def down(self):
        row, column = self.place()
        if row + 1 < len(self.rows_of(self.line)):
            self.at = (row + 1) * self.columns + column
            return
        self.line += 1
        if self.line == len(self.lines):
            self.lines.append("")
        self.at = column

    def show(self, text):
        for piece in re.findall(r"\x1b\[\??([0-9]*)([A-Za-z])|([^\x1b])", text):
            count, order, character = int(piece[0] or 1), piece[1], piece[2]
            if order in ("A", "B"):
                for _ in range(count):
                    (self.up if order == "A" else self.down)()
            elif order == "C":
                self.at += count
            elif order == "J":
                self.lines[self.line] = self.lines[self.line][:self.at]
                del self.lines[self.line + 1:]
            elif character == "\r":
                self.at -= self.place()[1]
            elif character == "\n":
                self.down()
            elif character:
                line = self.lines[self.line].ljust(self.at)
                self.lines[self.line] = line[:self.at] + character + line[self.at + 1:]
                self.at += 1


class Chat:
    """A conversation on a pseudo terminal."""

    def __init__(self, *options, home, columns=80, **variables):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        environment = {**os.environ, "XDG_STATE_HOME": home, "TERM": "xterm", **variables}
        self.process = subprocess.Popen(
            [PROGRAM, "chat", MODEL, "--temperature", "0", *options], stdin=slave, stdout=slave,
            stderr=slave, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen, self.screen = "", Screen(columns)
        self.until(PROMPT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, columns):
        """While nothing is on its way to the terminal."""
        self.screen.columns = columns
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def until(self, pattern):
        """What has come since the last call, up to a text that there must be."""
        end = time.monotonic() + SECONDS_MAX
        while pattern not in self.seen:
            ready, _, _ = select.select([self.master], [], [], end - time.monotonic())
            if not ready:
                raise AssertionError(f"{pattern!r} did not come: {self.seen!r}")
            try:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            except OSError as error:
                raise AssertionError(f"{pattern!r} did not come: {self.seen!r}") from error
        before, found, self.seen = self.seen.partition(pattern)
        self.screen.show(before + found)
        return before

    def ask(self, text):
        """The answer to one question, and the status line behind it."""
        self.type(text + "\r")
        self.until("\x1b[?2004l")
        return self.until("\x1b[?2004h")

    def end(self):
        self.type("\x04")
        return self.process.wait(SECONDS_MAX)


class ChatTest(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(tempfile.TemporaryDirectory())

    def chat(self, *options, **more):
        return self.enterContext(Chat(*options, home=self.home, **more))

    def saved(self, chat):
        path = os.path.join(self.home, "saved.json")
        chat.ask("/save " + path)
        with open(path, encoding="utf-8") as file:
            return [(m["role"], m["content"]) for m in json.load(file)]

    def test_a_line_is_edited_and_a_long_one_is_whole(self):
        chat = self.chat("-n", "1")
        chat.ask("bc\x1b[Da\x1b[D\x1b[DX\x1b[F!\x7f?")
        long_text = "word " * 2000
        chat.ask(long_text + "end")
        questions = [text for role, text in self.saved(chat) if role == "user"]
        self.assertEqual(questions, ["Xbac?", long_text + "end"])

    def test_a_paste_is_one_question(self):
        chat = self.chat("-n", "1")
        chat.ask("\x1b[200~one\r\ntwo\n\tthree\x1b[201~")
        chat.ask("first\x1b\rsecond")
        chat.ask('"""a\rb"""')
        questions = [text for role, text in self.saved(chat) if role == "user"]
        self.assertEqual(questions, ["one\ntwo\n\tthree", "first\nsecond", "a\nb"])

    def test_history_lives_longer_than_a_conversation(self):
        chat = self.chat("-n", "1")
        chat.ask("first question")
        chat.ask("second question")
        self.assertEqual(chat.end(), 0)
        chat = self.chat("-n", "1")
        chat.ask("\x1b[A\x1b[A")
        chat.ask("\x12second")
        questions = [text for role, text in self.saved(chat) if role == "user"]
        self.assertEqual(questions, ["first question", "second question"])

    def test_a_dim_line_tells_the_context_and_no_color_is_heeded(self):
        answer = self.chat("-n", "4").ask("Hello")
        self.assertRegex(answer, r"\x1b\[2m4 tokens, context \d+ of 8192\x1b\[0m")
        answer = self.chat("-n", "4", NO_COLOR="1").ask("Hello")
        self.assertRegex(answer, r"\n4 tokens, context \d+ of 8192")
        self.assertNotIn("\x1b[2m", answer)

    def test_control_c_stops_an_answer_and_keeps_the_chat(self):
        chat = self.chat("-n", "4000")
        chat.type("Tell me a very long story.\r")
        chat.until("\x1b[?2004l")
        chat.until(" ")  # it answers
        chat.type("\x03")
        chat.until("\x1b[?2004h")
        chat.ask("half a line\x03/stats")
        for _ in range(2):
            chat.type("\x03")
            chat.until("Ctrl-D or /bye ends.")
        chat.until("\x1b[?2004h")
        self.assertIn("Ctrl-C stops an answer, and takes back a text that is being written; Ctrl-D ends.",
                      chat.ask("/help"))
        self.assertEqual(chat.end(), 0)

    def test_what_is_typed_during_an_answer_is_the_next_question_and_not_echoed(self):
        chat = self.chat("-n", "200")
        chat.type("Tell me a long story.\r")
        chat.until("\x1b[?2004l")
        chat.type("typed ahead\r")
        answer = chat.until("\x1b[?2004h")
        self.assertNotIn("typed ahead", answer)
        chat.until("\x1b[?2004l")
        chat.until("\x1b[?2004h")
        questions = [text for role, text in self.saved(chat) if role == "user"]
        self.assertEqual(questions[1], "typed ahead")

    def test_words_are_not_broken_at_the_edge(self):
        answer = self.chat("-n", "100", columns=40).ask("What is photosynthesis?")
        for line in re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", answer).split("\r\n"):
            self.assertLess(len(line), 41, line)

    def drawn(self, chat):
        chat.until("\x1b[J")  # what was there is gone
        chat.until("C")  # and the cursor is at its place

    def test_the_line_being_edited_is_drawn_for_a_new_width_without_leftovers(self):
        chat = self.chat("-n", "1")
        above = [row for row in chat.screen.rows() if row][:-1]
        words = [f"word{i:03}" for i in range(40)]
        chat.type(" ".join(words))
        chat.until(words[-1])
        chat.until("C")  # the cursor is behind it
        for columns in (33, 61, 27, 120, 40):
            for key, more in (("\x1b[H", 20), ("\x1b[F", 0)):
                chat.type(key)
                self.drawn(chat)
                chat.resize(columns + more)  # narrower where the cursor is below the first row
                self.drawn(chat)
                rows = [row for row in chat.screen.rows() if row]
                (first,) = [i for i, row in enumerate(rows) if row.startswith("> ")]
                self.assertEqual("".join(row[2:] for row in rows[first:]).replace(" ", ""), "".join(words), rows)
                self.assertLess(max(len(row) for row in rows[first:]), chat.screen.columns)
                self.assertEqual(re.sub(r"\s", "", "".join(rows[:first])), re.sub(r"\s", "", "".join(above)))
        chat.ask("")
        self.assertEqual([text for role, text in self.saved(chat) if role == "user"], [" ".join(words)])

    def test_an_answer_follows_the_width_of_the_moment(self):
        chat = self.chat("-n", "400", columns=100)
        chat.type("Tell me a very long story.\r")
        chat.until("\x1b[?2004l")
        answer = chat.until(" ")  # it answers
        os.kill(chat.process.pid, signal.SIGSTOP)
        chat.resize(30)
        os.kill(chat.process.pid, signal.SIGCONT)
        answer += chat.until("\x1b[?2004h")
        text = re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", answer)
        lines = [line for line in text.partition("The answer was cut")[0].split("\r\n") if line]
        self.assertGreater(len(lines), 10)
        self.assertLess(max(len(line) for line in lines[-8:]), 31, lines)

    def test_commands(self):
        chat = self.chat("-n", "2")
        self.assertIn("There is no command /foo", chat.ask("/foo"))
        self.assertIn("/retry", chat.ask("/help"))
        self.assertIn("\x1b[2mthe system message is set\x1b[0m", chat.ask("/system Answer in verse."))
        chat.ask("one")
        chat.ask("/retry")
        chat.ask("/set max_tokens 1")
        self.assertIn("1 token,", chat.ask("two"))
        self.assertIn("max_tokens 1\r\ntemperature 0\r\ntop_p 0.95 (the default)\r\n", chat.ask("/set"))
        self.assertIn("\x1b[2mtop_p is 0.5\x1b[0m", chat.ask("/set parameter top_p 0.5"))
        self.assertIn("\r\ntop_p 0.5\r\ntop_k 40 (the default)\r\n", chat.ask("/set"))
        self.assertIn("\r\nseed is drawn for each answer\r\n", chat.ask("/set"))
        self.assertIn("temperature is 1000", chat.ask("/set temperature 1000"))
        self.assertIn("there is no \"x\" to set", chat.ask("/set x 1"))
        chat.ask("/edit")
        chat.ask(" more")
        before = self.saved(chat)
        self.assertEqual([text for role, text in before if role != "assistant"],
                         ["Answer in verse.", "one", "two more"])
        self.assertIn("a new conversation begins; the system message stays", chat.ask("/reset"))
        self.assertEqual(len(self.saved(chat)), 1)
        path = os.path.join(self.home, "old.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]')
        self.assertIn("2 messages loaded", chat.ask("/load " + path))
        self.assertEqual(self.saved(chat), [("user", "a"), ("assistant", "b")])
        self.assertIn("not valid JSON", chat.ask("/load " + __file__))
        self.assertIn("needs the path", chat.ask("/load"))
        with open(path, "w", encoding="utf-8") as file:
            file.write("[1]")
        self.assertIn("no conversation", chat.ask("/load " + path))
        with open(path, "w", encoding="utf-8") as file:
            file.write("the text")
        chat.ask(f"/file {path} what is this?")
        self.assertIn(("user", "the text\n\nwhat is this?"), self.saved(chat))
        chat.type("/by\t\r")
        self.assertEqual(chat.process.wait(SECONDS_MAX), 0)

    def test_a_message_that_is_too_long_costs_no_turn(self):
        chat = self.chat("-n", "2", "--max-model-len", "128")
        chat.ask("one")
        before = self.saved(chat)
        answer = chat.ask("word " * 200)
        self.assertIn("has no room", answer)
        self.assertNotIn("left out", answer)
        self.assertEqual(self.saved(chat), before)
        chat.ask("two")
        self.assertEqual(self.saved(chat)[:2], before)

    def questions(self, chat):
        return [text for role, text in self.saved(chat) if role == "user"]

    def test_an_edit_that_is_given_up_changes_nothing(self):
        chat = self.chat("-n", "2")
        chat.ask("one")
        chat.ask("two")
        before = self.saved(chat)
        for given_up in ("\x03\r", "\x15\r", "\x15/stats\r"):
            chat.ask("/edit")
            chat.until("two")
            chat.type(given_up)
            chat.until("\x1b[?2004l")
            chat.until("\x1b[?2004h")
            self.assertEqual(self.saved(chat), before, given_up)
        chat.ask("/edit")
        chat.ask("\x03three")  # what is written instead of it is a question of its own
        self.assertEqual(self.questions(chat), ["one", "two", "three"])
        chat.ask("/edit")
        chat.type("\x03\x03")
        chat.until("Ctrl-D or /bye ends.")
        chat.until("\x1b[?2004h")
        chat.ask("four")
        self.assertEqual(self.questions(chat), ["one", "two", "three", "four"])
        chat.ask("/edit")
        chat.ask("\x15five")
        self.assertEqual(self.questions(chat), ["one", "two", "three", "five"])

    def test_an_edit_that_fails_changes_nothing(self):
        chat = self.chat("-n", "2", "--max-model-len", "128")
        chat.ask("one")
        before = self.saved(chat)
        chat.ask("/edit")
        self.assertIn("has no room", chat.ask(" word" * 200))
        self.assertEqual(self.saved(chat), before)

    def test_what_was_saved_stays_when_the_disk_is_full(self):
        chat = self.chat("-n", "1")
        chat.ask("one")
        before = self.saved(chat)
        path = os.path.join(self.home, "saved.json")
        os.chmod(path, 0o600)
        link = os.path.join(self.home, "link.json")
        os.symlink(path, link)
        other = os.path.join(self.home, "other.json")
        chat.ask("two")
        _, hard = resource.prlimit(chat.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(chat.process.pid, resource.RLIMIT_FSIZE, (10, hard))
        for name in (path, other):
            self.assertIn(f"sluice: {name} cannot be written: File too large; nothing was left behind",
                          chat.ask("/save " + name).replace("\r\n", ""))
        with open(path, encoding="utf-8") as file:
            self.assertEqual([(m["role"], m["content"]) for m in json.load(file)], before)
        self.assertEqual(sorted(os.listdir(self.home)), ["link.json", "saved.json", "sluice"])
        resource.prlimit(chat.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        self.assertIn("4 messages saved", chat.ask("/save " + link))
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertIn("4 messages loaded", chat.ask("/load " + path))
        self.assertIn("/save needs the path", chat.ask("/save"))
        self.assertIn("No such file or directory", chat.ask("/save /nowhere/at/all"))

    def test_a_long_prompt_is_said_to_be_read(self):
        chat = self.chat("-n", "1")
        answer = chat.ask("word " * 4000)
        told = answer.rfind("\r\x1b[Kreading the prompt")
        stats = chat.ask("/stats")
        self.assertNotIn("reading", stats)
        tokens, rate = re.search(r"prompt (\d+) tokens .*?([\d.]+) tokens/s", stats).groups()
        seconds = int(tokens) / float(rate)
        if seconds > 1.5:  # it is told after one, and some machines are done by then
            self.assertGreaterEqual(told, 0, answer)
        if told >= 0:
            self.assertGreater(seconds, 0.5)
            self.assertIn("\r\x1b[K", answer[told + 4:])  # and that is taken away

    def test_the_terminal_is_as_it_was(self):
        chat = self.chat("-n", "1")
        self.assertNotEqual(termios.tcgetattr(chat.slave)[3], chat.before[3])
        self.assertEqual(chat.end(), 0)
        self.assertEqual(termios.tcgetattr(chat.slave), chat.before)

    def test_the_terminal_is_as_it_was_when_a_signal_ends_the_program(self):
        for answering in (False, True):
            for end in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                with self.subTest(end.name, answering=answering):
                    chat = self.chat("-n", "4000")
                    resource.prlimit(chat.process.pid, resource.RLIMIT_CORE, (0, 0))
                    if answering:
                        chat.type("Tell me a very long story.\r")
                        chat.until("\x1b[?2004l")
                        chat.until(" ")
                    self.assertNotEqual(termios.tcgetattr(chat.slave)[3], chat.before[3])
                    chat.process.send_signal(end)
                    self.assertEqual(chat.process.wait(SECONDS_MAX), -end)
                    self.assertEqual(termios.tcgetattr(chat.slave), chat.before)
                    chat.until("\x1b[?2004l")  # pastes are what they were, too


class PipeTest(unittest.TestCase):
    def test_three_quotes_hold_lines_together(self):
        with tempfile.TemporaryDirectory() as home:
            path = os.path.join(home, "saved.json")
            for text, questions in (('"""a\nb"""\nc\n', ["a\nb", "c"]),
                                    ('"""a\n"""\n', ["a\n"]),
                                    ('"""a"""\n"b"\n', ["a", '"b"'])):
                subprocess.run([PROGRAM, "chat", MODEL, "-n", "1"], input=f"{text}/save {path}\n", text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               timeout=SECONDS_MAX, check=True)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual([m["content"] for m in json.load(file) if m["role"] == "user"], questions)
            # Of a text that is not ended all is asked.
            done = subprocess.run([PROGRAM, "chat", MODEL, "-n", "1"], input='"""a\nb', text=True,
                                  capture_output=True, timeout=SECONDS_MAX, check=True)
            self.assertEqual(done.stdout.count("\n"), 1, done.stdout)


if __name__ == "__main__":
    unittest.main()
