#!/usr/bin/env python3
"""The APIs beside OpenAI's chat and completions, each through its own client, with the demo model.

Usage: apis_test.py PROGRAM [unittest options]

Needs the packages of scripts/lib/requirements.txt: $SLUICE_PYTHON.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

if os.environ.get("SLUICE_PYTHON") and os.environ["SLUICE_PYTHON"] != sys.executable:
    os.execv(os.environ["SLUICE_PYTHON"], [os.environ["SLUICE_PYTHON"], *sys.argv])

import anthropic  # noqa: E402  (after the change of interpreter)
import ollama  # noqa: E402
import openai  # noqa: E402

from serving import ENDLESS, MODEL, UNREAD, Serving, bare_model, tiny_model  # noqa: E402

PROGRAM = ""
QUESTION = [{"role": "user", "content": "What is photosynthesis?"}]
GREEDY = {"temperature": 0}  # which the client of Anthropic has no name for
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def setUpModule():
    global server
    server = unittest.enterModuleContext(Serving(PROGRAM))


def chat_answer(messages, max_tokens):
    """What the chat endpoint says, which every API must say as well."""
    _, answer = server.json("POST", "/v1/chat/completions",
                            {"messages": messages, "max_tokens": max_tokens, "temperature": 0})
    return answer["choices"][0]["message"]["content"]


def with_gap_tokens(model):
    """Gives the last three tokens of a model the names of StarCoder's around a gap, and their ids."""
    path = os.path.join(model, "tokenizer.json")
    with open(path) as file:
        tokenizer = json.load(file)
    vocab = tokenizer["model"]["vocab"]
    ids = range(len(vocab) - 3, len(vocab))
    gone = {text for text, number in vocab.items() if number in ids}
    for text in gone:
        del vocab[text]
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in tokenizer["model"]["merges"]]
    tokenizer["model"]["merges"] = [" ".join(pair) for pair in pairs
                                    if not gone & {*pair, "".join(pair)}]
    for text, number in zip(("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), ids):
        vocab[text] = number
        tokenizer["added_tokens"].append({"id": number, "content": text, "special": True,
                                          "single_word": False, "lstrip": False, "rstrip": False,
                                          "normalized": False})
    with open(path, "w") as file:
        json.dump(tokenizer, file)
    return list(ids)


class AnthropicTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0,
                                         timeout=300)

    def test_whole(self):
        message = self.client.messages.create(model=MODEL, max_tokens=12, messages=QUESTION,
                                              extra_body=GREEDY)
        self.assertEqual(message.content[0].text, chat_answer(QUESTION, 12))
        self.assertEqual((message.role, message.stop_reason), ("assistant", "max_tokens"))
        self.assertEqual(message.usage.output_tokens, 12)
        self.assertGreater(message.usage.input_tokens + message.usage.cache_read_input_tokens, 0)

    def test_stream_says_what_the_whole_answer_says(self):
        with self.client.messages.stream(model=MODEL, max_tokens=12, messages=QUESTION,
                                         extra_body=GREEDY) as stream:
            kinds = [event.type for event in stream]
            message = stream.get_final_message()
        self.assertEqual(message.content[0].text, chat_answer(QUESTION, 12))
        self.assertEqual(message.stop_reason, "max_tokens")
        self.assertEqual(message.usage.output_tokens, 12)
        for kind in ("message_start", "content_block_start", "content_block_delta",
                     "content_block_stop", "message_delta", "message_stop"):
            self.assertIn(kind, kinds)

    def test_system_and_stop_sequence(self):
        text = chat_answer([{"role": "system", "content": "Be short."}] + QUESTION, 12)
        stop = text.split()[2]
        message = self.client.messages.create(
            model=MODEL, max_tokens=12, messages=QUESTION, extra_body=GREEDY, stop_sequences=[stop],
            system=[{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}])
        self.assertEqual(message.content[0].text, text[:text.index(stop)])
        self.assertEqual((message.stop_reason, message.stop_sequence), ("stop_sequence", stop))

    def test_count_tokens(self):
        count = self.client.messages.count_tokens(model=MODEL, messages=QUESTION)
        usage = self.client.messages.create(model=MODEL, max_tokens=1, messages=QUESTION).usage
        self.assertEqual(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)

    def test_prefill(self):
        begun = chat_answer(QUESTION, 5)
        history = [*QUESTION, {"role": "assistant", "content": begun}]
        whole = chat_answer(QUESTION, 12)
        self.assertTrue(whole.startswith(begun))
        message = self.client.messages.create(model=MODEL, max_tokens=7, messages=history,
                                              extra_body=GREEDY)
        self.assertEqual(begun + message.content[0].text, whole)
        # The other APIs go on in the same way.
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        answer = client.chat.completions.create(
            model=MODEL, messages=history, temperature=0, max_tokens=7,
            extra_body={"continue_final_message": True, "add_generation_prompt": False})
        self.assertEqual(begun + answer.choices[0].message.content, whole)
        answer = ollama.Client(host=server.url).chat(
            model=MODEL, messages=history, options={"temperature": 0, "num_predict": 7})
        self.assertEqual(begun + answer.message.content, whole)

    def test_resumed(self):
        body = {"model": MODEL, "max_tokens": 12, "messages": QUESTION, "stream": True,
                "resume_seconds": 30, **GREEDY}
        _, _, text = server.request("POST", "/v1/messages", body)
        events = text.split(b"\n\n")
        number = next(i for i, event in enumerate(events) if b"content_block_delta" in event)
        last = events[number].split(b"\n")[0].removeprefix(b"id: ").decode()
        _, _, rest = server.request("GET", "/v1/streams", headers={"Last-Event-ID": last})
        self.assertEqual(rest.split(b"\n\n"), events[number + 1:])

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError) as caught:
            self.client.messages.create(model="other", max_tokens=1, messages=QUESTION)
        self.assertEqual(caught.exception.body["error"]["type"], "not_found_error")
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.client.messages.create(model=MODEL, max_tokens=1, messages=QUESTION,
                                        extra_body={"surprise": 1})
        self.assertIn("surprise", caught.exception.body["error"]["message"])


class ResponsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                                   timeout=300)

    def test_whole(self):
        response = self.client.responses.create(model=MODEL, input=QUESTION[0]["content"],
                                                temperature=0, max_output_tokens=12)
        self.assertEqual(response.output_text, chat_answer(QUESTION, 12))
        self.assertEqual((response.status, response.incomplete_details.reason),
                         ("incomplete", "max_output_tokens"))
        self.assertEqual(response.usage.output_tokens, 12)

    def test_stream_says_what_the_whole_answer_says(self):
        with self.client.responses.stream(model=MODEL, input=QUESTION, temperature=0,
                                          max_output_tokens=12) as stream:
            events = list(stream)
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.incomplete")
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(text, chat_answer(QUESTION, 12))
        self.assertEqual(events[-1].response.output_text, text)

    def test_a_stream_is_gone_on_with(self):
        stream = self.client.responses.create(model=MODEL, input=QUESTION, temperature=0, stream=True,
                                              max_output_tokens=12, extra_body={"resume_seconds": 30})
        first = next(stream)
        seen = [first, *(next(stream) for _ in range(3))]
        stream.close()
        rest = list(self.client.responses.retrieve(first.response.id, stream=True,
                                                   starting_after=seen[-1].sequence_number))
        self.assertEqual([event.sequence_number for event in seen + rest],
                         list(range(len(seen + rest))))
        self.assertEqual(rest[-1].response.output_text, chat_answer(QUESTION, 12))

    def test_in_the_background(self):
        responses, asked = self.client.responses, {"model": MODEL, "input": QUESTION,
                                                   "temperature": 0, "max_output_tokens": 12}
        self.assertEqual(server.json("POST", "/admin/pause")[0], 200)  # so that none ends meanwhile
        try:
            kept, ended, gone = (responses.create(**asked, background=True) for _ in range(3))
            self.assertEqual((kept.status, kept.background), ("in_progress", True))
            self.assertEqual(responses.retrieve(kept.id).status, "in_progress")
            readers = [responses.retrieve(kept.id, stream=True) for _ in range(2)]
            self.assertEqual(responses.cancel(ended.id).status, "cancelled")
            responses.delete(gone.id)
        finally:
            server.json("POST", "/admin/resume")
        for reader in readers:
            *_, last = reader
            self.assertEqual(last.response.output_text, chat_answer(QUESTION, 12))
        self.assertEqual(responses.retrieve(kept.id), last.response)
        self.assertEqual(responses.retrieve(ended.id).status, "cancelled")
        with self.assertRaises(openai.NotFoundError):
            responses.retrieve(gone.id)
        with self.assertRaises(openai.BadRequestError):
            responses.cancel(kept.id)
        server.wait_idle()

    def test_goes_on_from_a_stored_response(self):
        first = self.client.responses.create(model=MODEL, input=QUESTION, temperature=0,
                                             max_output_tokens=8)
        second = self.client.responses.create(model=MODEL, input="Go on.", temperature=0,
                                              max_output_tokens=8, previous_response_id=first.id)
        history = QUESTION + [{"role": "assistant", "content": first.output_text},
                              {"role": "user", "content": "Go on."}]
        self.assertEqual(second.output_text, chat_answer(history, 8))
        # The same by hand, with the items as they came.
        again = self.client.responses.create(
            model=MODEL, temperature=0, max_output_tokens=8,
            input=[*QUESTION, *first.output, {"role": "user", "content": "Go on."}])
        self.assertEqual(again.output_text, second.output_text)
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, first.output_text)
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.create(model=MODEL, input="a", previous_response_id=first.id)

    def test_decisions(self):
        decision = self.client.decisions.create(
            model=MODEL, input="The sun shines, and nobody needs an umbrella.", questions=[
                {"type": "predicate", "name": "rain", "instructions": "It rains."},
                {"type": "choice", "instructions": "Which weather is it?",
                 "choices": [{"value": "sun"}, {"value": "rain"}, {"value": "snow"}]},
                {"type": "score", "instructions": "How wet is it?",
                 "levels": [{"label": "dry"}, {"label": "damp"}, {"label": "soaked"}]}])
        predicate, choice, score = decision.answers
        self.assertEqual(predicate.name, "rain")
        self.assertTrue(0 < predicate.probability < 1)
        self.assertAlmostEqual(sum(p.probability for p in choice.probabilities), 1, places=9)
        best = max(choice.probabilities, key=lambda p: p.probability)
        self.assertEqual(choice.choice, best.value)
        self.assertTrue(0 <= score.score <= 2)
        self.assertGreater(decision.usage.input_tokens, 0)


class OllamaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = ollama.Client(host=server.url, timeout=300)

    def test_chat(self):
        options = {"temperature": 0, "num_predict": 12, "num_ctx": 4096}
        whole = self.client.chat(model=MODEL + ":latest", messages=QUESTION, options=options,
                                 keep_alive="5m")
        self.assertEqual(whole.message.content, chat_answer(QUESTION, 12))
        self.assertEqual((whole.done, whole.done_reason, whole.eval_count), (True, "length", 12))
        self.assertGreater(whole.eval_duration, 0)
        parts = list(self.client.chat(model=MODEL, messages=QUESTION, options=options, stream=True))
        self.assertEqual("".join(part.message.content for part in parts), whole.message.content)
        self.assertEqual([part.done for part in parts], [False] * (len(parts) - 1) + [True])

    def test_generate(self):
        options = {"temperature": 0, "num_predict": 5}
        asked = self.client.generate(model=MODEL, prompt=QUESTION[0]["content"], options=options)
        self.assertEqual(asked.response, chat_answer(QUESTION, 5))
        raw = self.client.generate(model=MODEL, prompt="The sky is", raw=True, options=options)
        _, plain = server.json("POST", "/v1/completions",
                               {"prompt": "The sky is", "max_tokens": 5, "temperature": 0})
        self.assertEqual(raw.response, plain["choices"][0]["text"])
        self.assertEqual(self.client.generate(model=MODEL, prompt="").done_reason, "load")

    def test_the_model(self):
        self.assertEqual(self.client.list().models[0].model, MODEL)
        self.assertEqual(self.client.ps().models[0].model, MODEL)
        shown = self.client.show(MODEL)
        self.assertIn("general.architecture", shown.modelinfo)
        self.assertIn("messages", shown.template)
        self.assertIn("completion", shown.capabilities)
        self.assertEqual(shown.details.family, "llama")
        self.assertTrue(server.json("GET", "/api/version")[1]["version"])

    def test_errors(self):
        with self.assertRaises(ollama.ResponseError) as caught:
            self.client.chat(model="other", messages=QUESTION)
        self.assertEqual(caught.exception.status_code, 404)
        self.assertIn("other", caught.exception.error)


