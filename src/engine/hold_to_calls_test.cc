// Answers that are held to calls, for each family: what its grammar lets through is what its parser
// reads as that call.
#include "engine/hold_to_calls.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <regex>
#include <set>

#include "base/philox.h"
#include "base/str_cat.h"
#include "base/utf8.h"
#include "text/grammar_fixture.h"
#include "text/output/output_fixture.h"
#include "text/structural_tag.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "get_weather",
  "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris"]},
    "days": {"enum": [3]}}, "required": ["city", "days"]}}},
  {"type": "function", "function": {"name": "now"}}])";

constexpr const char* kFormTools =
    R"([{"type": "function", "function": {"name": "f", "strict": true,
    "parameters": {"type": "object", "properties": {"s": {"type": "string"},
      "b": {"type": "boolean"}, "n": {"type": ["null", "number"]},
      "l": {"type": "array", "items": {"enum": ["x", true, null, 1.5]}},
      "o": {"type": "object", "properties": {"k k": {"type": "integer"}},
            "additionalProperties": {"type": "boolean"}}},
      "required": ["s"], "additionalProperties": false}}}])";

class HoldToCallsTest : public ::testing::Test {
 protected:
  static Request Asking(bool required, std::string tool = {}, const std::string& tools = kTools) {
    Request request;
    ChatPrompt chat;
    chat.tools_json = tools;
    request.prompt = chat;
    request.parsing.tools = true;
    request.tool_choice = {.required = required, .tool = std::move(tool)};
    return request;
  }
  Result<bool> Hold(std::string_view family, Request* request) const {
    return HoldToCalls(*text::OutputFormat::Choose("", family, "none"), *tokenizer_, request);
  }
  std::shared_ptr<const text::CompiledGrammar> Compile(const Request& request) {
    auto compiled = text::Compile(request.grammar, &compiler_);
    EXPECT_TRUE(compiled.ok()) << compiled.status().message() << request.grammar.text;
    return compiled.ok() ? *compiled : nullptr;
  }
  // An answer that fits and begins so: any of the bytes that may come, until it may end.
  std::string Draw(const text::CompiledGrammar& grammar, uint32_t seed,
                   std::string text = "") const {
    const auto walk = grammar.Walk(false);
    for (const char c : text) EXPECT_TRUE(walk->Go(static_cast<unsigned char>(c))) << text;
    for (uint32_t i = 0; i < 2000 && !walk->complete(); ++i) {
      std::vector<uint32_t> words((static_cast<size_t>(vocab_) + 31) / 32);
      walk->AllowTokens(words);
      std::vector<text::TokenId> ids;
      for (text::TokenId id = 0; id < vocab_; ++id) {
        if (text::HasBit(words, id)) ids.push_back(id);
      }
      EXPECT_FALSE(ids.empty()) << text;
      if (ids.empty()) break;
      const text::TokenId id = ids[Philox(seed, {i, 0, 0, 0})[0] % ids.size()];
      EXPECT_TRUE(walk->Go(id));
      text += tokenizer_->PieceBytes(id, true);
    }
    EXPECT_TRUE(walk->complete()) << text;
    return text;
  }

  // What random bytes would not come out of again: a message of thinking.
  static std::string BeginOfCalls(const text::CallFamily& family) {
    return family.shape->message_end.empty() ? "" : std::string(family.shape->call_begin);
  }

  const std::shared_ptr<const text::Tokenizer> tokenizer_ = text::ByteTokenizer();
  const int vocab_ = tokenizer_->vocab_size();
  text::GrammarCompiler compiler_{tokenizer_, vocab_, {text::kEndOfAnswer}};
};

