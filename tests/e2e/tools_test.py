#!/usr/bin/env python3
"""Calls of tools and thinking with the openai package, over a tiny model that is held to the text
of an answer as a large one would write it.

Usage: tools_test.py PROGRAM [unittest options]

Needs the openai package: $SLUICE_PYTHON, and a published chat template of $SLUICE_FIXTURES.
"""
import json
import os
import sys
import tempfile
import unittest

if os.environ.get("SLUICE_PYTHON") and os.environ["SLUICE_PYTHON"] != sys.executable:
    os.execv(os.environ["SLUICE_PYTHON"], [os.environ["SLUICE_PYTHON"], *sys.argv])

import openai  # noqa: E402  (after the change of interpreter)

from serving import Serving, tiny_model  # noqa: E402

PROGRAM = ""
QUESTION = [{"role": "user", "content": "Weather?"}]
TOOLS = [{"type": "function", "function": {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
ANSWER = "<think>\nHm.\n</think>\n\nI look.\n\n" + CALL + "\n" + CALL


class ToolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.server = cls.enterClassContext(
            Serving(PROGRAM, "--device", "cpu", model=tiny_model(folder)))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0,
                                   timeout=120)

    def ask(self, answer=ANSWER, **fields):
        fields = {"tools": TOOLS, **fields}
        return self.client.chat.completions.create(
            model="tiny", messages=QUESTION, extra_body={"structured_outputs": {"choice": [answer]}},
            **fields)

    def test_whole(self):
        choice = self.ask().choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual(choice.message.content, "I look.")
        self.assertEqual(choice.message.reasoning_content, "Hm.")
        self.assertEqual(len(choice.message.tool_calls), 2)
        for call in choice.message.tool_calls:
            self.assertTrue(call.id.startswith("call_"))
            self.assertEqual(call.type, "function")
            self.assertEqual(call.function.name, "get_weather")
            self.assertEqual(json.loads(call.function.arguments), {"city": "Paris"})
        self.assertNotEqual(*(call.id for call in choice.message.tool_calls))

    def test_stream(self):
        text, thinking, finish, calls, pieces = "", "", None, {}, 0
        for chunk in self.ask(stream=True):
            choice = chunk.choices[0]
            text += choice.delta.content or ""
            thinking += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or []:
                call = calls.setdefault(piece.index, {"arguments": ""})
                if piece.id:
                    call.update(id=piece.id, name=piece.function.name)
                call["arguments"] += piece.function.arguments or ""
                pieces += 1
        self.assertEqual((text, thinking, finish), ("I look.", "Hm.", "tool_calls"))
        self.assertEqual(sorted(calls), [0, 1])
        for call in calls.values():
            self.assertEqual(call["name"], "get_weather")
            self.assertEqual(json.loads(call["arguments"]), {"city": "Paris"})
        # As they are drawn, or several tokens at once where the server's threads have fallen behind.
        self.assertGreaterEqual(pieces, 2)

    def test_the_stream_helper_of_the_package_puts_them_together(self):
        with self.client.chat.completions.stream(
                model="tiny", messages=QUESTION, tools=TOOLS,
                extra_body={"structured_outputs": {"choice": [ANSWER]}}) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        self.assertEqual([call.function.arguments for call in message.tool_calls],
                         ['{"city": "Paris"}'] * 2)

    def test_one_call_is_enough(self):
        choice = self.ask(parallel_tool_calls=False).choices[0]
        self.assertEqual(len(choice.message.tool_calls), 1)

    def test_without_tools_a_call_is_text(self):
        choice = self.ask(tools=openai.omit if hasattr(openai, "omit") else openai.NOT_GIVEN).choices[0]
        self.assertEqual(choice.finish_reason, "stop")
        self.assertIn("<tool_call>", choice.message.content)
        self.assertIsNone(choice.message.tool_calls)
        self.assertEqual(choice.message.reasoning_content, "Hm.")

    def test_tool_choice_none(self):
        self.assertIsNone(self.ask(tool_choice="none").choices[0].message.tool_calls)

    def call(self, **fields):
        """Noise of a tiny model, held to calls."""
        choices = [{"type": "function", "function": {"name": name, "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"], "additionalProperties": False}}} for name in ("weather", "time")]
        return self.client.chat.completions.create(model="tiny", messages=QUESTION, tools=choices,
                                                   max_tokens=300, **fields)

    def check(self, calls, names):
        for call in calls:
            self.assertIn(call.function.name, names)
            self.assertIn(json.loads(call.function.arguments)["city"], ("Paris", "Rome"))

    def test_a_required_call_is_one_of_the_tools(self):
        for choice in self.call(tool_choice="required", n=3, seed=1, parallel_tool_calls=False).choices:
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertFalse(choice.message.content)
            self.assertEqual(len(choice.message.tool_calls), 1)
            self.check(choice.message.tool_calls, ("weather", "time"))

    def test_a_named_tool_is_called_in_a_stream_too(self):
        named = {"type": "function", "function": {"name": "time"}}
        name, arguments = "", ""
        for chunk in self.call(tool_choice=named, stream=True):
            for piece in chunk.choices[0].delta.tool_calls or []:
                name += piece.function.name or ""
                arguments += piece.function.arguments or ""
        self.assertEqual(name, "time")
        self.assertIn(json.loads(arguments)["city"], ("Paris", "Rome"))

    def test_responses_and_what_cannot_be_held(self):
        tool = {"type": "function", "name": "now", "strict": True, "parameters": {
            "type": "object", "properties": {}, "additionalProperties": False}}
        answer = self.client.responses.create(model="tiny", input="Weather?", tools=[tool],
                                              tool_choice="required", parallel_tool_calls=False)
        # The form may hold white space.
        self.assertEqual([(item.type, item.name, json.loads(item.arguments)) for item in answer.output],
                         [("function_call", "now", {})])
        tool["parameters"] = {"type": "object", "properties": {"a": {"uniqueItems": True, "type": "array"}}}
        with self.assertRaisesRegex(openai.BadRequestError, "uniqueItems"):
            self.client.responses.create(model="tiny", input="Weather?", tools=[tool])
        with self.assertRaisesRegex(openai.BadRequestError, "not among tools"):
            self.call(tool_choice={"type": "function", "function": {"name": "then"}})

    def test_a_conversation_goes_on_behind_a_call(self):
        first = self.ask().choices[0].message
        history = QUESTION + [first.model_dump(exclude_none=True)]
        history += [{"role": "tool", "tool_call_id": call.id, "content": "Sunny."}
                    for call in first.tool_calls]
        answer = self.client.chat.completions.create(
            model="tiny", messages=history, tools=TOOLS,
            extra_body={"structured_outputs": {"choice": ["Sunny."]}})
        self.assertEqual(answer.choices[0].message.content, "Sunny.")
        self.assertEqual(answer.choices[0].finish_reason, "stop")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
