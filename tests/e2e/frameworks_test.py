#!/usr/bin/env python3
"""Frameworks that programs are built with, unchanged, against the server: langchain-openai, litellm,
instructor, openai-agents and Cohere's client.

Usage: frameworks_test.py PROGRAM [unittest options]

Needs the packages of scripts/lib/clients/frameworks.txt, in $SLUICE_CLIENTS/frameworks.
"""
import asyncio
import base64
import os
import struct
import sys
import tempfile
import unittest

PYTHON = os.path.join(os.environ["SLUICE_CLIENTS"], "frameworks", "bin", "python")
if PYTHON != sys.executable:
    os.execv(PYTHON, [PYTHON, "-W", "ignore", *sys.argv])

# Neither asks the network for what has no part in an answer.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import agents  # noqa: E402  (after the change of interpreter)
import cohere  # noqa: E402
import instructor  # noqa: E402
import langchain_openai  # noqa: E402
import litellm  # noqa: E402
import openai  # noqa: E402
from langchain_core.messages import HumanMessage  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from serving import MODEL, Serving, tiny_model  # noqa: E402

litellm.suppress_debug_info = True

PROGRAM = ""
ENCODER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "encoders", "bert")
TEXT = "What is photosynthesis?"
QUESTION = [{"role": "user", "content": TEXT}]
CITY = "Describe the city of Paris."

# What the tiny model is held to: the call of a tool as a large model would write it.
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
HELD = {"structured_outputs": {"choice": [CALL]}}


class City(BaseModel):
    name: str
    country: str
    capital: bool


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sun in {city}"


def setUpModule():
    global demo, tiny, encoder
    folder = unittest.enterModuleContext(tempfile.TemporaryDirectory())
    demo = unittest.enterModuleContext(Serving(PROGRAM))
    tiny = unittest.enterModuleContext(
        Serving(PROGRAM, "--device", "cpu", model=tiny_model(folder)))
    encoder = unittest.enterModuleContext(Serving(PROGRAM, "--device", "cpu", model=ENCODER))


def expected(max_tokens=12):
    """What every client must be told."""
    _, answer = demo.json("POST", "/v1/chat/completions",
                          {"messages": QUESTION, "max_tokens": max_tokens, "temperature": 0})
    return answer["choices"][0]["message"]["content"]


class LangchainTest(unittest.TestCase):
    def model(self, server=None, **fields):
        server = server or demo
        fields = {"model": MODEL if server is demo else "tiny", "max_tokens": 12, **fields}
        return langchain_openai.ChatOpenAI(base_url=server.url + "/v1", api_key="none",
                                           temperature=0, max_retries=0, timeout=120, **fields)

    def test_chat(self):
        answer = self.model().invoke(TEXT)
        self.assertEqual(answer.content, expected())
        self.assertEqual(answer.usage_metadata["output_tokens"], 12)
        self.assertEqual(answer.response_metadata["finish_reason"], "length")

    def test_stream(self):
        chunks = list(self.model(stream_usage=True).stream(TEXT))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        self.assertEqual(whole.content, expected())
        self.assertEqual(whole.usage_metadata["output_tokens"], 12)

    def test_batch(self):
        self.assertEqual([answer.content for answer in self.model().batch([TEXT] * 3)],
                         [expected()] * 3)

    def test_responses(self):
        model = self.model(use_responses_api=True)
        self.assertEqual(model.invoke(TEXT).text, expected())
        self.assertEqual("".join(chunk.text for chunk in model.stream(TEXT)), expected())

    def test_log_probs(self):
        answer = self.model(max_tokens=2).bind(logprobs=True, top_logprobs=3).invoke(TEXT)
        content = answer.response_metadata["logprobs"]["content"]
        self.assertEqual([len(token["top_logprobs"]) for token in content], [3, 3])

    def test_structured_output(self):
        model = self.model(max_tokens=80).with_structured_output(City)
        self.assertIsInstance(model.invoke(CITY), City)

    def test_tools(self):
        held = self.model(tiny, max_tokens=None, extra_body=HELD).bind_tools([get_weather])
        answer = held.invoke("Weather?")
        (call,) = answer.tool_calls
        self.assertEqual((call["name"], call["args"]), ("get_weather", {"city": "Paris"}))
        whole = None
        for chunk in held.stream("Weather?"):
            whole = chunk if whole is None else whole + chunk
        (streamed,) = whole.tool_calls
        self.assertEqual((streamed["name"], streamed["args"]), (call["name"], call["args"]))
        # The result goes back, and the conversation on.
        history = [HumanMessage("Weather?"), answer,
                   {"role": "tool", "tool_call_id": call["id"], "content": get_weather("Paris")}]
        after = self.model(tiny, max_tokens=3).bind_tools([get_weather]).invoke(history)
        self.assertEqual(after.usage_metadata["output_tokens"], 3)

    def test_a_tool_that_must_be_called(self):
        model = self.model(tiny, max_tokens=2000)
        for choice in ("any", "get_weather"):
            (call,) = model.bind_tools([get_weather], tool_choice=choice).invoke("Go.").tool_calls
            self.assertEqual((call["name"], list(call["args"])), ("get_weather", ["city"]))
        held = model.with_structured_output(City, method="function_calling")
        self.assertIsInstance(held.invoke(CITY), City)

    def test_completion(self):
        model = langchain_openai.OpenAI(base_url=demo.url + "/v1", api_key="none", model=MODEL,
                                        temperature=0, max_tokens=5, max_retries=0)
        _, answer = demo.json("POST", "/v1/completions",
                              {"prompt": "The sky is", "max_tokens": 5, "temperature": 0})
        self.assertEqual(model.invoke("The sky is"), answer["choices"][0]["text"])

    def test_embeddings(self):
        # It would tokenize with a vocabulary of OpenAI's, which it downloads.
        model = langchain_openai.OpenAIEmbeddings(
            base_url=encoder.url + "/v1", api_key="none", model="bert", max_retries=0,
            check_embedding_ctx_length=False)
        vectors = model.embed_documents(["a cat", "a dog"])
        _, answer = encoder.json("POST", "/v1/embeddings", {"input": ["a cat", "a dog"]})
        for vector, item in zip(vectors, answer["data"], strict=True):
            self.assertEqual(len(vector), len(item["embedding"]))
            for a, b in zip(vector, item["embedding"]):
                self.assertAlmostEqual(a, b, places=6)