TEST_F(HoldToCallsTest, WhatTheGrammarOfAFamilyLetsThroughItsParserReads) {
  int held = 0;
  for (const text::CallFamily& family : text::CallFamilies()) {
    SCOPED_TRACE(family.name);
    Request request = Asking(true, "get_weather");
    const auto holds = Hold(family.name, &request);
    ASSERT_TRUE(holds.ok()) << holds.status().message();
    ++held;
    const auto grammar = Compile(request);
    ASSERT_NE(grammar, nullptr);
    const text::Parsing parsing(family.name, "none", kTools);
    for (uint32_t seed = 0; seed < 3; ++seed) {
      const std::string text = Draw(*grammar, seed, BeginOfCalls(family));
      const text::Taken taken = parsing.Take(std::vector<std::string_view>{text});
      EXPECT_EQ(taken.text, "") << text;
      ASSERT_EQ(taken.calls.size(), 1u) << text;
      EXPECT_EQ(taken.calls[0].first, "get_weather") << text;
      EXPECT_EQ(Json::parse(taken.calls[0].second, nullptr, false),
                (Json{{"city", "Paris"}, {"days", 3}}))
          << text;
    }
  }
  EXPECT_EQ(held, 24);
}

TEST_F(HoldToCallsTest, ARequiredCallIsOfAnyToolAndTheirNumberIsFreeUnlessOneIsWanted) {
  Request request = Asking(true);
  ASSERT_TRUE(*Hold("hermes", &request));
  const auto any = Compile(request);
  request = Asking(true);
  request.parsing.one_call = true;
  ASSERT_TRUE(*Hold("hermes", &request));
  const auto one = Compile(request);
  ASSERT_TRUE(any != nullptr && one != nullptr);
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const std::string weather =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
      "{\"city\":\"Paris\",\"days\":3}}\n"
      "</tool_call>";
  for (const auto& grammar : {any, one}) {
    EXPECT_TRUE(text::Fits(*grammar, vocab_, now));
    EXPECT_TRUE(text::Fits(*grammar, vocab_, weather));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, "It is noon."));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, "<tool_call>\n{\"name\": \"then\""));
    EXPECT_EQ(text::Fits(*grammar, vocab_, now + "\n" + weather), grammar == any);
  }
}

TEST_F(HoldToCallsTest, WithAStrictToolAnAnswerIsTextOrCallsThatFit) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false}}}])";
  for (const auto& [family, begin] :
       {std::pair{"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": "},
        {"llama3_json", "{\"name\": \"f\", \"parameters\": "}}) {
    SCOPED_TRACE(family);
    Request request = Asking(false, "", tools);
    ASSERT_TRUE(*Hold(family, &request));
    const auto grammar = Compile(request);
    ASSERT_NE(grammar, nullptr);
    const std::string end = std::string(family) == "hermes" ? "}\n</tool_call>" : "}";
    EXPECT_TRUE(text::Fits(*grammar, vocab_, "It is <b>noon</b>."));
    EXPECT_TRUE(text::Fits(*grammar, vocab_, begin + std::string("{\"a\":5}") + end));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, begin + std::string("{\"a\": 5}") + end));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, begin + std::string("{\"a\":\"5\"}") + end));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, begin + std::string("{}") + end));
  }
}