class ToolsTest(unittest.TestCase):
    """Histories with calls, over a template that shows them, and answers held to a schema."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.url = cls.enterClassContext(
            Serving(PROGRAM, "--device", "cpu", model=tiny_model(folder))).url

    def test_anthropic(self):
        client = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)
        history = QUESTION + [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}]
        tools = [{"name": "weather", "description": "The weather", "input_schema": WEATHER}]
        message = client.messages.create(
            model="tiny", max_tokens=60, messages=history, tools=tools,
            thinking={"type": "disabled"},
            output_config={"format": {"type": "json_schema", "schema": {"enum": ["sun", "rain"]}}})
        self.assertIn(json.loads(message.content[-1].text), ("sun", "rain"))
        self.assertEqual(message.stop_reason, "end_turn")
        more = client.messages.count_tokens(model="tiny", messages=history, tools=tools)
        less = client.messages.count_tokens(model="tiny", messages=history[:1], tools=tools)
        self.assertGreater(more.input_tokens, less.input_tokens)

    def test_what_an_agent_sends(self):
        client = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)
        marked = {"cache_control": {"type": "ephemeral"}}
        with client.beta.messages.stream(
                model="tiny", max_tokens=20, betas=["context-management-2025-06-27"],
                metadata={"user_id": "u"}, thinking={"type": "adaptive"},
                output_config={"effort": "high"}, extra_body={"betas": ["more"]},
                context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"},
                                              {"type": "clear_tool_uses_20250919"}]},
                system=[{"type": "text", "text": "You help.", **marked}],
                tools=[{"name": "Read", "description": "d", "input_schema": WEATHER, **marked},
                       {"type": "bash_20250124", "name": "bash"},
                       {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}],
                messages=[{"role": "user", "content": [{"type": "text", "text": "go", **marked}]}],
        ) as stream:
            self.assertLessEqual(stream.get_final_message().usage.output_tokens, 20)
        with self.assertRaisesRegex(anthropic.BadRequestError, "web_search_20250305"):
            client.messages.create(model="tiny", max_tokens=5, messages=QUESTION,
                                   tools=[{"type": "web_search_20250305", "name": "web_search"}])

    def test_responses(self):
        client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)
        response = client.responses.create(
            model="tiny", max_output_tokens=60, instructions="Use the tool.", store=False,
            reasoning={"effort": "none"}, include=["reasoning.encrypted_content"],
            text={"format": {"type": "json_schema", "name": "w", "schema": {"enum": ["sun", "rain"]}}},
            tools=[{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}],
            input=[*QUESTION,
                   {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
                   {"type": "function_call_output", "call_id": "c", "output": "sunny"}])
        self.assertEqual(response.tools[0].name, "weather")
        self.assertIn(json.loads(response.output_text), ("sun", "rain"))

    def test_ollama(self):
        client = ollama.Client(host=self.url)
        answer = client.chat(
            model="tiny", think=False, format={"enum": ["sun", "rain"]},
            tools=[{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}],
            messages=[*QUESTION,
                      {"role": "assistant", "content": "", "tool_calls": [
                          {"function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
                      {"role": "tool", "tool_name": "weather", "content": "sunny"}])
        self.assertIn(json.loads(answer.message.content), ("sun", "rain"))


class ThinkingTest(unittest.TestCase):
    """A thinking that would take for ever, if nobody ended it."""

    def test_it_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_model(folder, 2 * ENDLESS)
            with Serving(PROGRAM, "--device", "cpu", "--reasoning-parser", "think", *UNREAD,
                         model=model) as serving:
                client = openai.OpenAI(base_url=serving.url + "/v1", api_key="none", max_retries=0)
                stream = client.chat.completions.create(
                    model="tiny", stream=True, max_tokens=ENDLESS,
                    messages=[*QUESTION, {"role": "assistant", "content": "<think>Let me see"}],
                    extra_body={"continue_final_message": True, "ignore_eos": True,
                                "return_token_ids": True})
                first = next(stream)
                self.assertTrue(first.prompt_token_ids)
                thought = next(chunk for chunk in stream if chunk.choices[0].delta.model_extra)
                self.assertIn("reasoning_content", thought.choices[0].delta.model_extra)
                order = {"id": first.id, "action": "end_thinking"}
                status, _ = serving.json("POST", "/v1/chat/completions/control", order)
                self.assertEqual(status, 200)
                said = next(chunk for chunk in stream if chunk.choices[0].delta.content)
                self.assertEqual(said.choices[0].finish_reason, None)
                serving.json("POST", "/v1/chat/completions/control", {**order, "action": "stop"})
                *_, last = stream
                self.assertEqual(last.choices[0].finish_reason, "stop")


class LlamaTest(unittest.TestCase):
    def test_completion(self):
        body = {"prompt": "The sky is", "n_predict": 5, "temperature": 0}
        _, plain = server.json("POST", "/v1/completions", body)
        text = plain["choices"][0]["text"]
        _, whole = server.json("POST", "/completion", {**body, "return_tokens": True})
        self.assertEqual((whole["content"], whole["stop_type"]), (text, "limit"))
        self.assertEqual(len(whole["tokens"]), 5)
        _, _, stream = server.request("POST", "/completions", {**body, "stream": True})
        parts = [json.loads(line[6:]) for line in stream.decode().splitlines() if line]
        self.assertEqual("".join(part["content"] for part in parts), text)
        self.assertEqual([part["stop"] for part in parts], [False] * (len(parts) - 1) + [True])

    def test_the_server(self):
        _, props = server.json("GET", "/props")
        _, slots = server.json("GET", "/slots")
        self.assertEqual(props["total_slots"], len(slots))
        self.assertIn("<|im_start|>", props["chat_template"])

    def test_infill(self):
        body = {"input_prefix": "def f(", "input_suffix": "return x", "n_predict": 4, "temperature": 0}
        status, answer = server.json("POST", "/infill", body)
        self.assertEqual(status, 501, answer)  # the demo model was taught no gaps
        self.assertIn("the model has no tokens for a gap in a text", answer["error"]["message"])
        with tempfile.TemporaryDirectory() as folder:
            model = bare_model(folder, positions=256)
            gap = with_gap_tokens(model)
            with Serving(PROGRAM, "--device", "cpu", model=model) as other:
                def ids_of(text):
                    return other.json("POST", "/tokenize", {"content": text, "add_special": False})[1]["tokens"]

                status, filled = other.json("POST", "/infill", body)
                self.assertEqual((status, filled.get("tokens_predicted")), (200, 4), filled)
                prompt = [gap[0], *ids_of("def f("), gap[1], *ids_of("return x"), gap[2]]
                begin = other.json("POST", "/tokenize", {"content": "", "add_special": True})[1]["tokens"]
                _, whole = other.json("POST", "/completion", {
                    "prompt": begin + prompt, "n_predict": 4, "temperature": 0})
                self.assertEqual(filled["content"], whole["content"])
                self.assertEqual(filled["tokens_evaluated"], len(begin + prompt))


class IdsAloneTest(unittest.TestCase):
    """A model whose folder has no tokenizer."""

    def test_ids_in_and_ids_out(self):
        asked = {"prompt": [1, 75, 65, 67], "max_tokens": 8, "temperature": 0, "ignore_eos": True,
                 "return_token_ids": True}
        with tempfile.TemporaryDirectory() as folder:
            model = bare_model(folder, positions=256)
            with Serving(PROGRAM, "--device", "cpu", model=model) as with_texts:
                _, expected = with_texts.json("POST", "/v1/completions", asked)
            os.remove(os.path.join(model, "tokenizer.json"))
            incomplete = subprocess.run([PROGRAM, "serve", model, "--device", "cpu", "--port", "0"],
                                        capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(incomplete.returncode, 0)
            self.assertIn("tokenizer.json", incomplete.stderr)
            os.remove(os.path.join(model, "tokenizer_config.json"))
            with Serving(PROGRAM, "--device", "cpu", model=model) as ids_alone:
                _, answer = ids_alone.json("POST", "/v1/completions", asked)
                choice = answer["choices"][0]
                self.assertEqual(choice["token_ids"], expected["choices"][0]["token_ids"])
                self.assertEqual(choice["text"], "")
                # Whoever forgets to ask for them gets them, too.
                _, forgot = ids_alone.json("POST", "/v1/completions", {
                    **asked, "return_token_ids": False, "logprobs": 3})
                self.assertEqual(forgot["choices"][0]["token_ids"], choice["token_ids"])
                logprobs = forgot["choices"][0]["logprobs"]
                self.assertEqual(logprobs["tokens"], [f"token_id:{i}" for i in choice["token_ids"]])
                self.assertEqual({len(top) for top in logprobs["top_logprobs"]}, {3})
                _, lines = ids_alone.json("POST", "/completion", {"prompt": [1, 75], "n_predict": 3, "n_probs": 2})
                self.assertEqual(len(lines["tokens"]), 3)
                for told in lines["completion_probabilities"]:
                    self.assertEqual({f"token_id:{top['id']}" for top in told["top_logprobs"]},
                                     {top["token"] for top in told["top_logprobs"]})
                    self.assertEqual(len(told["top_logprobs"]), 2)
                for path, body in (("/v1/completions", {"prompt": "a"}), ("/tokenize", {"prompt": "a"}),
                                   ("/v1/completions", {**asked, "stop": ["a"]}),
                                   ("/v1/completions", {**asked, "echo": True}),
                                   ("/v1/completions", {**asked, "guided_regex": "a"}),
                                   ("/detokenize", {"tokens": [1]})):
                    status, refused = ids_alone.json("POST", path, body)
                    self.assertEqual(status, 400, (path, body, refused))
                    self.assertIn("no tokenizer", refused["error"]["message"])
                said = [{"role": "user", "content": "a"}]
                for path, body in (("/v1/chat/completions", {"messages": said}),
                                   ("/v1/responses", {"input": "a"}),
                                   ("/v1/messages", {"messages": said, "max_tokens": 3}),
                                   ("/v1/messages/count_tokens", {"messages": said}),
                                   ("/infill", {"input_prefix": "a", "input_suffix": "b"})):
                    status, refused = ids_alone.json("POST", path, body)
                    self.assertEqual(status, 400, (path, refused))
                    self.assertIn("/v1/completions takes token ids", refused["error"]["message"])
                    self.assertIsNone(refused["error"].get("param"), (path, refused))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
