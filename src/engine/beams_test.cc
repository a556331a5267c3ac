// Beam searches through the whole engine: the answers of transformers' generate
// (tests/golden/beams.json), some of them held to a regular expression, whatever runs beside them.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

Json Cases() {
  std::ifstream file(SourceDir() + "/tests/golden/beams.json");
  EXPECT_TRUE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return (*ParseJson(text.str(), "beams.json"))["cases"];
}

Request RequestOf(const Json& search) {
  Request request;
  request.prompt = search["prompt"].get<std::vector<int32_t>>();
  request.beams.widths = search["widths"].get<std::vector<int>>();
  request.n = request.beams.width();
  request.max_tokens = search["max_tokens"].get<int>();
  request.min_tokens = search.value("min_tokens", 0);
  request.beams.length_penalty = search.value("length_penalty", 1.0);
  const Json stop = search.value("early_stopping", Json(false));
  request.beams.stop = stop == "never" ? BeamSearch::Stop::kNever
                       : stop == true  ? BeamSearch::Stop::kEarly
                                       : BeamSearch::Stop::kLikely;
  // The model's own end is 2; other ids are those of the request.
  const auto ends = search["ends"].get<std::vector<int32_t>>();
  request.ignore_eos = ends != std::vector<int32_t>{2};
  if (request.ignore_eos) request.stop_token_ids = ends;
  if (search.contains("regex"))
    request.grammar = {.kind = Grammar::Kind::kRegex, .text = search["regex"].get<std::string>()};
  return request;
}

EngineOptions ExactOptions(const std::string& model) {
  EngineOptions options = TinyOptions(model);
  options.kv_dtype = "f32";
  options.max_num_seqs = 16;
  return options;
}

// Answers have no more than their tokens, which come at once. Where fewer fit than were asked for,
// the others are absent.
void ExpectAnswers(const Json& search, Answer& answer) {
  ASSERT_TRUE(answer.error.ok()) << answer.error.message();
  const auto expected = search["answers"].get<std::vector<std::vector<int32_t>>>();
  const auto asked = static_cast<size_t>(RequestOf(search).n);
  ASSERT_EQ(answer.choices.size(), asked) << search.dump();
  EXPECT_EQ(answer.events, static_cast<int>(asked));
  for (size_t i = expected.size(); i < asked; ++i) {
    EXPECT_EQ(answer.choices[static_cast<int>(i)].finish, FinishReason::kAbsent);
    EXPECT_TRUE(answer.choices[static_cast<int>(i)].ids.empty());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const Answer::Choice& choice = answer.choices[static_cast<int>(i)];
    EXPECT_EQ(choice.ids, expected[i]) << search.dump() << "\nanswer " << i;
    EXPECT_EQ(choice.finishes, 1);
    const auto ends = search["ends"].get<std::vector<int32_t>>();
    const bool stopped = std::find(ends.begin(), ends.end(), expected[i].back()) != ends.end();
    EXPECT_EQ(choice.finish, stopped ? FinishReason::kStop : FinishReason::kLength);
    const double score = choice.cumulative_logprob.value_or(0) /
                         std::pow(expected[i].size(), search.value("length_penalty", 1.0));
    EXPECT_NEAR(score, search["scores"][i].get<double>(), 2e-4);
  }
}

TEST(Beams, AnswersAreThoseOfTransformers) {
  std::map<std::string, std::unique_ptr<Engine>> engines;
  for (const Json& search : Cases()) {
    const auto model = search["model"].get<std::string>();
    auto& engine = engines[model];
    if (engine == nullptr) engine = OpenTiny(ExactOptions(model));
    ASSERT_NE(engine, nullptr);
    ExpectAnswers(search, *Ask(*engine, RequestOf(search)));
  }
  EXPECT_GE(engines.size(), 4u);
  for (const auto& [model, engine] : engines) ExpectNothingLeft(*engine);
}