// Each family that writes values between tags once let whitespace stand around them that its parser
// took for a part of the value.
TEST_F(HoldToCallsTest, TheArgumentsOfAStrictToolFitItsSchemaInEveryFamily) {
  const std::string tools = R"([{"type": "function", "function": {"name": "f", "strict": true,
    "parameters": {"type": "object", "properties": {
      "a": {"type": "string", "enum": ["x", " y", "a<b", "12"]},
      "s": {"type": "string", "pattern": "^[ab<]?c$"},
      "l": {"type": "string", "maxLength": 2},
      "d": {"type": "string", "format": "date"},
      "n": {"anyOf": [{"type": "string", "pattern": "^[0-9]$"}, {"type": "null"}]},
      "m": {"enum": ["1", 2, "z", null]},
      "i": {"type": "integer", "minimum": 3, "maximum": 12},
      "o": {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"],
            "additionalProperties": false}},
      "required": ["a", "s", "l", "d", "n", "m", "i"], "additionalProperties": false}}}])";
  const std::regex s("[ab<]?c"), l("[^\"\\\\]*"), d("[0-9]{4}-[0-9]{2}-[0-9]{2}"), n("[0-9]");
  for (const text::CallFamily& family : text::CallFamilies()) {
    SCOPED_TRACE(family.name);
    Request request = Asking(true, "f", tools);
    const auto holds = Hold(family.name, &request);
    ASSERT_TRUE(holds.ok()) << holds.status().message();
    const auto grammar = Compile(request);
    ASSERT_NE(grammar, nullptr);
    const text::Parsing parsing(family.name, "none", tools.c_str());
    for (uint32_t seed = 0; seed < 12; ++seed) {
      const std::string text = Draw(*grammar, seed, BeginOfCalls(family));
      const text::Taken taken = parsing.Take(std::vector<std::string_view>{text});
      ASSERT_EQ(taken.calls.size(), 1u) << text;
      const Json value = Json::parse(taken.calls[0].second, nullptr, false);
      ASSERT_TRUE(value.is_object()) << text << "\n" << taken.calls[0].second;
      const auto matches = [&](const char* name, const std::regex& regex) {
        return value.contains(name) && value[name].is_string() &&
               std::regex_match(value[name].get<std::string>(), regex);
      };
      const Json listed = {"x", " y", "a<b", "12"}, mixed = {"1", 2, "z", nullptr};
      EXPECT_NE(std::find(listed.begin(), listed.end(), value["a"]), listed.end()) << text;
      EXPECT_NE(std::find(mixed.begin(), mixed.end(), value["m"]), mixed.end()) << text;
      EXPECT_TRUE(matches("s", s) && matches("d", d)) << text;
      EXPECT_TRUE(matches("l", l)) << text;
      EXPECT_LE(CountUtf8(value["l"].get<std::string>()), 2u) << text;
      EXPECT_TRUE(value["n"].is_null() || matches("n", n)) << text;
      ASSERT_TRUE(value["i"].is_number_integer()) << text;
      EXPECT_TRUE(value["i"] >= 3 && value["i"] <= 12) << text;
      EXPECT_TRUE(!value.contains("o") || value["o"]["b"].is_boolean()) << text;
    }
  }
}

// Rewritten twice, a schema would lose what its first rewriting makes whole.
TEST_F(HoldToCallsTest, ArgumentsAreHeldToWhatTheSchemaSaysOfThem) {
  struct Case {
    const char* parameters;  // behind `"type": "object", `
    std::vector<const char*> fits, breaks;
  };
  const Case cases[] = {
      {R"("properties": {"c": {"type": "string", "pattern": "^[ab]{1,3}$"}}, "required": ["c"])",
       {R"({"c":"ab"})"},
       {R"({"c":"xaby"})", R"({"c":"abab"})", R"({"c":""})", R"({"c":"a","d":1})"}},
      {R"("properties": {"c": {"type": "string", "minLength": 2, "maxLength": 3}},
          "required": ["c"], "additionalProperties": false)",
       {R"({"c":"ab"})"},
       {R"({"c":"a"})", R"({"c":"abcd"})"}},
      {R"("properties": {"c": {"type": "string", "format": "uri"}}, "required": ["c"])",
       {R"({"c":"http://a.b/c"})"},
       {R"({"c":"no uri"})"}},
      {R"("properties": {"c": {"type": "string", "not": {"const": "x"}}}, "required": ["c"])",
       {R"({"c":"y"})", R"({"c":"xx"})"},
       {R"({"c":"x"})"}},
      {R"("properties": {"c": {"type": "integer"}}, "required": ["c"],
          "additionalProperties": {"type": "string"})",
       {R"({"c":1})", R"({"c":1,"d":"e"})"},
       {R"({"c":1,"d":2})", R"({"d":"e"})"}},
      {R"("properties": {"c": {"type": "integer"}}, "additionalProperties": true)",
       {R"({"d":1.5})", R"({"c":1,"d":[null]})"},
       {R"({"c":"1"})"}}};
  for (const Case& held : cases) {
    for (const char* strict : {"true", "false"}) {
      SCOPED_TRACE(std::string(held.parameters) + strict);
      Request request = Asking(
          true, "",
          std::string(R"([{"type": "function", "function": {"name": "f", )") + R"("strict": )" +
              strict + R"(, "parameters": {"type": "object", )" + held.parameters + "}}}]");
      const auto holds = Hold("hermes", &request);
      ASSERT_TRUE(holds.ok()) << holds.status().message();
      const auto grammar = Compile(request);
      ASSERT_NE(grammar, nullptr);
      const auto fits = [&](const char* arguments) {
        return text::Fits(*grammar, vocab_,
                          std::string("<tool_call>\n{\"name\": \"f\", \"arguments\": ") +
                              arguments + "}\n</tool_call>");
      };
      for (const char* arguments : held.fits) EXPECT_TRUE(fits(arguments)) << arguments;
      for (const char* arguments : held.breaks) EXPECT_FALSE(fits(arguments)) << arguments;
    }
  }
}

