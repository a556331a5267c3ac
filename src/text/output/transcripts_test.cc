// What each family's models write, as their templates and cards show it: taken apart, wherever it
// is cut.
#include "text/output/output_fixture.h"

namespace sluice::text {
namespace {

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "get_weather",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"},
    "days": {"type": "integer"}, "units": {"type": ["string", "null"]}, "at": {}}}}},
  {"type": "function", "function": {"name": "now"}}])";

struct Transcript {
  const char* tools;
  const char* thinking;
  const char* text;
  Taken taken;
  const char* prompt_end = "";
};

// {"city": "Paris"} in each spelling of white space.
const std::vector<std::pair<std::string, std::string>> kParis = {
    {"get_weather", R"({"city": "Paris"})"}};
const std::vector<std::pair<std::string, std::string>> kParisAndNow = {
    {"get_weather", R"({"city": "Paris"})"}, {"now", "{}"}};

const Transcript kTranscripts[] = {
    {"hermes",
     "think",
     "<think>\nWeather.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
     "{\"city\": \"Paris\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": "
     "{}}\n</tool_call>",
     {"", "Weather.", kParisAndNow}},
    {"qwen3_coder",
     "think",
     "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
     "</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
     {"I look.", "", kParisAndNow}},
    {"qwen3_coder",
     "none",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nSaint \"Paris\"\n<b>\n</parameter>\n"
     "<parameter=days>\n3\n</parameter>\n<parameter=at>\n[1, 2]\n</parameter>\n<parameter=units>\n"
     "None\n</parameter>\n</function>\n</tool_call>",
     {"",
      "",
      {{"get_weather",
        R"({"city": "Saint \"Paris\"\n<b>", "days": 3, "at": [1, 2], "units": null})"}}}},
    {"qwen3_coder",
     "none",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\n1e577\n</"
     "parameter>\n<parameter=days>\n"
     "1e577\n</parameter>\n<parameter=at>\n{\"a\": "
     "-1e577}\n</parameter>\n<parameter=units>\n1e577\n"
     "</parameter>\n</function>\n</tool_call>",
     {"",
      "",
      {{"get_weather",
        R"({"city": "1e577", "days": 1e577, "at": {"a": -1e577}, "units": "1e577"})"}}}},
    {"qwen3_coder",
     "none",
     "Well.\n<function=now>\n</function>\n</tool_call> or <function=none> in prose",
     {"Well.or <function=none> in prose", "", {{"now", "{}"}}}},
    {"seed_oss",
     "seed_oss",
     "<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=get_weather>\n"
     "<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>",
     {"", "Hm.", kParis}},
    {"llama3_json",
     "none",
     R"({"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "now", "parameters": {}})",
     {"", "", kParisAndNow}},
    {"llama3_json",
     "none",
     R"(<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}})",
     {"", "", kParis}},
    {"llama3_json",
     "none",
     R"({"name": "Anna", "parameters": {"age": 5}} is JSON.)",
     {R"({"name": "Anna", "parameters": {"age": 5}} is JSON.)", "", {}}},
    {"llama_pythonic", "none", R"([get_weather(city="Paris"), now()])", {"", "", kParisAndNow}},
    {"llama_pythonic",
     "none",
     R"([get_weather(city='It\'s "it"', days=3, at=[True, None, (1, -2.5e3)], units={'a': 'b'})])",
     {"",
      "",
      {{"get_weather", R"({"city": "It's \"it\"", "days": 3, "at": [true, null, [1, -2.5e3]], )"
                       R"("units": {"a": "b"}})"}}}},
    {"llama_pythonic",
     "none",
     "[1] and [get_help()] are no calls",
     {"[1] and [get_help()] are no calls", "", {}}},
    {"lfm2",
     "think",
     "<think>Hm.</think>I look.<|tool_call_start|>[get_weather(city=\"Paris\"), now()]"
     "<|tool_call_end|>Done.",
     {"I look.Done.", "Hm.", kParisAndNow}},
    {"mistral",
     "none",
     R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "VvvODy9mT"},)"
     R"( {"name": "now", "arguments": {}}])",
     {"", "", kParisAndNow}},
    {"mistral",
     "mistral",
     R"([THINK]Hm.[/THINK]I look.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now)"
     R"([CALL_ID]abcdefghi[ARGS]{})",
     {"I look.", "Hm.", kParisAndNow}},
    {"deepseek_v3",
     "think",
     "Hm.\n</think>\n\nI look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
     "get_weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>"
     "function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"I look.", "Hm.", kParisAndNow},
     "<｜Assistant｜><think>\n"},
    {"deepseek_v31",
     "think",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\"}"
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     {"", "", kParisAndNow},
     "<｜Assistant｜></think>"},
    {"deepseek_v32",
     "think",
     "Hm.</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
     "<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"at\" string=\"true\">5</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n"
     "</｜DSML｜function_calls>",
     {"", "Hm.", {{"get_weather", R"({"city": "Paris", "at": "5", "days": 3})"}, {"now", "{}"}}},
     "<think>"},
    {"deepseek_v4",
     "think",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke "
     "name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     {"", "", {{"now", "{}"}}},
     "</think>"},
    {"glm45",
     "think",
     "\n<think>Hm.</think>\nI look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n"
     "<arg_value>Paris</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
     {"I look.", "Hm.", kParisAndNow}},
    {"glm45",
     "none",
     "<tool_call>get_weather<arg_key>days</arg_key><arg_value>3</arg_value><arg_key>at</arg_key>"
     "<arg_value>noon</arg_value></tool_call> and <tool_call> in prose",
     {"and <tool_call> in prose", "", {{"get_weather", R"({"days": 3, "at": "noon"})"}}}},
    {"kimi_k2",
     "think",
     "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     "<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|><|tool_call_begin|>"
     "functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     {"I look.", "", kParisAndNow}},
    {"kimi_k2",
     "think",
     "<think>Hm. <|tool_calls_section_begin|><|tool_call_begin|>functions.now:0"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     {"", "Hm.", {{"now", "{}"}}}},
    {"harmony",
     "harmony",
     "<|channel|>analysis<|message|>Weather.<|end|><|start|>assistant<|channel|>commentary"
     "<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
     "<|constrain|>json<|message|>{\"city\": \"Paris\"}<|call|>",
     {"I look.", "Weather.", kParis}},
    {"harmony",
     "harmony",
     " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Paris\"}",
     {"", "", kParis}},
    {"harmony",
     "harmony",
     "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two."
     "<|end|><|start|>assistant<|channel|>final<|message|>Yes, <|think|>.\n",
     {"Yes, <|think|>.\n", "One.\nTwo.", {}}},
    {"harmony",
     "harmony",
     "No header, <|channel but text",
     {"No header, <|channel but text", "", {}}},
    {"gemma4",
     "gemma4",
     "<|channel>thought\nHm.\n<channel|><|tool_call>call:get_weather{city:<|\"|>Pa\"ris<|\"|>,days:"
     "3,at:{a:[1,true],b:<|\"|><|\"|>}}<tool_call|><|tool_call>call:now{}<tool_call|>",
     {"",
      "Hm.",
      {{"get_weather", R"({"city":"Pa\"ris","days":3,"at":{"a":[1,true],"b":""}})"},
       {"now", "{}"}}}},
    {"gemma4", "none", "Use <|tool_call>call: so", {"Use <|tool_call>call: so", "", {}}},
    {"functiongemma",
     "none",
     "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
     {"", "", {{"get_weather", R"({"city":"Paris"})"}}}},
    {"command_r7b",
     "command_r7b",
     "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
     "\"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}},\n    "
     "{\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>",
     {"", "Hm.", kParisAndNow}},
    {"command_r",
     "none",
     "Action: ```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": "
     "{\"city\": \"Paris\"}\n    }\n]```",
     {"", "", kParis}},
    {"phi4",
     "none",
     R"(functools[{"name": "get_weather", "arguments": {"city": "Paris"}}])",
     {"", "", kParis}},
    {"phi4",
     "think",
     R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]<|/tool_call|>)",
     {"", "", kParis}},
    {"granite",
     "think",
     R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}, )"
     R"({"name": "now", "arguments": {}}])",
     {"", "", kParisAndNow}},
    {"minimax_m1",
     "think",
     "<think>Hm.</think>\n<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
     "\"Paris\"}}\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>",
     {"", "Hm.", kParisAndNow}},
    {"minimax_m2",
     "think",
     "Hm.\n</think>\n\nI look.\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n"
     "<parameter name=\"city\">Paris</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n"
     "</minimax:tool_call>",
     {"I look.", "Hm.", kParisAndNow},
     "]~b]ai\n<think>\n"},
    {"nemotron",
     "think",
     R"(<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</TOOLCALL>)",
     {"", "", kParis}},
};

