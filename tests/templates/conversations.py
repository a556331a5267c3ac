"""Conversations of every shape that a chat template may be given, as contexts of variables."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a place.\nUses <metric> units & \"degrees\".",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's name, e.g. 'Köln'"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 18446744073709551615},
                "detail": {
                    "type": "object",
                    "properties": {"wind": {"type": "boolean"}, "depth": {"type": "number"}},
                    "required": ["wind"],
                },
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["city"],
        },
        "return": {"type": "string"},
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "The time.",
        "parameters": {"type": "object", "properties": {}},
    },
}
UNION = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "what"},
                "filters": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "field": {"type": "string"},
                            "value": {"oneOf": [{"type": "number"}, {"type": "null"}]},
                        },
                    },
                },
                "ratio": {"type": "number", "default": 0.25, "exclusiveMinimum": 1e-07},
                "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "on": {"type": "boolean", "default": True, "nullable": True},
                "kind": {"const": "a"},
            },
            "required": ["query", "on"],
            "additionalProperties": False,
        },
    },
}
TOOLS = [WEATHER, CLOCK, UNION]


def system(text="You are a helpful assistant."):
    return {"role": "system", "content": text}


def user(text="Hello, who are you?"):
    return {"role": "user", "content": text}


def assistant(text="I am a model.", **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, identifier="call_00001"):
    return {"type": "function", "id": identifier, "function": {"name": name, "arguments": arguments}}


def result(text, **more):
    return {"role": "tool", "content": text, **more}


def text_part(text):
    return {"type": "text", "text": text}


ARGUMENTS = {"city": "Zürich", "days": 3, "detail": {"wind": True, "depth": 1.5}, "tags": ["a", None]}
ARGUMENTS_TEXT = '{"city": "Zürich", "days": 3}'
ODD_TEXT = "  \n  Spaces \t and <|im_end|> {{ braces }} {% tags %} \"quotes\" 'q' \\ back\n\n"
UNICODE = "Grüße 👋🏽 家族 👨‍👩‍👧 \u200bzero\u00a0nbsp İstanbul ΌΣΟΣ ﬁ ß \u2028line\x85next"
THINKING = "<think>\nLet me think.\n</think>\n\nThe answer is 4."

WITH_CALL = [
    user("Weather?"),
    assistant("", tool_calls=[call("get_weather", ARGUMENTS)]),
    result('{"temperature": 21.5}', tool_call_id="call_00001", name="get_weather"),
]

MESSAGES = {
    "none": [],
    "user": [user()],
    "system_user": [system(), user()],
    "system_only": [system()],
    "turns": [user("One"), assistant("1"), user("Two"), assistant("2"), user("Three")],
    "system_turns": [system(), user("One"), assistant("1"), user("Two")],
    "ends_with_assistant": [system(), user("One"), assistant("1")],
    "two_users": [user("One"), user("Two")],
    "two_assistants": [user("One"), assistant("1"), assistant("2"), user("Two")],
    "assistant_first": [assistant("Hi!"), user("Hello")],
    "system_late": [user("One"), system("Be brief."), assistant("1"), user("Two")],
    "two_systems": [system("A"), system("B"), user("One")],
    "developer": [{"role": "developer", "content": "Be brief."}, user()],
    "odd_role": [user(), {"role": "narrator", "content": "Meanwhile ..."}, user("Go on")],
    "tool_roles": [user(), {"role": "ipython", "content": "1"}, {"role": "function", "name": "f", "content": "2"}],
    "no_role": [{"content": "Hello"}],
    "no_content": [user(), {"role": "assistant"}, user("Two")],
    "null_content": [user(), {"role": "assistant", "content": None}, user("Two")],
    "empty_content": [system(""), user(""), assistant(""), user("")],
    "odd_text": [system(ODD_TEXT), user(ODD_TEXT), assistant(ODD_TEXT), user(ODD_TEXT)],
    "unicode": [system(UNICODE), user(UNICODE), assistant(UNICODE), user(UNICODE)],
    "numbers_as_content": [user(5), assistant(2.5), user(True)],
    "parts": [
        {"role": "system", "content": [text_part("You are"), text_part(" helpful.")]},
        {"role": "user", "content": [text_part("Look: "), text_part("this")]},
        {"role": "assistant", "content": [text_part("I see.")]},
        {"role": "user", "content": [text_part("And now?")]},
    ],
    "image_parts": [
        {"role": "user", "content": [{"type": "image"}, text_part("What is this?"), {"type": "image_url", "image_url": {"url": "x"}}]},
        assistant("A cat."),
        {"role": "user", "content": [{"type": "video"}, {"type": "audio", "audio": "y"}, text_part("And this?")]},
    ],
    "empty_parts": [{"role": "user", "content": []}, assistant("?"), user("Two")],
    "dict_content": [{"role": "user", "content": {"text": "Hello"}}],
    "thinking_text": [user("2+2?"), assistant(THINKING), user("And 3+3?")],
    "thinking_last": [user("2+2?"), assistant(THINKING)],
    "reasoning": [user("2+2?"), assistant("4", reasoning_content="Two and two."), user("3+3?")],
    "reasoning_last": [user("2+2?"), assistant("4", reasoning_content="\nTwo and two.\n\n")],
    "reasoning_thinking": [user("2+2?"), assistant("4", thinking="Two and two."), user("3+3?")],
    "reasoning_null": [user("2+2?"), assistant("4", reasoning_content=None), user("3+3?")],
    "reasoning_name": [user("2+2?"), assistant("4", reasoning="Sum."), user("3+3?")],
    "call": WITH_CALL,
    "call_answered": WITH_CALL + [assistant("21.5 degrees."), user("Thanks")],
    "call_pending": WITH_CALL[:2],
    "call_text_arguments": [
        system(),
        user("Weather?"),
        assistant(None, tool_calls=[call("get_weather", ARGUMENTS_TEXT)]),
        result("21.5", tool_call_id="call_00001"),
        assistant("It is warm."),
        user("And the time?"),
    ],
    "call_no_content": [user("Weather?"), {"role": "assistant", "tool_calls": [call("clock", {})]}, result("12:00")],
    "call_with_text": [user("Weather?"), assistant("Let me look.", tool_calls=[call("clock", {})]), result("12:00", name="clock")],
    "call_with_reasoning": [
        user("Weather?"),
        assistant("", reasoning_content="I need the tool.", tool_calls=[call("get_weather", {"city": "Bern"})]),
        result("cold", tool_call_id="call_00001"),
        assistant("It is cold.", reasoning_content="The tool said cold."),
        user("Thanks"),
    ],
    "calls_parallel": [
        user("Both?"),
        assistant("", tool_calls=[call("get_weather", {"city": "Bern"}, "aaaaaaaaa"), call("clock", {}, "bbbbbbbbb")]),
        result("cold", tool_call_id="aaaaaaaaa", name="get_weather"),
        result("12:00", tool_call_id="bbbbbbbbb", name="clock"),
        assistant("Cold, noon."),
        user("Again"),
    ],
    "calls_in_turns": WITH_CALL
    + [assistant("", tool_calls=[call("clock", {}, "call_00002")]), result("12:00", tool_call_id="call_00002", name="clock")],
    "calls_empty": [user(), assistant("Hi", tool_calls=[]), user("Two")],
    "calls_null": [user(), assistant("Hi", tool_calls=None), user("Two")],
    "call_bare": [user(), assistant("", tool_calls=[{"name": "clock", "arguments": {}}]), result("12:00")],
    "call_nine": [user(), assistant("", tool_calls=[call("clock", {}, "abcdefghi")]), result("12:00", tool_call_id="abcdefghi")],
    "call_nested": [
        user("Deep"),
        assistant(
            "",
            tool_calls=[call("search", {"query": "a<b&c>\"d\"", "filters": [{"field": "x", "value": None}, {"f": [1, 2.0, 1e20, -0.0, [True]]}], "on": False, "text": "l1\nl2\té"})],
        ),
        result([text_part("part one"), text_part("part two")], tool_call_id="call_00001", name="search"),
    ],
    "result_dict": [user(), assistant("", tool_calls=[call("clock", {})]), result({"time": "12:00", "zone": None})],
    "result_list": [user(), assistant("", tool_calls=[call("clock", {})]), result(["12:00", 13])],
    "result_first": [result("nothing asked"), user("What?")],
    "long": [user("x" * 3000), assistant("word " * 500), user("ä" * 1000)],
    "name_field": [dict(user(), name="Alice"), dict(assistant(), name="Bot"), dict(user("Two"), name="Bob")],
    "weight": [user("2+2?"), assistant("4", weight=0, channel="final", recipient="all"), user("3+3?")],
}

FLAGS = {
    "plain": {},
    "thinking_on": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    "thinking_off": {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
    "identity": {
        "model_identity": "You are Sluice.",
        "builtin_tools": ["browser", "python", "code_interpreter", "brave_search"],
        "custom_instructions": "Be nice.",
        "documents": [{"title": "T", "text": "Body\ntext", "contents": "c", "doc_id": 1}],
        "date_string": "1 Jan 2025",
        "clear_thinking": False,
        "keep_past_thinking": True,
        "preserve_thinking": True,
        "citations": "on",
        "add_vision_id": True,
        "available_tools": TOOLS,
        "xml_tools": TOOLS,
        "python_tools": [],
        "thinking_budget": 512,
        "truncate_history_thinking": False,
    },
}


def contexts():
    """Pairs of a name and a context: every conversation, with and without tools, with and without
    the generation prompt, and each of the flags in turn."""
    flag_names = list(FLAGS)
    for place, (name, messages) in enumerate(MESSAGES.items()):
        for tools_name, tools in (("no_tools", None), ("tools", TOOLS)):
            for prompt in (False, True):
                flags = flag_names[(place + prompt + (tools is not None) * 2) % len(flag_names)]
                context = {
                    "messages": messages,
                    "add_generation_prompt": prompt,
                    "bos_token": "<s>",
                    "eos_token": "</s>",
                    **FLAGS[flags],
                }
                # transformers passes tools=None where there are none; others leave them out.
                if tools is not None or place % 2 == 0:
                    context["tools"] = tools
                yield f"{name}/{tools_name}/{'prompt' if prompt else 'no_prompt'}/{flags}", context