// What an argument's schema was rewritten to could not be rewritten once more.
TEST_F(HoldToCallsTest, ObjectsBetweenTagsAreHeldToWhatTheirSchemaSaysOfOtherNames) {
  Request request = Asking(true, "f", R"([{"type": "function", "function": {"name": "f",
      "strict": true, "parameters": {"type": "object", "properties": {"o": {"$ref": "#/$defs/o"}},
      "required": ["o"], "$defs": {"o": {"type": "object", "properties": {"b": {"enum": [1.5]}},
      "required": ["b"], "additionalProperties": {"$ref": "#/$defs/s"}},
      "s": {"type": "string", "pattern": "^[xy]$"}}}}}])");
  ASSERT_TRUE(*Hold("seed_oss", &request));
  const auto grammar = Compile(request);
  ASSERT_NE(grammar, nullptr);
  const auto fits = [&](std::string_view value) {
    return text::Fits(*grammar, vocab_,
                      StrCat("<seed:tool_call>\n<function=f>\n<parameter=o>", value,
                             "</parameter>\n</function>\n</seed:tool_call>"));
  };
  EXPECT_TRUE(fits(R"({"b":1.5})"));
  EXPECT_TRUE(fits(R"({"b":1.5,"c":"x"})"));
  EXPECT_FALSE(fits(R"({"b":1.5,"c":"z"})"));
  EXPECT_FALSE(fits(R"({"b":1.5,"b":"x"})"));
  EXPECT_FALSE(fits(R"({"b":2})"));
}

// Two strings of text may stand for a value; a parser that cannot tell them from JSON gets neither.
TEST_F(HoldToCallsTest, ArgumentsBetweenTagsThatAParserCannotTellAreNamed) {
  const auto refusal = [&](std::string_view family, std::string_view schema) {
    Request request =
        Asking(true, "f",
               StrCat(R"([{"type": "function", "function": {"name": "f", "strict": true,
        "parameters": )",
                      schema, "}}]"));
    const auto held = Hold(family, &request);
    return held.ok() ? "" : held.status().message();
  };
  const auto with = [](std::string_view part) {
    return StrCat(R"({"type": "object", "properties": {"a": )", part, "}}");
  };
  EXPECT_THAT(refusal("qwen3_coder", with(R"({"pattern": "a", "not": {"type": ["null", "boolean",
    "number", "array", "object"]}})")),
              HasSubstr("the property \"a\" has strings that cannot be told"));
  EXPECT_THAT(refusal("qwen3_coder", with(R"({"type": "string", "pattern": "^<$"})")),
              HasSubstr("cannot be written"));
  // As the same schema is refused where it stands alone.
  EXPECT_THAT(refusal("qwen3_coder", with(R"({"enum": ["1", 1], "not": {"const": "1"}})")),
              HasSubstr("is not supported beside const or enum"));
  EXPECT_THAT(refusal("seed_oss", with(R"({"type": "object", "properties": {
                  "b": {"enum": ["x", "</parameter>"]}}})")),
              HasSubstr("lists a text with </parameter>"));
  EXPECT_THAT(refusal("glm45", R"({"type": "array"})"), HasSubstr("no one object"));
  EXPECT_EQ(refusal("seed_oss", with(R"({"enum": ["</b>"]})")), "");
  EXPECT_EQ(refusal("hermes", R"({"type": "object"})"), "");
  EXPECT_EQ(refusal("glm45", R"({"type": "object"})"), "");
  EXPECT_EQ(refusal("deepseek_v32", R"({"type": "object"})"), "");
  EXPECT_EQ(refusal("minimax_m2", with(R"({"type": ["string", "integer"]})")), "");
}

