// Bodies of the two endpoints: every wrong one is refused with its status and the field's name.
#include "server/shared/api_call.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"

namespace sluice::server {
namespace {

const ModelFacts kModel{"tiny", 1000};
const ModelFacts kIdsAlone{"tiny", 1000, {}, /*ids_alone=*/true};
constexpr const char* kMessages = R"("messages":[{"role":"user","content":"hi"}])";

// A field added to a body that is right otherwise.
struct Case {
  const char* field;
  const char* param;
};

// Of both endpoints.
constexpr Case kSharedBad[] = {
    {R"("n":0)", "n"},
    {R"("n":17)", "n"},
    {R"("n":1.5)", "n"},
    {R"("n":"1")", "n"},
    {R"("n":true)", "n"},
    {R"("n":[1])", "n"},
    {R"("n":{})", "n"},
    {R"("n":-1)", "n"},
    {R"("n":1e18)", "n"},
    {R"("n":99999999999999999999999)", "n"},
    {R"("max_tokens":-2)", "max_tokens"},
    {R"("max_tokens":2147483648)", "max_tokens"},
    {R"("max_tokens":"5")", "max_tokens"},
    {R"("max_tokens":false)", "max_tokens"},
    {R"("max_tokens":0.5)", "max_tokens"},
    {R"("max_completion_tokens":-2)", "max_completion_tokens"},
    {R"("max_tokens":5,"max_completion_tokens":6)", "max_completion_tokens"},
    {R"("n_predict":-2)", "n_predict"},
    {R"("n_predict":4,"max_tokens":5)", "n_predict"},
    {R"("min_tokens":-1)", "min_tokens"},
    {R"("temperature":-0.1)", "temperature"},
    {R"("temperature":101)", "temperature"},
    {R"("temperature":"1")", "temperature"},
    {R"("temperature":true)", "temperature"},
    {R"("temperature":[])", "temperature"},
    {R"("temperature":{})", "temperature"},
    {R"("top_p":-1)", "top_p"},
    {R"("top_p":1.1)", "top_p"},
    {R"("top_p":"0.5")", "top_p"},
    {R"("top_k":1.5)", "top_k"},
    {R"("top_k":"40")", "top_k"},
    {R"("top_k":4294967296)", "top_k"},
    {R"("min_p":-0.1)", "min_p"},
    {R"("min_p":2)", "min_p"},
    {R"("repetition_penalty":0)", "repetition_penalty"},
    {R"("repetition_penalty":-1)", "repetition_penalty"},
    {R"("repeat_penalty":0)", "repeat_penalty"},
    {R"("repeat_penalty":1.1,"repetition_penalty":1.2)", "repeat_penalty"},
    {R"("presence_penalty":2.1)", "presence_penalty"},
    {R"("presence_penalty":null,"frequency_penalty":-3)", "frequency_penalty"},
    {R"("frequency_penalty":"0")", "frequency_penalty"},
    {R"("no_repeat_ngram_size":-1)", "no_repeat_ngram_size"},
    {R"("no_repeat_ngram_size":2147483647)", "no_repeat_ngram_size"},
    {R"("seed":1.5)", "seed"},
    {R"("seed":"7")", "seed"},
    {R"("seed":true)", "seed"},
    {R"("seed":1e30)", "seed"},
    {R"("logit_bias":[])", "logit_bias"},
    {R"("logit_bias":{"a":1})", "logit_bias"},
    {R"("logit_bias":{"-1":1})", "logit_bias"},
    {R"("logit_bias":{"01":1})", "logit_bias"},
    {R"("logit_bias":{"00":1})", "logit_bias"},
    {R"("logit_bias":{"1000":1})", "logit_bias"},
    {R"("logit_bias":{"99999999999999999999":1})", "logit_bias"},
    {R"("logit_bias":{"1":101})", "logit_bias"},
    {R"("logit_bias":{"1":"1"})", "logit_bias"},
    {R"("logit_bias":{"1":null})", "logit_bias"},
    {R"("stop":1)", "stop"},
    {R"("stop":"")", "stop"},
    {R"("stop":[""])", "stop"},
    {R"("stop":[1])", "stop"},
    {R"("stop":{"a":"b"})", "stop"},
    {R"("stop":[["a"]])", "stop"},
    {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
     "stop"},
    {R"("stop_token_ids":"1")", "stop_token_ids"},
    {R"("stop_token_ids":[1000])", "stop_token_ids"},
    {R"("stop_token_ids":[-1])", "stop_token_ids"},
    {R"("stop_token_ids":[1.5])", "stop_token_ids"},
    {R"("stop_token_ids":["1"])", "stop_token_ids"},
    {R"("stop_token_ids":[true])", "stop_token_ids"},
    {R"("include_stop_str_in_output":1)", "include_stop_str_in_output"},
    {R"("skip_special_tokens":"false")", "skip_special_tokens"},
    {R"("ignore_eos":0)", "ignore_eos"},
    {R"("stream":"true")", "stream"},
    {R"("stream":1)", "stream"},
    {R"("stream_options":{"include_usage":true})", "stream_options"},
    {R"("stream":false,"stream_options":{})", "stream_options"},
    {R"("stream":true,"stream_options":[])", "stream_options"},
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
    {R"("stream":true,"stream_options":{"other":true})", "stream_options.other"},
    {R"("prompt_logprobs":21)", "prompt_logprobs"},
    {R"("prompt_logprobs":-1)", "prompt_logprobs"},
    {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
    {R"("priority":101)", "priority"},
    {R"("priority":"high")", "priority"},
    {R"("cache_salt":1)", "cache_salt"},
    {R"("response_format":"text")", "response_format"},
    {R"("response_format":{})", "response_format.type"},
    {R"("response_format":{"type":"yaml"})", "response_format.type"},
    {R"("response_format":{"type":"json_object","schema":1})", "response_format.schema"},
    {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
    {R"("response_format":{"type":"json_schema","json_schema":{}})",
     "response_format.json_schema.schema"},
    {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"strict":1}})",
     "response_format.json_schema.strict"},
    {R"("response_format":{"type":1})", "response_format.type"},
    {R"("response_format":{"type":"text","schema":{}})", "response_format.schema"},
    {R"("user":1)", "user"},
    {R"("store":"yes")", "store"},
    {R"("metadata":[])", "metadata"},
    {R"("mirostat":2)", "mirostat"},
    {R"("typical_p":0.5)", "typical_p"},
    {R"("top_n_sigma":18446744073709551615)", "top_n_sigma"},
    {R"("dry_multiplier":0.8)", "dry_multiplier"},
    {R"("use_beam_search":1)", "use_beam_search"},
    {R"("beam_width":4)", "beam_width"},
    {R"("length_penalty":2)", "length_penalty"},
    {R"("early_stopping":true)", "early_stopping"},
    {R"("use_beam_search":true,"n":9)", "n"},
    {R"("use_beam_search":true,"beam_width":0)", "beam_width"},
    {R"("use_beam_search":true,"beam_width":9)", "beam_width"},
    {R"("use_beam_search":true,"beam_width":1.5)", "beam_width"},
    {R"("use_beam_search":true,"beam_width":"4")", "beam_width"},
    {R"("use_beam_search":true,"beam_width":[])", "beam_width"},
    {R"("use_beam_search":true,"beam_width":[4,"4"])", "beam_width"},
    {R"("use_beam_search":true,"beam_width":{})", "beam_width"},
    {R"("use_beam_search":true,"length_penalty":11)", "length_penalty"},
    {R"("use_beam_search":true,"length_penalty":"1")", "length_penalty"},
    {R"("use_beam_search":true,"early_stopping":"always")", "early_stopping"},
    {R"("min_tokens":2,"min_new_tokens":3)", "min_new_tokens"},
    {R"("min_new_tokens":-1)", "min_new_tokens"},
    {R"("grammar":["root ::= a"])", "grammar"},
    {R"("guided_json":1)", "guided_json"},
    {R"("regex":{})", "regex"},
    {R"("guided_regex":"a","regex":"b")", "regex"},
    {R"("guided_whitespace_pattern":" ?")", "guided_whitespace_pattern"},
    {R"("guided_choice":"a")", "guided_choice"},
    {R"("guided_choice":[])", "guided_choice"},
    {R"("guided_choice":["a",1])", "guided_choice"},
    {R"("structured_outputs":["a"])", "structured_outputs"},
    {R"("structured_outputs":{"choice":[null]})", "structured_outputs.choice"},
    {R"("structured_outputs":{"json_object":"yes"})", "structured_outputs.json_object"},
    {R"("structured_outputs":{"json":{},"regex":"b"})", "structured_outputs.regex"},
    {R"("structured_outputs":{"choices":["a"]})", "structured_outputs.choices"},
    {R"("structured_outputs":{"choice":["a"]},"guided_choice":["b"])", "guided_choice"},
    {R"("best":1)", "best"},
    {R"("Temperature":1)", "Temperature"},
    {R"("":1)", ""},
    {R"("model":1)", "model"},
};

constexpr Case kChatBad[] = {
    {R"("prediction":"a")", "prediction"},
    {R"("prediction":{})", "prediction.type"},
    {R"("prediction":{"type":"text","content":"a"})", "prediction.type"},
    {R"("prediction":{"type":"content"})", "prediction.content"},
    {R"("prediction":{"type":"content","content":1})", "prediction.content"},
    {R"("prediction":{"type":"content","content":[{"type":"image_url"}]})",
     "prediction.content[0].type"},
    {R"("prediction":{"type":"content","content":"a","more":1})", "prediction.more"},
    {R"("max_tokens":0)", "max_tokens"},
    {R"("logprobs":1)", "logprobs"},
    {R"("logprobs":"true")", "logprobs"},
    {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
    {R"("logprobs":true,"top_logprobs":-1)", "top_logprobs"},
    {R"("top_logprobs":2)", "top_logprobs"},
    {R"("tools":{})", "tools"},
    {R"("tools":[1])", "tools[0]"},
    {R"("tools":[{}])", "tools[0].type"},
    {R"("tools":[{"type":"retrieval"}])", "tools[0].type"},
    {R"("tools":[{"type":"function"}])", "tools[0].function"},
    {R"("tools":[{"type":"function","function":[]}])", "tools[0].function"},
    {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
    {R"("tools":[{"type":"function","function":{"name":""}}])", "tools[0].function.name"},
    {R"("tools":[{"type":"function","function":{"name":"f","parameters":1}}])",
     "tools[0].function.parameters"},
    {R"("tools":[{"type":"function","function":{"name":"f","pattern":1}}])",
     "tools[0].function.pattern"},
    {R"("tool_choice":"required")", "tool_choice"},
    {R"("tool_choice":{"type":"function","function":{}})", "tool_choice.function"},
    {R"("tool_choice":1)", "tool_choice"},
    {R"("parallel_tool_calls":"yes")", "parallel_tool_calls"},
    {R"("functions":[])", "functions"},
    {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
    {R"("chat_template_kwargs":{"chat_template":"x"})", "chat_template_kwargs"},
    {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs"},
    {R"("chat_template_kwargs":{"tokenize":false})", "chat_template_kwargs"},
    {R"("chat_template":"{{ 1 }}")", "chat_template"},
    {R"("continue_final_message":1)", "continue_final_message"},
    {R"("continue_final_message":true,"add_generation_prompt":true)", "add_generation_prompt"},
    {R"("modalities":["audio"])", "modalities"},
    {R"("audio":{})", "audio"},
    {R"("echo":true)", "echo"},
    {R"("prompt":"hi")", "prompt"},
};

// Whole values of `messages`.
constexpr Case kMessagesBad[] = {
    {"null", "messages"},
    {"[]", "messages"},
    {"{}", "messages"},
    {R"("hi")", "messages"},
    {"[1]", "messages[0]"},
    {"[[]]", "messages[0]"},
    {"[null]", "messages[0]"},
    {"[{}]", "messages[0].role"},
    {R"([{"role":1,"content":"a"}])", "messages[0].role"},
    {R"([{"role":"admin","content":"a"}])", "messages[0].role"},
    {R"([{"role":"user"}])", "messages[0].content"},
    {R"([{"role":"user","content":null}])", "messages[0].content"},
    {R"([{"role":"user","content":1}])", "messages[0].content"},
    {R"([{"role":"user","content":{}}])", "messages[0].content"},
    {R"([{"role":"user","content":[1]}])", "messages[0].content[0]"},
    {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]"},
    {R"([{"role":"user","content":[{}]}])", "messages[0].content[0].type"},
    {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
    {R"([{"role":"user","content":[{"type":"text","text":1}]}])", "messages[0].content[0].text"},
    {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
     "messages[0].content[0].type"},
    {R"([{"role":"user","content":"a","surprise":1}])", "messages[0].surprise"},
    {R"([{"role":"user","content":"a","name":1}])", "messages[0].name"},
    {R"([{"role":"user","content":"a"},{"role":"assistant","tool_calls":{}}])",
     "messages[1].tool_calls"},
    {R"([{"role":"assistant","tool_calls":[1]}])", "messages[0].tool_calls[0]"},
    {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"},
    {R"([{"role":"assistant","tool_calls":[{"function":{}}]}])",
     "messages[0].tool_calls[0].function.name"},
    {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":1}}]}])",
     "messages[0].tool_calls[0].function.arguments"},
    {R"([{"role":"tool","content":"a","tool_call_id":1}])", "messages[0].tool_call_id"},
};

constexpr Case kCompletionBad[] = {
    {R"("logprobs":true)", "logprobs"},
    {R"("logprobs":21)", "logprobs"},
    {R"("echo":1)", "echo"},
    {R"("best_of":0)", "best_of"},
    {R"("best_of":17)", "best_of"},
    {R"("best_of":true)", "best_of"},
    {R"("n":3,"best_of":2)", "best_of"},
    {R"("best_of":2,"stream":true)", "best_of"},
    {R"("use_beam_search":true,"beam_width":4,"best_of":2)", "best_of"},
    {R"("suffix":"end")", "suffix"},
    {R"("messages":[])", "messages"},
    {R"("stream":true,"echo":true,"logprobs":1,"n":2)", "n"},
};

constexpr Case kPromptBad[] = {
    {"null", "prompt"},
    {"1", "prompt"},
    {"true", "prompt"},
    {"{}", "prompt"},
    {"[]", "prompt"},
    {R"("")", "prompt"},
    {R"(["a",""])", "prompt"},
    {"[[]]", "prompt"},
    {"[true]", "prompt"},
    {"[null]", "prompt"},
    {"[1000]", "prompt"},
    {"[-1]", "prompt"},
    {"[1,1.5]", "prompt"},
    {"[1,\"a\"]", "prompt"},
    {"[\"a\",1]", "prompt"},
    {"[1e300]", "prompt"},
    {"[[1],[2,\"a\"]]", "prompt"},
    {"[[[1]]]", "prompt"},
};

void ExpectBad(const Result<ApiCall>& call, const std::string& body, const std::string& param) {
  ASSERT_FALSE(call.ok()) << body;
  EXPECT_EQ(call.status().code(), StatusCode::kInvalidArgument) << body;
  EXPECT_EQ(call.status().field(), param) << body << " " << call.status().message();
  EXPECT_FALSE(call.status().message().empty());
}

TEST(ApiCallTest, AnAnswerMayGoOnWithTheLastMessage) {
  const auto open = [](const std::string& first, const std::string& last,
                       const std::string& field) {
    const auto call =
        ParseChatCall(R"({"messages":[{"role":"user","content":"a")" + first +
                          R"(},{"role":"assistant","content":"b")" + last + "}]" + field + "}",
                      kModel);
    if (!call.ok()) return call.status().field();
    const auto& prompt = std::get<ChatPrompt>(call->requests.at(0).prompt);
    return std::string(prompt.continue_final_message ? "open" : "ended");
  };
  EXPECT_EQ(open("", "", ""), "ended");
  EXPECT_EQ(open("", "", R"(,"continue_final_message":true)"), "open");
  EXPECT_EQ(open("", "", R"(,"continue_final_message":true,"add_generation_prompt":false)"),
            "open");
  // Mistral's and Qwen's spellings.
  EXPECT_EQ(open("", R"(,"prefix":true)", ""), "open");
  EXPECT_EQ(open("", R"(,"partial":true)", ""), "open");
  EXPECT_EQ(open("", R"(,"prefix":false)", ""), "ended");
  EXPECT_EQ(open(R"(,"prefix":true)", "", ""), "messages[0].prefix");
  EXPECT_EQ(open("", R"(,"partial":1)", ""), "messages[1].partial");
}

TEST(ApiCallTest, RefusesEveryWrongFieldOfAChat) {
  for (const Case& c : kSharedBad) {
    const std::string body = StrCat("{", kMessages, ",", c.field, "}");
    ExpectBad(ParseChatCall(body, kModel), body, c.param);
  }
  for (const Case& c : kChatBad) {
    const std::string body = StrCat("{", kMessages, ",", c.field, "}");
    ExpectBad(ParseChatCall(body, kModel), body, c.param);
  }
  for (const Case& c : kMessagesBad) {
    const std::string body = StrCat("{\"messages\":", c.field, "}");
    ExpectBad(ParseChatCall(body, kModel), body, c.param);
  }
  ExpectBad(ParseChatCall("{}", kModel), "{}", "messages");
}

TEST(ApiCallTest, RefusesEveryWrongFieldOfACompletion) {
  for (const Case& c : kSharedBad) {
    const std::string body = StrCat("{\"prompt\":\"a\",", c.field, "}");
    ExpectBad(ParseCompletionCall(body, kModel), body, c.param);
  }
  for (const Case& c : kCompletionBad) {
    const std::string body = StrCat("{\"prompt\":\"a\",", c.field, "}");
    ExpectBad(ParseCompletionCall(body, kModel), body, c.param);
  }
  for (const Case& c : kPromptBad) {
    const std::string body = StrCat("{\"prompt\":", c.field, "}");
    ExpectBad(ParseCompletionCall(body, kModel), body, c.param);
  }
}

TEST(ApiCallTest, RefusesWhatIsNotAnObjectOfBoundedJson) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  std::string wide = "{\"messages\":1";
  for (int i = 0; i < 2000; ++i) wide += StrCat(",\"k", i, "\":1");
  wide += "}";
  for (const std::string& body :
       {std::string(), std::string("hi"), std::string("[]"), std::string("null"), std::string("1"),
        std::string("{\"a\":}"), std::string("{\"temperature\":NaN}"),
        std::string("{\"temperature\":1e999}"), std::string("{\"temperature\":Infinity}"),
        std::string("{\"n\":1,\"n\":2}"), std::string("{\"prompt\":\"\xff\xfe\"}"),
        std::string("{\"prompt\":\"a\"} x"), std::string("{\"prompt\":\"\\ud800\"}"),
        std::string("{\"prompt\":\"a") + '\0' + "\"}", std::string(100'000, '['), deep,
        "{\"prompt\":" + deep + "}", "{\"metadata\":" + std::string(100'000, '{'), wide}) {
    const std::string shown = body.substr(0, 60);
    ExpectBad(ParseChatCall(body, kModel), shown, "");
    ExpectBad(ParseCompletionCall(body, kModel), shown, "");
  }
}

TEST(ApiCallTest, CountsPromptsMessagesAndAnswers) {
  const auto list = [](const std::string& item, int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + item;
    return text + "]";
  };
  const auto prompts = [&](int count, int n) {
    return ParseCompletionCall(StrCat("{\"prompt\":", list("\"a\"", count), ",\"n\":", n, "}"),
                               kModel);
  };
  EXPECT_TRUE(prompts(64, 2).ok());
  EXPECT_EQ(prompts(65, 1).status().field(), "prompt");
  EXPECT_EQ(prompts(64, 3).status().field(), "n");
  const auto messages = [&](int count) {
    return ParseChatCall(
        StrCat("{\"messages\":", list(R"({"role":"user","content":"a"})", count), "}"), kModel);
  };
  EXPECT_TRUE(messages(2048).ok());
  EXPECT_EQ(messages(2049).status().field(), "messages");
  EXPECT_EQ(messages(2049).status().message(), "messages has more items than the limit of 2048");
  const auto stop = [&](int bytes) {
    return ParseCompletionCall(
        StrCat("{\"prompt\":\"a\",\"stop\":\"", std::string(bytes, 'x'), "\"}"), kModel);
  };
  EXPECT_TRUE(stop(256).ok());
  EXPECT_EQ(stop(257).status().field(), "stop");
}

// What stands behind the first item too many is never read: it is no JSON.
TEST(ApiCallTest, ABodyIsRefusedAtTheFirstItemTooMany) {
  for (const auto& [name, limit] : {std::pair("messages", 2048), std::pair("tools", 128),
                                    std::pair("stop", 16), std::pair("stop_token_ids", 1024)}) {
    std::string body = StrCat("{\"", name, "\":[");
    for (int i = 0; i <= limit; ++i) body += "{},";
    for (const auto& status : {ParseChatCall(body + "no JSON", kModel).status(),
                               ParseCompletionCall(body + "no JSON", kModel).status()}) {
      EXPECT_EQ(status.message(), StrCat(name, " has more items than the limit of ", limit));
      EXPECT_EQ(status.field(), name);
    }
  }
}

TEST(ApiCallTest, AnUnknownModelIsNotFound) {
  auto call = ParseChatCall(StrCat("{\"model\":\"gpt-9\",", kMessages, "}"), kModel);
  EXPECT_EQ(call.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(call.status().field(), "model");
  EXPECT_TRUE(ParseChatCall(StrCat("{\"model\":\"tiny\",", kMessages, "}"), kModel).ok());
}

TEST(ApiCallTest, ReadsABeamSearch) {
  const auto read = [](const std::string& fields) {
    auto call =
        ParseCompletionCall(StrCat(R"({"prompt":"a","use_beam_search":true)", fields, "}"), kModel);
    EXPECT_TRUE(call.ok()) << call.status().message();
    return call->requests.at(0);
  };
  EXPECT_EQ(read(R"(,"n":3)").beams.widths, (std::vector<int>{3}));
  EXPECT_EQ(read(R"(,"n":2,"best_of":5)").beams.widths, (std::vector<int>{5}));
  EXPECT_EQ(read(R"(,"n":2,"best_of":5)").n, 2);
  const Request request =
      read(R"(,"beam_width":[1,2.0,8],"length_penalty":-0.5,"early_stopping":"never")");
  EXPECT_EQ(request.beams.widths, (std::vector<int>{1, 2, 8}));
  EXPECT_EQ(request.beams.width(), 8);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.beams.length_penalty, -0.5);
  EXPECT_EQ(request.beams.stop, BeamSearch::Stop::kNever);
  EXPECT_EQ(read(R"(,"early_stopping":true)").beams.stop, BeamSearch::Stop::kEarly);
  EXPECT_EQ(read(R"(,"early_stopping":false)").beams.stop, BeamSearch::Stop::kLikely);
  const auto none =
      ParseChatCall(StrCat(R"({"use_beam_search":false,"length_penalty":1,"early_stopping":false,)",
                           kMessages, "}"),
                    kModel);
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_FALSE(none->requests.at(0).beams.on());
}

TEST(ApiCallTest, ReadsHowManyAnswersTheBestAreTakenOf) {
  const auto call = ParseCompletionCall(R"({"prompt":"a","n":2,"best_of":5})", kModel);
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->best_n, 2);
  EXPECT_EQ(call->requests.at(0).n, 5);
  EXPECT_EQ(call->requests.at(0).logprobs, 0);  // by which they are compared
  EXPECT_FALSE(call->logprobs.has_value());
  const auto all = ParseCompletionCall(R"({"prompt":"a","n":2,"best_of":2,"stream":true})", kModel);
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_FALSE(all->best_n.has_value());
}

TEST(ApiCallTest, ReadsEverySamplingField) {
  auto call = ParseCompletionCall(
      R"({"prompt":[1,2.0,3e0],"n":2.0,"max_tokens":1e1,"min_tokens":3,"temperature":0.5,
          "top_k":-1,"top_p":0.9,"min_p":0.05,"repeat_penalty":1.1,"presence_penalty":1,
          "frequency_penalty":-1,"no_repeat_ngram_size":3,"seed":18446744073709551615,
          "logit_bias":{"7":-100},"stop":"x","stop_token_ids":[5],"include_stop_str_in_output":true,
          "skip_special_tokens":false,"ignore_eos":true,"logprobs":3,"priority":-2,
          "cache_salt":"s","add_special_tokens":false,"user":"u","store":false,"metadata":{"a":"b"},
          "best_of":2,"suffix":null,"mirostat":0,"response_format":{"type":"text"}})",
      kModel);
  ASSERT_TRUE(call.ok()) << call.status().message();
  const Request& request = call->requests.at(0);
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompt), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.max_tokens, 10);
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_k, -1);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.min_p, 0.05);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(request.sampling.presence_penalty, 1);
  EXPECT_EQ(request.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.sampling.no_repeat_ngram, 3);
  EXPECT_EQ(request.sampling.seed, 18446744073709551615u);
  EXPECT_EQ(request.sampling.logit_bias, (std::vector<std::pair<int32_t, double>>{{7, -100.0}}));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x"}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{5}));
  EXPECT_TRUE(request.include_stop && request.ignore_eos);
  EXPECT_FALSE(request.skip_special_tokens || request.add_special_tokens);
  EXPECT_EQ(request.logprobs, 3);
  EXPECT_FALSE(request.prompt_logprobs.has_value());
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(request.cache_salt, "s");
}

TEST(ApiCallTest, ReadsChoicesInBothSpellings) {
  const std::vector<std::string> expected = {"yes", "no"};
  for (
      const char* fields :
      {R"("guided_choice":["yes","no"])", R"("structured_outputs":{"choice":["yes","no"]})",
       R"("structured_outputs":{"choice":["yes","no"],"json":null},"guided_choice":["yes","no"])"}) {
    const auto completion = ParseCompletionCall(StrCat(R"({"prompt":"a",)", fields, "}"), kModel);
    ASSERT_TRUE(completion.ok()) << completion.status().message();
    EXPECT_EQ(completion->requests[0].choice, expected);
    const auto chat = ParseChatCall(
        StrCat(R"({"messages":[{"role":"user","content":"a"}],)", fields, "}"), kModel);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    EXPECT_EQ(chat->requests[0].choice, expected);
  }
  const auto none =
      ParseCompletionCall(R"({"prompt":"a","guided_choice":null,"structured_outputs":{}})", kModel);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->requests[0].choice.empty());
  // Each prompt of a call has its own.
  const std::string large = StrCat("\"guided_choice\":[\"", std::string(600'000, 'x'), "\"]");
  EXPECT_TRUE(ParseCompletionCall(StrCat(R"({"prompt":["a"],)", large, "}"), kModel).ok());
  const auto many = ParseCompletionCall(StrCat(R"({"prompt":["a","b"],)", large, "}"), kModel);
  EXPECT_EQ(many.status().field(), "choice");
}

TEST(ApiCallTest, ReadsGrammarsInEverySpelling) {
  struct Spelling {
    const char* fields;
    Grammar::Kind kind;
    const char* text;
    bool open = false;
  };
  using Kind = Grammar::Kind;
  const char* const schema = R"({"type":"integer"})";
  const char* const object = R"({"type":"object"})";
  const char* const tag = R"({"type":"structural_tag","format":{"type":"any_text"}})";
  const Spelling spellings[] = {
      {R"("response_format":{"type":"text"})", Kind::kNone, ""},
      {R"("response_format":{"type":"json_object"})", Kind::kJsonSchema, object},
      {R"("response_format":{"type":"json_object","schema":{"type":"integer"}})", Kind::kJsonSchema,
       schema},
      {R"("response_format":{"type":"json_schema","schema":{"type":"integer"}})", Kind::kJsonSchema,
       schema},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n",
          "schema":{"type":"integer"},"strict":false}})",
       Kind::kJsonSchema, schema, true},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n",
          "schema":"{\"type\":\"integer\"}","strict":false}})",
       Kind::kJsonSchema, schema, true},
      {R"("response_format":{"type":"structural_tag","format":{"type":"any_text"}})",
       Kind::kStructuralTag, tag, true},
      {R"("structured_outputs":{"json":{"type":"integer"}})", Kind::kJsonSchema, schema},
      {R"("structured_outputs":{"json":"{\"type\":\"integer\"}"})", Kind::kJsonSchema, schema},
      {R"("structured_outputs":{"json_object":true})", Kind::kJsonSchema, object},
      {R"("structured_outputs":{"json_object":false})", Kind::kNone, ""},
      {R"("structured_outputs":{"regex":"a+"})", Kind::kRegex, "a+"},
      {R"("structured_outputs":{"grammar":"root ::= x"})", Kind::kRules, "root ::= x"},
      {R"("guided_json":{"type":"integer"})", Kind::kJsonSchema, schema},
      {R"("guided_regex":"a+","regex":"a+")", Kind::kRegex, "a+"},
      {R"("guided_grammar":"root ::= x")", Kind::kRules, "root ::= x"},
      {R"("json_schema":{"type":"integer"})", Kind::kJsonSchema, schema},
      {R"("json_schema":"{\"type\":\"integer\"}")", Kind::kJsonSchema, schema},
      {R"("regex":"a+")", Kind::kRegex, "a+"},
      {R"("ebnf":"root ::= x")", Kind::kRules, "root ::= x"},
      {R"("grammar":"root ::= x")", Kind::kRules, "root ::= x"},
      {R"("structural_tag":{"type":"structural_tag","format":{"type":"any_text"}})",
       Kind::kStructuralTag, tag, true},
  };
  for (const Spelling& spelling : spellings) {
    const auto chat = ParseChatCall(
        StrCat(R"({"messages":[{"role":"user","content":"a"}],)", spelling.fields, "}"), kModel);
    ASSERT_TRUE(chat.ok()) << spelling.fields << ": " << chat.status().message();
    const Grammar& grammar = chat->requests[0].grammar;
    EXPECT_EQ(grammar.kind, spelling.kind) << spelling.fields;
    EXPECT_EQ(grammar.text, spelling.text) << spelling.fields;
    EXPECT_EQ(grammar.open, spelling.open) << spelling.fields;
    // The field's name, or that of the one within structured_outputs.
    const std::string_view fields = spelling.fields;
    const std::string_view first = fields.substr(1, fields.find('"', 1) - 1);
    if (grammar.kind == Kind::kNone) {
      EXPECT_EQ(chat->grammar_field, "tools");
    } else if (first == "structured_outputs") {
      EXPECT_TRUE(chat->grammar_field.starts_with("structured_outputs.")) << chat->grammar_field;
    } else {
      EXPECT_EQ(chat->grammar_field, first);
    }
  }
}