// All at once, in little memory, beside answers that are drawn; prompts come in chunks.
TEST(Beams, MemoryThatRunsShortAndOthersBesideThemChangeNothing) {
  EngineOptions options = ExactOptions("llama");
  options.kv_memory = "200KiB";  // 50 blocks of 8 tokens; the largest search needs 40
  options.max_num_seqs = options.max_batch_tokens = 32;
  const auto engine = OpenTiny(options);
  ASSERT_NE(engine, nullptr);
  std::vector<std::pair<Json, std::shared_ptr<Answer>>> searches;
  std::vector<std::shared_ptr<Answer>> others;
  for (const Json& search : Cases()) {
    if (search["model"] != "llama") continue;
    auto [answer, sink] = Answer::Make();
    ASSERT_TRUE(engine->Submit(RequestOf(search), sink).ok());
    searches.emplace_back(search, answer);
    if (searches.size() % 4 != 0) continue;
    auto [other, other_sink] = Answer::Make();
    Request request = TinyRequest({1, 40, 41, static_cast<int32_t>(searches.size())}, 60);
    request.sampling = {.temperature = 1.0, .seed = 7};
    ASSERT_TRUE(engine->Submit(request, other_sink).ok());
    others.push_back(other);
  }
  for (const auto& [search, answer] : searches) {
    answer->Wait();
    ExpectAnswers(search, *answer);
  }
  for (const auto& other : others) {
    other->Wait();
    EXPECT_EQ(other->usage.completion_tokens, 60);
  }
  EXPECT_GT(Metric(*engine, "vllm:num_preemptions_total"), 0);
  ExpectNothingLeft(*engine);
}

TEST(Beams, LogProbsAreThoseOfTheTokensAndAddUp) {
  const auto engine = OpenTiny(ExactOptions("llama"));
  ASSERT_NE(engine, nullptr);
  Request request = RequestOf(Cases()[0]);
  request.beams.widths = {4};
  request.n = 2;
  request.logprobs = 3;
  request.prompt_logprobs = 1;
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  ASSERT_EQ(answer->choices.size(), 2u);
  EXPECT_EQ(answer->prompt.size(), std::get<std::vector<int32_t>>(request.prompt).size());
  for (const auto& [index, choice] : answer->choices) {
    ASSERT_EQ(choice.logprobs.size(), choice.ids.size());
    double sum = 0;
    for (const double logprob : choice.logprobs) sum += logprob;
    EXPECT_NEAR(choice.cumulative_logprob.value_or(0), sum, 1e-4);
  }
  // The same tokens as a prompt have the same log-probs.
  Request scored = TinyRequest(std::get<std::vector<int32_t>>(request.prompt), 0);
  auto& prompt = std::get<std::vector<int32_t>>(scored.prompt);
  const std::vector<int32_t>& ids = answer->choices[1].ids;
  prompt.insert(prompt.end(), ids.begin(), ids.end());
  scored.prompt_logprobs = 0;
  const auto scores = Ask(*engine, scored);
  ASSERT_EQ(scores->prompt.size(), prompt.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_NEAR(*scores->prompt[prompt.size() - ids.size() + i].logprob,
                answer->choices[1].logprobs[i], 1e-5);
  }
}

TEST(Beams, WithoutAMaximumEachBeamHasItsShareOfTheMemory) {
  EngineOptions options = ExactOptions("llama");
  options.kv_memory = "256KiB";  // of 512 tokens
  const auto engine = OpenTiny(options);
  ASSERT_NE(engine, nullptr);
  Request request = TinyRequest({1, 5, 9}, 0);
  request.max_tokens.reset();
  request.sampling = {};
  request.beams.widths = {8};
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kLength);
  EXPECT_GE(answer->choices[0].ids.size(), 40u);
  EXPECT_LT(answer->choices[0].ids.size(), 100u);
  ExpectNothingLeft(*engine);
}