// What is made of tools between tags is much longer than they are.
TEST_F(HoldToCallsTest, ManyToolsBetweenTagsAreHeldTo) {
  std::string tools = "[";
  for (int i = 0; i < 128; ++i) {
    tools += StrCat(i == 0 ? "" : ",", R"({"type": "function", "function": {"name": "f)", i,
                    R"(", "strict": true, "parameters": {"type": "object", "properties": {
                    "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "boolean"},
                    "d": {"type": "array", "items": {"type": "string"}}},
                    "additionalProperties": false}}})");
  }
  for (const char* family : {"qwen3_coder", "glm45", "hermes"}) {
    Request request = Asking(true, {}, tools + "]");
    const auto held = Hold(family, &request);
    ASSERT_TRUE(held.ok()) << family << held.status().message();
    const auto rewritten = text::RewriteStructuralTag(request.grammar.text, /*closed=*/true);
    EXPECT_TRUE(rewritten.ok()) << family << rewritten.status().message();
  }
}

// Each of many arguments refers to the same large part.
TEST_F(HoldToCallsTest, PartsThatArgumentsShareAreCopiedSoOftenAndNoMore) {
  std::string part = R"({"type": "object", "properties": {)", properties;
  for (int i = 0; i < 900; ++i)
    part += StrCat(i == 0 ? "" : ",", R"("p)", i, R"(": {"type": "integer"})");
  for (int i = 0; i < 900; ++i)
    properties += StrCat(i == 0 ? "" : ",", R"("a)", i,
                         R"(": {"type": "array", "items": {"$ref": "#/$defs/o"}})");
  Request request = Asking(
      true, "f",
      StrCat(R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {
             "type": "object", "$defs": {"o": )",
             part, R"(}}}, "properties": {)", properties, "}}}}]"));
  const auto held = Hold("qwen3_coder", &request);
  ASSERT_FALSE(held.ok());
  EXPECT_THAT(
      held.status().message(),
      HasSubstr("refers, with the properties before it, to parts of more than 262144 values"));
}

