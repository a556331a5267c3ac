#!/usr/bin/env python3
"""Answers that are held to schemas, regexes and grammars, by the server with the demo model and drafts,
through the openai package, raw HTTP and `sluice generate`.

Usage: grammar_test.py PROGRAM [unittest options]. Needs the openai package: $SLUICE_PYTHON.
"""
import contextlib
import json
import os
import re
import subprocess
import sys
import unittest

if os.environ.get("SLUICE_PYTHON") and os.environ["SLUICE_PYTHON"] != sys.executable:
    os.execv(os.environ["SLUICE_PYTHON"], [os.environ["SLUICE_PYTHON"], *sys.argv])

import openai  # noqa: E402  (after the change of interpreter)

from serving import MODEL, Serving, model_path  # noqa: E402

PROGRAM = ""
CITY = [{"role": "user", "content": "Name a city, its country and how many people live there."}]
SCHEMA = {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 30}, "country": {"type": "string", "maxLength": 30},
    "people": {"type": "integer", "minimum": 0, "maximum": 99999999},
    "capital": {"type": "boolean"}}, "required": ["city", "country", "people", "capital"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}}


class GrammarTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Serving(PROGRAM, "--speculate", "suffix"))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0,
                                   timeout=300)

    def ask(self, **fields):
        body = {"model": MODEL, "messages": CITY, "max_tokens": 120, "temperature": 0, **fields}
        return self.client.chat.completions.create(**body)

    def fits(self, text):
        self.assertNotIn(": ", text)
        value = json.loads(text)
        self.assertEqual(list(value), list(SCHEMA["required"]), text)
        for name, kind in (("city", str), ("country", str), ("people", int), ("capital", bool)):
            self.assertIs(type(value[name]), kind, text)

    def test_a_schema_streamed_and_not(self):
        for seed in range(4):
            fields = {"response_format": FORMAT, "temperature": 1.0 if seed else 0, "seed": seed}
            answer = self.ask(**fields).choices[0]
            self.fits(answer.message.content)
            self.assertEqual(answer.finish_reason, "stop")
            stream = self.ask(stream=True, **fields)
            parts = [event.choices[0].delta.content or "" for event in stream]
            self.assertEqual("".join(parts), answer.message.content)

    def test_several_answers_with_logprobs(self):
        answer = self.ask(response_format=FORMAT, n=2, temperature=1.2, seed=3, logprobs=True,
                          top_logprobs=2)
        self.assertEqual(len(answer.choices), 2)
        for choice in answer.choices:
            self.fits(choice.message.content)
            shown = b"".join(bytes(token.bytes) for token in choice.logprobs.content)
            self.assertTrue(shown.startswith(choice.message.content.encode()), shown)

    def test_what_the_last_message_has_begun_and_the_answer_fit_together(self):
        def ask(begun, **fields):
            return self.ask(messages=[*CITY, {"role": "assistant", "content": begun}],
                            extra_body={"continue_final_message": True, "add_generation_prompt": False},
                            **fields).choices[0].message.content
        for begun in ('{"city":"', '{"city":"Par', '{"city":"Paris","country":"France","people":2'):
            self.fits(begun + ask(begun, response_format=FORMAT))
        with self.assertRaises(openai.BadRequestError) as refused:
            ask("Here is the city: ", response_format=FORMAT)
        self.assertEqual(refused.exception.param, "messages")
        self.assertIn("does not fit", refused.exception.message)

    def test_a_search_answers_by_the_schema_too(self):
        answer = self.ask(response_format=FORMAT, n=3, extra_body={"use_beam_search": True})
        for choice in answer.choices:
            self.fits(choice.message.content)
        self.assertEqual(len(answer.choices), 3)

    def test_every_spelling(self):
        text = json.dumps(SCHEMA)
        for fields in ({"structured_outputs": {"json": SCHEMA}}, {"guided_json": text},
                       {"json_schema": text}):
            schema = self.ask(extra_body=fields).choices[0].message.content
            self.assertEqual(list(json.loads(schema))[:4], SCHEMA["required"])
        rules = 'root ::= "It is " name "."\nname ::= [A-Z] [a-z]{2,9}\n'
        for field in ("guided_grammar", "ebnf", "grammar"):
            content = self.ask(extra_body={field: rules}).choices[0].message.content
            self.assertRegex(content, r"^It is [A-Z][a-z]{2,9}\.$")
        for fields in ({"structured_outputs": {"regex": "[a-z]+ [0-9]{4}"}},
                       {"guided_regex": "[a-z]+ [0-9]{4}"}, {"regex": "[a-z]+ [0-9]{4}"}):
            content = self.ask(extra_body=fields, max_tokens=200).choices[0].message.content
            self.assertRegex(content, r"^[a-z]+( [0-9]{4})?$")
        tag = {"type": "structural_tag", "format": {
            "type": "tag", "begin": "<n>", "end": "</n>",
            "content": {"type": "json_schema", "json_schema": {"type": "integer", "maximum": 9,
                                                               "minimum": 0}}}}
        content = self.ask(response_format=tag).choices[0].message.content
        self.assertRegex(content, r"^<n>[0-9]</n>$")
        content = self.ask(response_format={"type": "json_object"}, max_tokens=60).choices[0]
        self.assertTrue(content.message.content.startswith("{"))

    def test_answers_do_not_depend_on_drafts_or_neighbours(self):
        with Serving(PROGRAM, "--speculate", "none") as plain:
            for seed in range(3):
                body = {"model": MODEL, "messages": CITY, "max_tokens": 120, "seed": seed,
                        "temperature": 0.8, "response_format": FORMAT}
                texts = []
                for server in (plain, self.server):
                    code, answer = server.json("POST", "/v1/chat/completions", body)
                    self.assertEqual(code, 200, answer)
                    texts.append(answer["choices"][0]["message"]["content"])
                self.assertEqual(*texts)

    def test_what_cannot_be_is_refused_with_a_sentence(self):
        # It would take more than 20 s of CPU time where this was written, and 2 s are the limit. On a far
        # quicker machine it is the memory that comes to its limit first.
        words = (f"{i * 7919 % 100003:07}" for i in range(18000))
        slow = "|".join(f"{word}[^{word[-1]}]*{word[-1]}" for word in words)
        for fields, word in (({"regex": "(a"}, "the regex"), ({"grammar": "root ::= x"}, "grammar"),
                             ({"guided_json": {"uniqueItems": True}}, '"uniqueItems"'),
                             ({"regex": slow}, "send a smaller or simpler one"),
                             ({"regex": "a", "guided_choice": ["a"]}, "one of them"),
                             ({"response_format": {"type": "json_schema", "json_schema": {
                                 "name": "a", "schema": {"pattern": "\\bp"}}}}, '"pattern"'),
                             ({"guided_json": "{"}, "JSON schema")):
            for stream in (False, True):
                code, body = self.server.json("POST", "/v1/chat/completions", {
                    "model": MODEL, "messages": CITY, "stream": stream, **fields})
                self.assertEqual(code, 400, body)
                self.assertIn(word, body["error"]["message"])
                self.assertEqual(body["error"]["param"], next(iter(fields)))
        self.fits(self.ask(response_format=FORMAT).choices[0].message.content)

    def test_processes_end_with_the_server(self):
        with Serving(PROGRAM) as server:
            code, _ = server.json("POST", "/v1/chat/completions", {
                "model": MODEL, "messages": CITY, "regex": "[a-z]{2}", "max_tokens": 4})
            self.assertEqual(code, 200)
            children = subprocess.run(["pgrep", "-P", str(server.process.pid)],
                                      capture_output=True, text=True).stdout.split()
            self.assertTrue(children)
            server.process.kill()
            server.process.wait()
        for child in children:
            # It may go between two looks, or in the middle of one.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                state = ""
                while state != "Z":
                    with open(f"/proc/{child}/stat", encoding="utf-8") as stat:
                        state = stat.read().rsplit(")", 1)[1].split()[0]

    def test_the_terminal(self):
        run = subprocess.run([PROGRAM, "generate", model_path(), "--chat", "-p", "Name a city.",
                              "--json-schema", json.dumps(SCHEMA), "-n", "120", "--temperature", "0"],
                             capture_output=True, text=True, check=True)
        self.assertEqual(list(json.loads(run.stdout))[:4], SCHEMA["required"])
        run = subprocess.run([PROGRAM, "generate", model_path(), "-p", "a", "--regex", "[0-9]{3}"],
                             capture_output=True, text=True, check=True)
        self.assertTrue(re.fullmatch("[0-9]{3}\n", run.stdout), run.stdout)
        run = subprocess.run([PROGRAM, "generate", model_path(), "-p", "a", "--regex", "[0-9]{3}",
                              "--grammar", "root ::= [a]"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("give one of them", run.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