class LitellmTest(unittest.TestCase):
    """One package that speaks to each API of the server."""

    def ask(self, provider, path="", **fields):
        return litellm.completion(model=f"{provider}/{MODEL}", messages=QUESTION,
                                  api_base=demo.url + path, api_key="none", temperature=0,
                                  max_tokens=12, num_retries=0, **fields)

    def test_every_api_says_the_same(self):
        for provider, path in (("openai", "/v1"), ("hosted_vllm", "/v1"), ("anthropic", ""),
                               ("ollama_chat", "")):
            with self.subTest(provider):
                answer = self.ask(provider, path)
                self.assertEqual(answer.choices[0].message.content, expected())
                self.assertEqual(answer.usage.completion_tokens, 12)
                stream = litellm.stream_chunk_builder(list(self.ask(provider, path, stream=True)))
                self.assertEqual(stream.choices[0].message.content, expected())

    def test_completion_and_responses(self):
        answer = litellm.text_completion(
            model="text-completion-openai/" + MODEL, prompt="The sky is", max_tokens=5, temperature=0,
            api_base=demo.url + "/v1", api_key="none")
        self.assertTrue(answer.choices[0].text)
        # It asks for 16 tokens at least.
        response = litellm.responses(model="openai/" + MODEL, input=TEXT, max_output_tokens=16,
                                     temperature=0, api_base=demo.url + "/v1", api_key="none")
        self.assertEqual(response.output[0].content[0].text, expected(16))

    def test_tools(self):
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}}}}

        def call_of(answer):
            (call,) = answer.choices[0].message.tool_calls
            return call.function.name, call.function.arguments

        def ask(**fields):
            return litellm.completion(model="openai/tiny", messages=QUESTION, tools=[tool],
                                      api_base=tiny.url + "/v1", api_key="none", extra_body=HELD,
                                      **fields)

        self.assertEqual(call_of(ask()), ("get_weather", '{"city": "Paris"}'))
        self.assertEqual(call_of(litellm.stream_chunk_builder(list(ask(stream=True)))),
                         ("get_weather", '{"city": "Paris"}'))

    def test_embeddings_and_ranks(self):
        base = {"api_base": encoder.url + "/v1", "api_key": "none"}
        answer = litellm.embedding(model="openai/bert", input=["a cat", "a dog"], **base)
        self.assertEqual([len(item["embedding"]) for item in answer.data], [64, 64])
        ranking = litellm.rerank(model="hosted_vllm/bert", query="a cat",
                                 documents=["a dog", "a cat"], **base)
        self.assertEqual(ranking.results[0]["index"], 1)