// What the grammar lets through for a schema, the parser gives back as a value that fits it.
TEST_F(HoldToCallsTest, ValuesBetweenTagsAreOfTheKindsThatTheirSchemasPermit) {
  struct Case {
    const char* schema;
    std::vector<Json> values;
  };
  const Case cases[] = {
      {R"({"anyOf": [{"type": "string", "enum": ["12", "true"]}, {"type": "null"}]})",
       {"12", "true", nullptr}},
      {R"({"type": ["string", "null"], "enum": ["12", "true", null]})", {"12", "true", nullptr}},
      {R"({"$ref": "#/$defs/E"})", {"1", "2"}},
      {R"({"const": "12"})", {"12"}},
      {R"({"enum": ["12", 12, 5]})", {"12", 5}},
      {R"({"allOf": [{"type": "string", "enum": ["1", "false"]}]})", {"1", "false"}},
      {R"({"enum": [1, 2.5, false]})", {1, 2.5, false}}};
  for (const char* family : {"qwen3_coder", "seed_oss", "glm45", "minimax_m2"}) {
    for (const Case& held : cases) {
      SCOPED_TRACE(std::string(family) + held.schema);
      const std::string tools =
          std::string(R"([{"type": "function", "function": {"name": "f", "strict": true,
            "parameters": {"type": "object", "properties": {"c": )") +
          held.schema + R"(}, "required": ["c"], "additionalProperties": false,
            "$defs": {"E": {"type": "string", "enum": ["1", "2"]}}}}}])";
      Request request = Asking(true, "f", tools);
      const auto holds = Hold(family, &request);
      ASSERT_TRUE(holds.ok()) << holds.status().message();
      const auto grammar = Compile(request);
      ASSERT_NE(grammar, nullptr);
      const text::Parsing parsing(family, "none", tools);
      std::set<std::string> seen;
      for (uint32_t seed = 0; seed < 24; ++seed) {
        const std::string text = Draw(*grammar, seed);
        const text::Taken taken = parsing.Take(std::vector<std::string_view>{text});
        ASSERT_EQ(taken.calls.size(), 1u) << text;
        const Json arguments = Json::parse(taken.calls[0].second, nullptr, false);
        ASSERT_TRUE(arguments.is_object()) << taken.calls[0].second;
        EXPECT_NE(std::find(held.values.begin(), held.values.end(), arguments["c"]),
                  held.values.end())
            << text;
        seen.insert(arguments.dump());
      }
      EXPECT_GT(seen.size(), held.values.size() > 1 ? 1u : 0u);
    }
    Request request = Asking(true, "f", R"([{"type": "function", "function": {"name": "f",
        "strict": true, "parameters": {"type": "object", "properties": {
        "c": {"enum": ["x", "</parameter></arg_value>"]}}}}}])");
    const auto refused = Hold(family, &request);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), HasSubstr("enum that lists a text with </"));
  }
}

// What a grammar of another form lets through, and what its parser makes of it.
TEST_F(HoldToCallsTest, FormsOfTheirOwnHoldWhatTheyCanWrite) {
  struct Case {
    const char* family;
    std::string text;
    const char* arguments;  // null: the grammar does not let it through
  };
  const std::string call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>";
  const std::string lfm = "<|tool_call_start|>[f(", lfm_end = ")]<|tool_call_end|>";
  const std::string gemma = "<|tool_call>call:f{", gemma_end = "}<tool_call|>";
  const std::string function = "<start_function_call>call:f{",
                    function_end = "}<end_function_call>";
  const Case cases[] = {
      {"llama_pythonic", "[f(s=\"it's\", b=True, n=None, l=['x', True, None, 1.5])]",
       R"({"s": "it's", "b": true, "n": null, "l": ["x", true, null, 1.5]})"},
      {"llama_pythonic", R"([f(s='\'a"\n\u00e9', n=-1e5, o={'k k': 3, "z": False})])",
       R"({"s": "'a\"\né", "n": -1e5, "o": {"k k": 3, "z": false}})"},
      {"llama_pythonic", "[f(s='', b=true)]", nullptr},
      {"llama_pythonic", "[f(b=True)]", nullptr},
      {"llama_pythonic", "[f(s='', o={'k k': True})]", nullptr},
      {"llama_pythonic", "[f(s='', l=['y'])]", nullptr},
      {"llama_pythonic", R"([f(s='\x41')])", nullptr},
      {"lfm2", lfm + "s=\"a, b)\"" + lfm_end, R"j({"s": "a, b)"})j"},
      {"lfm2", lfm + "s='a', n=" + std::string(400, '7') + lfm_end,
       R"({"s": "a", "n": 7.777777777777777e399})"},
      {"gemma4", gemma + "s:<|\"|>a < \"b\"\n\\<|<|\"|>,b:true,n:null" + gemma_end,
       R"({"s": "a < \"b\"\n\\<|", "b": true, "n": null})"},
      {"gemma4",
       gemma + "s:<|\"|><|\"|>,l:[<|\"|>x<|\"|>,true,1.5],o:{<|\"|>k k<|\"|>:3," +
           "<|\"|>z\xC3\xA9<|\"|>:false}" + gemma_end,
       R"({"s": "", "l": ["x", true, 1.5], "o": {"k k": 3, "zé": false}})"},
      {"gemma4", gemma + "s:\"a\"" + gemma_end, nullptr},
      {"gemma4", gemma + "s:<|\"|>a<|\"|>b<|\"|>" + gemma_end, nullptr},
      {"gemma4", gemma + "s:<|\"|><|\"|>,o:{<|\"|>a:b<|\"|>:true}" + gemma_end, nullptr},
      {"functiongemma", function + "s:<escape>a<b<escape>,o:{}" + function_end,
       R"({"s": "a<b", "o": {}})"},
      {"harmony", call + R"({"s":"a<b < <\n|","b":true})", R"({"s": "a<b < <\n|", "b": true})"},
      {"harmony", call + R"({"s":"<|end|>"})", nullptr},
      {"harmony", call + R"({"s":"<<|"})", nullptr},
      {"harmony", call + R"({"s":"\u003c|end|>"})", R"({"s": "<|end|>"})"},
      {"harmony",
       "<|channel|>analysis<|message|>I <b>think</b>.<|end|><|start|>assistant" + call +
           R"({"s":""})",
       R"({"s": ""})"},
      {"harmony", "<|channel|>final<|message|>No.", nullptr}};
  for (const Case& held : cases) {
    SCOPED_TRACE(std::string(held.family) + held.text);
    Request request = Asking(true, "f", kFormTools);
    const auto holds = Hold(held.family, &request);
    ASSERT_TRUE(holds.ok()) << holds.status().message();
    const auto grammar = Compile(request);
    ASSERT_NE(grammar, nullptr);
    EXPECT_EQ(text::Fits(*grammar, vocab_, held.text), held.arguments != nullptr);
    if (held.arguments == nullptr) continue;
    const text::Parsing parsing(held.family, "none", kFormTools);
    const text::Taken taken = parsing.Take(std::vector<std::string_view>{held.text});
    ASSERT_EQ(taken.calls.size(), 1u);
    const Json expected = Json::parse(held.arguments, nullptr, false);
    if (expected.is_discarded()) {  // a number that no double holds
      EXPECT_THAT(taken.calls[0].second, HasSubstr(std::string(400, '7')));
    } else {
      EXPECT_EQ(Json::parse(taken.calls[0].second, nullptr, false), expected)
          << taken.calls[0].second;
    }
  }
}