TEST(ApiCallTest, ReadsAPrediction) {
  const auto ask = [](const std::string& prediction) {
    return ParseChatCall(StrCat("{", kMessages, ",\"prediction\":", prediction, "}"), kModel);
  };
  const auto text = ask(R"({"type":"content","content":"a\nb"})");
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text->requests[0].prediction, "a\nb");
  const auto parts = ask(
      R"({"type":"content","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})");
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  EXPECT_EQ(parts->requests[0].prediction, "a\nb");
  const auto none = ask("null");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->requests[0].prediction, "");
  EXPECT_EQ(ask(R"({"type":"text","content":"a"})").status().message(),
            "prediction.type is \"text\"; it must be content");
}

TEST(ApiCallTest, NullIsAbsentAndMinusOneIsAnySeed) {
  auto call = ParseCompletionCall(
      R"({"prompt":"a","n":null,"seed":-1,"stop":null,"stream_options":null,"logit_bias":null,
          "n_predict":-1,"temperature":null})",
      kModel);
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_FALSE(call->requests[0].sampling.seed.has_value());
  EXPECT_FALSE(call->requests[0].max_tokens.has_value());
}

TEST(ApiCallTest, TheErrorOfASeedNamesTheRangeThatIsTaken) {
  const auto seed = [](std::string_view text) {
    return ParseCompletionCall(StrCat(R"({"prompt":"a","seed":)", text, "}"), kModel);
  };
  EXPECT_TRUE(seed("18446744073709551615").ok());
  EXPECT_TRUE(seed("-9223372036854775808").ok());
  for (const char* text : {"18446744073709551616", "-9223372036854775809", "1e30"}) {
    EXPECT_NE(
        seed(text).status().message().find("from -9223372036854775808 to 18446744073709551615"),
        std::string::npos)
        << seed(text).status().message();
  }
}