class CohereTest(unittest.TestCase):
    """Cohere's own client: ranks and vectors."""
    TEXTS = ["a dog in the garden", "a cat", "a cat under a tree"]

    @classmethod
    def setUpClass(cls):
        cls.client = cohere.ClientV2(api_key="none", base_url=encoder.url)

    def test_ranks(self):
        ranking = self.client.rerank(model="bert", query="a cat", documents=self.TEXTS, top_n=2,
                                     max_tokens_per_doc=64)
        self.assertEqual([result.index for result in ranking.results], [1, 2])
        self.assertAlmostEqual(ranking.results[0].relevance_score, 1, places=4)
        self.assertEqual(ranking.meta.billed_units.search_units, 1)
        self.assertTrue(ranking.id)

    def test_ranks_of_the_client_before(self):
        client = cohere.Client(api_key="none", base_url=encoder.url)
        ranking = client.rerank(model="bert", query="a cat", documents=self.TEXTS, top_n=1,
                                return_documents=True)
        (best,) = ranking.results
        self.assertEqual((best.index, best.document.text), (1, "a cat"))

    def test_vectors(self):
        answer = self.client.embed(model="bert", texts=self.TEXTS, input_type="search_document",
                                   embedding_types=["float", "base64"])
        self.assertEqual([len(vector) for vector in answer.embeddings.float_], [64, 64, 64])
        self.assertEqual(answer.texts, self.TEXTS)
        bits = base64.b64decode(answer.embeddings.base64[0])
        self.assertEqual(list(struct.unpack("<64f", bits)),
                         [struct.unpack("<f", struct.pack("<f", number))[0]
                          for number in answer.embeddings.float_[0]])
        self.assertGreater(answer.meta.billed_units.input_tokens, 0)

    def test_what_is_wrong_is_told(self):
        with self.assertRaises(cohere.BadRequestError) as caught:
            self.client.rerank(model="bert", query="", documents=self.TEXTS)
        self.assertIn("query is empty", caught.exception.body["message"])
        with self.assertRaises(cohere.NotFoundError):
            self.client.rerank(model="other", query="a", documents=self.TEXTS)

    def test_later(self):
        async def rank():
            client = cohere.AsyncClientV2(api_key="none", base_url=encoder.url)
            return await client.rerank(model="bert", query="a cat", documents=self.TEXTS)

        self.assertEqual(len(asyncio.run(rank()).results), 3)


class InstructorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        client = openai.OpenAI(base_url=demo.url + "/v1", api_key="none", max_retries=0)
        cls.client = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
        cls.fields = {"model": MODEL, "response_model": City, "max_retries": 1, "temperature": 0,
                      "max_tokens": 80, "messages": [{"role": "user", "content": CITY}]}

    def test_whole(self):
        self.assertIsInstance(self.client.chat.completions.create(**self.fields), City)

    def test_partial(self):
        *_, last = self.client.chat.completions.create_partial(**self.fields)
        self.assertIsInstance(last.capital, bool)


    def test_tools(self):
        client = openai.OpenAI(base_url=tiny.url + "/v1", api_key="none", max_retries=0)
        for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT):
            with self.subTest(mode):
                told = instructor.from_openai(client, mode=mode).chat.completions.create(
                    **{**self.fields, "model": "tiny", "max_tokens": 2000})
                self.assertIsInstance(told, City)


class AgentsTest(unittest.TestCase):
    """Agents by chat and by responses, the two ways of the package."""

    def agent(self, kind, server=None, **fields):
        server = server or demo
        client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        extra = {"extra_body": HELD} if server is tiny else {}
        settings = agents.ModelSettings(temperature=0, max_tokens=80, **extra)
        return agents.Agent(name="tester", model_settings=settings,
                            model=kind(MODEL if server is demo else "tiny", client), **fields)

    def test_typed_answer(self):
        for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
            with self.subTest(kind.__name__):
                result = agents.Runner.run_sync(self.agent(kind, output_type=City), CITY)
                self.assertIsInstance(result.final_output, City)

    def test_stream(self):
        async def run(kind):
            result = agents.Runner.run_streamed(self.agent(kind, output_type=City), CITY)
            kinds = [event.type async for event in result.stream_events()]
            return result.final_output, kinds

        for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
            with self.subTest(kind.__name__):
                output, kinds = asyncio.run(run(kind))
                self.assertIsInstance(output, City)
                self.assertGreater(kinds.count("raw_response_event"), 5)

    def test_tool(self):
        cities = []

        @agents.function_tool
        def get_weather(city: str) -> str:
            """The weather of a city."""
            cities.append(city)
            return "sun"

        agent = self.agent(agents.OpenAIChatCompletionsModel, tiny, tools=[get_weather],
                           tool_use_behavior="stop_on_first_tool")
        self.assertEqual(agents.Runner.run_sync(agent, "Weather?").final_output, "sun")
        self.assertEqual(cities, ["Paris"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