TEST(Beams, CancelledTheyTellEachAnswerAndLeaveNothingBehind) {
  const auto engine = OpenTiny(ExactOptions("llama"));
  ASSERT_NE(engine, nullptr);
  for (int i = 0; i < 20; ++i) {
    Request request = TinyRequest({1, 5, 9, 30 + i}, 100);
    request.sampling = {};
    request.beams.widths = {6};
    request.n = 3;
    auto [answer, sink] = Answer::Make();
    const int64_t before = engine->Info().steps;  // it may have ended when this thread runs again
    const auto id = engine->Submit(request, sink);
    ASSERT_TRUE(id.ok());
    while (engine->Info().steps < before + i % 7) {
    }
    engine->Cancel(*id);
    answer->Wait();
    EXPECT_EQ(answer->choices.size(), 3u);
    EXPECT_EQ(answer->lasts, 1);
    EXPECT_EQ(answer->after_last, 0);
  }
  ExpectNothingLeft(*engine);
}

// Drafts are of no use to beams; those beside them go on having some.
TEST(Beams, BesideDraftsTheyAreTheSame) {
  EngineOptions options = ExactOptions("llama");
  options.speculate = "ngram";
  const auto engine = OpenTiny(options);
  ASSERT_NE(engine, nullptr);
  auto [other, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(TinyRequest({1, 7, 8, 9, 7, 8, 9, 7, 8}, 100), sink).ok());
  const Json cases = Cases();
  for (size_t i = 0; i < 20; ++i) ExpectAnswers(cases[i], *Ask(*engine, RequestOf(cases[i])));
  other->Wait();
  ExpectNothingLeft(*engine);
}

Request Held(Grammar::Kind kind, std::string text, int width) {
  Request request = TinyRequest({1, 75, 65, 67, 29, 98, 122}, 60);
  request.sampling = {};
  request.grammar = {.kind = kind, .text = std::move(text)};
  request.beams.widths = {width};
  request.n = width;
  return request;
}

TEST(Beams, HeldToASchemaEachAnswerIsAnotherThatFits) {
  const auto engine = OpenTiny(ExactOptions("llama"));
  ASSERT_NE(engine, nullptr);
  const std::string schema = R"({"type": "object", "properties": {
      "colour": {"enum": ["red", "green", "blue"]}, "count": {"type": "integer", "maximum": 99,
      "minimum": 0}}, "required": ["colour", "count"], "additionalProperties": false})";
  for (const int logprobs : {-1, 2}) {
    Request request = Held(Grammar::Kind::kJsonSchema, schema, 6);
    if (logprobs >= 0) request.logprobs = logprobs;
    const auto answer = Ask(*engine, request);
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    ASSERT_EQ(answer->choices.size(), 6u);
    std::set<std::string> texts;
    double before = 0;
    for (const auto& [index, choice] : answer->choices) {
      EXPECT_EQ(choice.finish, FinishReason::kStop);
      const auto json = ParseJson(choice.text, "the answer");
      ASSERT_TRUE(json.ok()) << choice.text;
      EXPECT_TRUE((*json)["count"].is_number_integer()) << choice.text;
      texts.insert(choice.text);
      double sum = 0;
      for (const double logprob : choice.logprobs) sum += logprob;
      EXPECT_EQ(choice.logprobs.size(), logprobs < 0 ? 0 : choice.ids.size());
      if (logprobs >= 0) {
        EXPECT_NEAR(choice.cumulative_logprob.value_or(0), sum, 1e-3);
      }
      const double score =
          choice.cumulative_logprob.value_or(0) / static_cast<double>(choice.ids.size());
      if (index > 0) {
        EXPECT_LE(score, before);
      }
      before = score;
    }
    EXPECT_EQ(texts.size(), 6u);
  }
  ExpectNothingLeft(*engine);
}

TEST(Beams, HeldToTextsTheyAnswerAsManyAsThereAre) {
  const auto engine = OpenTiny(ExactOptions("llama"));
  ASSERT_NE(engine, nullptr);
  Request request = Held(Grammar::Kind::kNone, "", 5);
  request.choice = {"ab", "cd", "abc"};  // which tokens can spell in one way alone
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  ASSERT_EQ(answer->choices.size(), 5u);
  std::multiset<std::string> texts;
  for (const auto& [index, choice] : answer->choices) {
    EXPECT_EQ(choice.finish, index < 3 ? FinishReason::kStop : FinishReason::kAbsent);
    texts.insert(choice.text);
  }
  EXPECT_EQ(texts, (std::multiset<std::string>{"", "", "ab", "cd", "abc"}));
  ExpectNothingLeft(*engine);
}