TEST(ApiCallTest, GivesTheTemplateMessagesInTheirOwnOrder) {
  auto call = ParseChatCall(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"b","type":"text"}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
           "function":{"name":"f","arguments":"{\"z\":1}"}}]},
          {"role":"tool","tool_call_id":"1","content":"42"}],
          "tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],
          "tool_choice":"auto","chat_template_kwargs":{"enable_thinking":false},
          "reasoning_effort":"low"})",
      kModel);
  ASSERT_TRUE(call.ok()) << call.status().message();
  const auto& chat = std::get<ChatPrompt>(call->requests[0].prompt);
  EXPECT_EQ(chat.messages_json,
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":null,"tool_calls":)"
            R"([{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\":1}"}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"1"}])");
  EXPECT_EQ(chat.tools_json,
            R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])");
  EXPECT_EQ(chat.template_kwargs_json, R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_FALSE(call->requests[0].max_tokens.has_value());
}

TEST(ApiCallTest, AModelWithoutATokenizerAlwaysGivesIds) {
  for (const char* asked : {"", R"(,"return_token_ids":false)"}) {
    const std::string body = StrCat(R"({"prompt":[1])", asked, "}");
    EXPECT_TRUE(ParseCompletionCall(body, kIdsAlone)->shows_ids) << asked;
    EXPECT_TRUE(ParseCompletionCall(body, kIdsAlone)->names_ids) << asked;
    EXPECT_FALSE(ParseCompletionCall(body, kIdsAlone)->requests[0].prompt_ids) << asked;
    EXPECT_FALSE(ParseCompletionCall(body, kModel)->shows_ids) << asked;
  }
}

TEST(ApiCallTest, LogprobsMayNameTokensByTheirIds) {
  const std::string named = R"("return_tokens_as_token_ids":true)";
  EXPECT_TRUE(ParseCompletionCall(StrCat(R"({"prompt":[1],)", named, "}"), kModel)->names_ids);
  EXPECT_TRUE(ParseChatCall(StrCat("{", kMessages, ",", named, "}"), kModel)->names_ids);
  EXPECT_FALSE(ParseChatCall(StrCat("{", kMessages, "}"), kModel)->names_ids);
}

TEST(ApiCallTest, ToolChoiceNoneShowsNoTools) {
  auto call = ParseChatCall(StrCat("{", kMessages,
                                   R"(,"tool_choice":"none","tools":[{"type":"function",)"
                                   R"("function":{"name":"f"}}]})"),
                            kModel);
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_TRUE(std::get<ChatPrompt>(call->requests[0].prompt).tools_json.empty());
}

}  // namespace
}  // namespace sluice::server