TEST(TranscriptsTest, AreTakenApart) {
  for (const Transcript& transcript : kTranscripts) {
    SCOPED_TRACE(transcript.text);
    Parsing parsing(transcript.tools, transcript.thinking, kTools);
    parsing.prompt_end = transcript.prompt_end;
    EXPECT_EQ(parsing.Take(std::string_view(transcript.text)), transcript.taken);
  }
}

TEST(TranscriptsTest, EachFamilyHasOne) {
  for (const CallFamily& family : CallFamilies()) {
    const auto is_of = [&](const Transcript& transcript) {
      return transcript.tools == family.name ||
             (family.name == "functools" && transcript.tools == std::string_view("phi4"));
    };
    EXPECT_TRUE(std::any_of(std::begin(kTranscripts), std::end(kTranscripts), is_of))
        << family.name;
  }
}

// Where an answer is cut by its length, what came is kept, and nothing but the beginning of a mark
// is lost.
TEST(TranscriptsTest, MayBeCutAnywhere) {
  for (const Transcript& transcript : kTranscripts) {
    Parsing parsing(transcript.tools, transcript.thinking, kTools);
    parsing.prompt_end = transcript.prompt_end;
    const std::string_view text = transcript.text;
    for (size_t length = 0; length < text.size(); ++length) {
      const Taken taken = parsing.Take(std::vector{text.substr(0, length)});
      ASSERT_LE(taken.calls.size(), transcript.taken.calls.size()) << text.substr(0, length);
      for (size_t i = 0; i < taken.calls.size(); ++i) {
        EXPECT_EQ(taken.calls[i].first, transcript.taken.calls[i].first);
      }
    }
  }
}

TEST(TranscriptsTest, IdsAreWhatTheTemplatesTakeBack) {
  const auto id_of = [](const char* family, const char* text) {
    const OutputFormat format = *OutputFormat::Choose("", family, "none");
    const ToolSchemas none;
    TextDelta delta;
    const auto parser = format.MakeParser({.tools = true}, none, "");
    parser->Add(text, &delta);
    return delta.tool_calls.at(0).id;
  };
  EXPECT_EQ(id_of("mistral", "[TOOL_CALLS]now[ARGS]{}").size(), 9u);
  EXPECT_EQ(id_of("mistral", R"([TOOL_CALLS][{"name": "now", "arguments": {}}])").size(), 9u);
  EXPECT_EQ(id_of("kimi_k2",
                  "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:7"
                  "<|tool_call_argument_begin|>{}"),
            "functions.now:7");
  EXPECT_EQ(id_of("hermes", R"(<tool_call>{"name": "now", "arguments": {}})").find("call_"), 0u);
}

}  // namespace
}  // namespace sluice::text