// This model's 128 tokens do not spell a euro sign.
TEST(Beams, WhatNoTokenCanGoOnWithIsLeftAndAnErrorWhereNothingElseIs) {
  const auto engine = OpenTiny(ExactOptions("qwen3"));
  ASSERT_NE(engine, nullptr);
  const auto some = Ask(*engine, Held(Grammar::Kind::kRegex, "a\xE2\x82\xAC|bc", 2));
  ASSERT_TRUE(some->error.ok()) << some->error.message();
  EXPECT_EQ(some->choices[0].text, "bc");
  EXPECT_EQ(some->choices[1].finish, FinishReason::kAbsent);
  const auto none = Ask(*engine, Held(Grammar::Kind::kRegex, "a\xE2\x82\xAC|b\xE2\x82\xAC", 2));
  EXPECT_EQ(none->error.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(none->error.message(), HasSubstr("could go on"));
  ExpectNothingLeft(*engine);
}

TEST(Beams, WhatTheyCannotHeedIsRefusedByName) {
  const auto engine = OpenTiny(ExactOptions("llama"));
  ASSERT_NE(engine, nullptr);
  struct Case {
    std::string field, says;
    std::function<void(Request&)> spoil;
  };
  const std::vector<Case> cases = {
      {"beam_width", "between 1 and 8", [](Request& r) { r.beams.widths = {9}; }},
      {"beam_width", "between 1 and 8",
       [](Request& r) {
         r.beams.widths = {2, 0};
       }},
      {"beam_width", "at most: send a smaller",
       [](Request& r) {
         r.beams.widths = {8};
         for (int32_t id = 20; id < 33; ++id) r.stop_token_ids.push_back(id);
       }},
      {"n", "raise beam_width", [](Request& r) { r.n = 4; }},
      {"max_tokens", "1 and 32768", [](Request& r) { r.max_tokens = 0; }},
      {"max_tokens", "1 and 32768", [](Request& r) { r.max_tokens = 32769; }},
      {"length_penalty", "between", [](Request& r) { r.beams.length_penalty = NAN; }},
      {"temperature", "send it without", [](Request& r) { r.sampling.temperature = 0.7; }},
      {"top_p", "send it without", [](Request& r) { r.sampling.top_p = 0.9; }},
      {"top_k", "send it without", [](Request& r) { r.sampling.top_k = 5; }},
      {"min_p", "send it without", [](Request& r) { r.sampling.min_p = 0.1; }},
      {"repetition_penalty", "send it without",
       [](Request& r) { r.sampling.repetition_penalty = 1.1; }},
      {"no_repeat_ngram_size", "send it without",
       [](Request& r) { r.sampling.no_repeat_ngram = 2; }},
      {"logit_bias", "send it without",
       [](Request& r) {
         r.sampling.logit_bias = {{5, 1.0}};
       }},
      {"stop", "send stop_token_ids", [](Request& r) { r.stop = {"a"}; }},
      {"thinking_budget", "send it without", [](Request& r) { r.thinking_budget = 5; }},
  };
  for (const Case& spoiled : cases) {
    Request request = TinyRequest({1, 5, 9}, 4);
    request.beams.widths = {3};
    request.sampling = {.temperature = 0.0, .top_k = 0, .top_p = 1.0};  // which change nothing
    spoiled.spoil(request);
    const auto answer = Ask(*engine, request);
    EXPECT_EQ(answer->error.code(), StatusCode::kInvalidArgument) << spoiled.field;
    EXPECT_EQ(answer->error.field(), spoiled.field);
    EXPECT_THAT(answer->error.message(), HasSubstr(spoiled.says));
  }
  const auto recurrent = OpenTiny(ExactOptions("qwen3_next"));
  Request request = TinyRequest({1, 5, 9}, 4);
  request.beams.widths = {3};
  EXPECT_THAT(Ask(*recurrent, request)->error.message(), HasSubstr("running state"));
}

}  // namespace
}  // namespace sluice::engine