TEST_F(HoldToCallsTest, StrictToolsOfFormsOfTheirOwnLeaveTheAnswerToBeText) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}])";
  struct Case {
    const char* family;
    std::vector<std::string> fit, break_;
  };
  const std::string call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>";
  const std::string think = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  const Case cases[] = {
      {"llama_pythonic",
       {"It is [noon].", "[f(a=1)]", "[f(a=1), f(a=2)]"},
       {"[f(a='1')]", "[f()]", "[noon]", "No <|python_start|>"}},
      {"lfm2",
       {"It is [noon].", "Well. <|tool_call_start|>[f(a=1)]<|tool_call_end|>"},
       {"<|tool_call_start|>[f()]<|tool_call_end|>"}},
      {"gemma4",
       {"It is {noon}.",
        "So: <|tool_call>call:f{a:1}<tool_call|><|tool_call>call:f{a:2}<tool_call|>"},
       {"<|tool_call>call:f{}<tool_call|>"}},
      {"functiongemma",
       {"It is.", "<start_function_call>call:f{a:1}<end_function_call>"},
       {"<start_function_call>call:f{a:<escape>1<escape>}<end_function_call>"}},
      {"harmony",
       {think + "<|channel|>final<|message|>Yes.", call + "{\"a\":1}", think + call + "{\"a\":1}",
        think + "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + call +
            "{\"a\":1}"},
       {call + "{}", "Yes.", think}}};
  for (const Case& held : cases) {
    Request request = Asking(false, "", tools);
    ASSERT_TRUE(*Hold(held.family, &request));
    const auto grammar = Compile(request);
    ASSERT_NE(grammar, nullptr);
    for (const auto& text : held.fit) {
      EXPECT_TRUE(text::Fits(*grammar, vocab_, text)) << held.family << text;
    }
    for (const auto& text : held.break_) {
      EXPECT_FALSE(text::Fits(*grammar, vocab_, text)) << held.family << text;
    }
  }
}

TEST_F(HoldToCallsTest, WhatAFormCannotWriteIsNamed) {
  const auto refusal = [&](const char* family, const std::string& schema) {
    Request request = Asking(true, "",
                             StrCat(R"([{"function": {"name": "f", "strict": true,
        "parameters": )",
                                    schema, "}}]"));
    const auto held = Hold(family, &request);
    return held.ok() ? "" : held.status().message();
  };
  const auto with = [](std::string_view name, std::string_view part) {
    return StrCat(R"({"type": "object", "properties": {")", name, R"(": )", part, "}}");
  };
  EXPECT_THAT(refusal("lfm2", with("a b", "true")), HasSubstr("has a name that is no argument's"));
  EXPECT_THAT(refusal("lfm2", R"({"type": "object", "propertyNames": {"pattern": "^a"}})"),
              HasSubstr("propertyNames"));
  EXPECT_THAT(refusal("lfm2", R"({"type": "array"})"), HasSubstr("no object"));
  EXPECT_THAT(refusal("gemma4", with("a:b", "true")), HasSubstr("a colon"));
  EXPECT_THAT(refusal("functiongemma", with("a", R"({"const": "<escape>"})")),
              HasSubstr("has <escape> in it"));
  EXPECT_THAT(refusal("gemma4", with("a", R"({"type": "string", "pattern": "^<$"})")),
              HasSubstr("cannot be written"));
  EXPECT_EQ(refusal("gemma4", with("a b", R"({"const": {"b": ["<"]}})")), "");
  EXPECT_EQ(refusal("harmony", with("a", R"({"const": "<|end|>"})")), "");
  EXPECT_EQ(refusal("harmony", R"({"const": {"a": 1}})"), "");
  EXPECT_EQ(refusal("lfm2", R"({"enum": [{"a": 1}, 2]})"), "");
}

TEST_F(HoldToCallsTest, NothingIsHeldWhereNothingAsksForIt) {
  Request request = Asking(false);
  EXPECT_FALSE(*Hold("hermes", &request));
  EXPECT_EQ(request.grammar.kind, Grammar::Kind::kNone);
  EXPECT_FALSE(*Hold("harmony", &request));
}

TEST_F(HoldToCallsTest, WhatCannotBeHeldToIsNamed) {
  const auto refusal = [&](Request request, const char* family = "hermes") {
    const auto held = Hold(family, &request);
    EXPECT_EQ(held.status().code(), StatusCode::kInvalidArgument);
    return held.status().message();
  };
  EXPECT_THAT(refusal(Asking(true, "then")), HasSubstr("not among tools"));
  EXPECT_THAT(refusal(Asking(true, "", "")), HasSubstr("there are no tools"));
  EXPECT_THAT(refusal(Asking(true), "none"), HasSubstr("--tool-parser"));
  EXPECT_THAT(refusal(Asking(true, "", R"([{"function": {"name": "a\"b"}}])")),
              HasSubstr("has a name"));
  Request both = Asking(true);
  both.choice = {"yes"};
  EXPECT_THAT(refusal(both), HasSubstr("send one of them"));
  const std::string unheld = R"("parameters": {"type": "array", "uniqueItems": true}}}])";
  EXPECT_THAT(
      refusal(Asking(false, "", R"([{"function": {"name": "f", "strict": true, )" + unheld)),
      HasSubstr("uniqueItems"));
  // A tool that is not strict may then have any arguments.
  Request loose = Asking(true, "", R"([{"function": {"name": "f", )" + unheld);
  EXPECT_TRUE(*Hold("hermes", &loose));
  EXPECT_THAT(loose.grammar.text, HasSubstr(R"("json_schema":{"type":"object"})"));
}

}  // namespace
}  // namespace sluice::engine
