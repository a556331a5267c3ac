// Requests of every kind give the same answers with drafts as without: ids, log-probs to the bit,
// text, ends. What was drafted is counted per request and in all.
#include <functional>
#include <tuple>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

EngineOptions WithDrafts(EngineOptions options, int tokens = 8,
                         const std::string& proposer = "ngram") {
  options.speculate = proposer == "tree" ? "suffix" : proposer;
  options.speculate_tree = proposer == "tree";
  options.speculate_tokens = tokens;
  // A tiny model's steps are too short to be worth a draft, or to wait for it.
  options.speculate_adapt = false;
  options.draft_wait_us = 10'000'000;
  options.kv_memory = "16MiB";  // with room for a state behind every draft
  return options;
}

// Greedy answers of the tiny models soon repeat themselves.
Request Repeating(int max_tokens = 60) {
  std::vector<int32_t> prompt;
  for (int i = 0; i < 40; ++i) prompt.push_back(3 + i % 7 * 11);
  Request request = TinyRequest(prompt, max_tokens);
  request.logprobs = 2;
  request.sampling.seed = 5;
  return request;
}

struct Case {
  std::string name;
  std::function<void(Request&)> change;
};

std::vector<Case> SpeculationCases() {
  return {
      {"greedy", [](Request&) {}},
      {"sampled", [](Request& r) { r.sampling.temperature = 0.2; }},
      {"filtered",
       [](Request& r) {
         r.sampling.temperature = 0.1;
         r.sampling.top_p = 0.8;
         r.sampling.top_k = 10;
         r.sampling.min_p = 0.05;
       }},
      {"no_logprobs", [](Request& r) { r.logprobs.reset(); }},
      {"choices",
       [](Request& r) {
         r.n = 3;
         r.sampling.temperature = 0.3;
       }},
      {"penalties",
       [](Request& r) {
         r.sampling.frequency_penalty = 0.02;
         r.sampling.presence_penalty = 0.1;
         r.sampling.repetition_penalty = 1.01;
       }},
      {"no_repeat", [](Request& r) { r.sampling.no_repeat_ngram = 12; }},
      {"bias",
       [](Request& r) {
         r.sampling.logit_bias = {{20, 2.5f}, {30, -4.0f}};
       }},
      {"prompt_logprobs", [](Request& r) { r.prompt_logprobs = 1; }},
      {"min_tokens",
       [](Request& r) {
         r.ignore_eos = false;
         r.min_tokens = 40;
         for (int32_t id = 3; id < 128; id += 9) r.stop_token_ids.push_back(id);
       }},
      {"one_token", [](Request& r) { r.max_tokens = 1; }},
      {"two_tokens", [](Request& r) { r.max_tokens = 2; }},
  };
}

// A model and where its drafts come from.
class Speculation : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static std::string Model() { return std::get<0>(GetParam()); }
  static EngineOptions Plain() { return TinyOptions(Model()); }
  static EngineOptions Drafting(int tokens = 8) {
    return WithDrafts(Plain(), tokens, std::get<1>(GetParam()));
  }
  static Request Repeating(int max_tokens = 60) {
    Request request = engine::Repeating(max_tokens);
    // By itself this one says something else all the time.
    if (Model() == "qwen3_next") request.sampling.logit_bias = {{20, 2.5f}, {31, 2.4f}};
    return request;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, Speculation,
                         ::testing::Combine(::testing::Values("llama", "gemma2", "qwen3_next"),
                                            ::testing::Values("ngram", "suffix", "tree")),
                         [](const auto& name) {
                           return std::get<0>(name.param) + "_" + std::get<1>(name.param);
                         });

TEST_P(Speculation, RequestsOfEveryKindGetTheSameAnswer) {
  const auto plain = OpenTiny(Plain());
  for (const int tokens : {1, 4, 8}) {
    const auto drafting = OpenTiny(Drafting(tokens));
    for (const Case& c : SpeculationCases()) {
      Request request = Repeating();
      c.change(request);
      const auto expected = Ask(*plain, request);
      const auto answer = Ask(*drafting, request);
      ASSERT_TRUE(answer->error.ok()) << c.name << ": " << answer->error.message();
      EXPECT_EQ(answer->choices, expected->choices) << c.name << ", " << tokens;
      EXPECT_EQ(answer->usage.completion_tokens, expected->usage.completion_tokens) << c.name;
      EXPECT_EQ(expected->usage.accepted_tokens + expected->usage.rejected_tokens, 0);
      if (*request.max_tokens <= 2) {
        EXPECT_EQ(answer->usage.accepted_tokens, 0) << "the last token needs no draft";
      } else if (Model() != "qwen3_next" || c.name != "filtered") {  // which repeats nothing
        EXPECT_GT(answer->usage.accepted_tokens, 0) << c.name << ": the case shows nothing";
      }
      EXPECT_LT(answer->usage.accepted_tokens, answer->usage.completion_tokens);
    }
    EXPECT_LT(drafting->Info().steps, plain->Info().steps);
    ExpectNothingLeft(*drafting);
  }
}

// Engines whose drafts are trees: some of what they draw lies aside of the first branch, so that
// its KV is not where it belongs until the next step.
class Trees : public ::testing::TestWithParam<std::string> {
 protected:
  static EngineOptions Drafting() { return WithDrafts(TinyOptions(GetParam()), 8, "tree"); }
  // A text in which several things follow the same, at random.
  static std::vector<int32_t> Wavering(int length) {
    std::vector<int32_t> prompt = {1};
    uint32_t state = 7;
    while (static_cast<int>(prompt.size()) < length) {
      state = state * 1664525 + 1013904223;
      prompt.insert(prompt.end(), {20, 33, static_cast<int32_t>(46 + (state >> 30))});
    }
    return prompt;
  }
  // Leaves its answer little choice but what `Wavering` says, though not in which order.
  static Request Ask(int seed, int max_tokens = 60) {
    Request request = TinyRequest(Wavering(50), max_tokens);
    request.logprobs = 2;
    request.sampling.seed = seed;
    request.sampling.temperature = 1.0;
    for (const int32_t id : {20, 33, 46, 47, 48})
      request.sampling.logit_bias.emplace_back(id, 9.0f);
    return request;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, Trees, ::testing::Values("llama", "gemma2", "qwen3_next"),
                         [](const auto& name) { return name.param; });

TEST_P(Trees, WhatIsRightAsideOfTheFirstBranchCounts) {
  const auto plain = OpenTiny(TinyOptions(GetParam()));
  const auto drafting = OpenTiny(Drafting());
  for (int seed = 1; seed < 9; ++seed) {
    Request request = Trees::Ask(seed);
    request.n = 1 + seed % 3;
    if (seed % 2 == 0) {
      request.sampling.frequency_penalty = 0.2;
      request.sampling.repetition_penalty = 1.05;
    }
    EXPECT_EQ(engine::Ask(*drafting, request)->choices, engine::Ask(*plain, request)->choices)
        << seed;
  }
  Settle(*drafting);
  const double aside = Metric(*drafting, "sluice_aside_accepted_tokens_total");
  if (GetParam() == "qwen3_next") {
    EXPECT_EQ(aside, 0) << "states take no trees";
  } else {
    EXPECT_GT(aside, 5) << "no branch aside was right: the test shows nothing";
  }
  EXPECT_GT(Metric(*drafting, "vllm:spec_decode_num_accepted_tokens_total"), aside);
  ExpectNothingLeft(*drafting);
}

// What others find in the prefix cache behind an answer is what belongs there, wherever it ends.
TEST_P(Trees, WhatIsFoundAgainBehindThemIsRight) {
  EngineOptions cached = Drafting();
  cached.prefix_cache = true;
  const auto plain = OpenTiny(TinyOptions(GetParam()));
  const auto drafting = OpenTiny(cached);
  const Request first = Trees::Ask(3, 40);
  const auto answer = engine::Ask(*drafting, first);
  const std::vector<int32_t> ids = answer->choices[0].ids;
  ASSERT_EQ(ids.size(), 40u);
  for (size_t kept = 1; kept < ids.size(); kept += 3) {
    Request next = Trees::Ask(static_cast<int>(kept), 12);
    auto& prompt = std::get<std::vector<int32_t>>(next.prompt);
    prompt.insert(prompt.end(), ids.begin(), ids.begin() + static_cast<long>(kept));
    EXPECT_EQ(engine::Ask(*drafting, next)->choices, engine::Ask(*plain, next)->choices) << kept;
  }
  Settle(*drafting);
  EXPECT_GT(Metric(*drafting, "vllm:prefix_cache_hits_total"), 0);
}

// The string begins in one draft, or before it, and ends in another.
TEST_P(Speculation, AStopStringAcrossDraftsEndsTheAnswerWhereItDoesWithout) {
  const auto plain = OpenTiny(Plain());
  const auto drafting = OpenTiny(Drafting());
  const std::string text = Ask(*plain, Repeating())->choices[0].text;
  int early = 0;
  for (size_t at = 0; at + 12 < text.size(); at += 5) {
    Request request = Repeating();
    request.stop = {text.substr(at, 12)};
    const auto expected = Ask(*plain, request);
    const auto answer = Ask(*drafting, request);
    EXPECT_EQ(answer->choices, expected->choices) << request.stop[0];
    EXPECT_EQ(answer->usage.completion_tokens, expected->usage.completion_tokens);
    EXPECT_LE(answer->usage.accepted_tokens, answer->usage.completion_tokens);
    early += expected->usage.completion_tokens < 60;
  }
  EXPECT_GT(early, 3) << "no stop string was found: the test shows nothing";
  ExpectNothingLeft(*drafting);
}

TEST_P(Speculation, UsageAndMetricsCountTheSameDrafts) {
  const auto engine = OpenTiny(Drafting());
  int accepted = 0, rejected = 0;
  for (int i = 0; i < 6; ++i) {
    Request request = Repeating(30 + i);
    request.sampling.temperature = 0.1 * i;
    request.n = 1 + i % 2;
    const Usage usage = Ask(*engine, request)->usage;
    accepted += usage.accepted_tokens;
    rejected += usage.rejected_tokens;
  }
  Settle(*engine);
  EXPECT_GT(accepted, 0);
  EXPECT_GT(rejected, 0);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_accepted_tokens_total"), accepted);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_accepted_tokens_per_pos_total"), accepted);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"), accepted + rejected);
  const double drafts = Metric(*engine, "vllm:spec_decode_num_drafts_total");
  EXPECT_GT(drafts, 0);
  EXPECT_LE(drafts, accepted + rejected);
}

TEST(SpeculationOpen, WhereTheMemoryHoldsNoStateForADraftThereIsNone) {
  EngineOptions options = WithDrafts(TinyOptions("qwen3_next"));
  options.kv_memory = TinyOptions().kv_memory;
  const auto plain = OpenTiny(TinyOptions("qwen3_next"));
  const auto engine = OpenTiny(options);
  EXPECT_EQ(engine->Info().max_model_len, plain->Info().max_model_len);
  EXPECT_EQ(Ask(*engine, Repeating())->choices, Ask(*plain, Repeating())->choices);
  Settle(*engine);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"), 0);
}

// Without a head in the checkpoint: what was said before is drafted from, on the CPU, but not where
// each draft takes a state.
TEST(SpeculationOpen, AutoDraftsByTheHostWhereThatCostsNothing) {
  for (const auto& [model, drafts] : {std::pair{"llama", true}, {"qwen3_next", false}}) {
    EngineOptions options = WithDrafts(TinyOptions(model), 3);
    options.speculate = "auto";
    const auto engine = OpenTiny(options);
    for (int i = 0; i < 2; ++i) Ask(*engine, TinyRequest({20, 33, 46, 59, 20, 33, 46, 59}, 40));
    Settle(*engine);
    EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total") > 0, drafts) << model;
  }
}

TEST(SpeculationOpen, RefusesWhatCannotWork) {
  EngineOptions options = TinyOptions();
  options.speculate = "medusa";
  Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.field(), "speculate");
  EXPECT_THAT(status.message(),
              HasSubstr("choose auto, none, ngram, suffix, mtp, model, eagle, eagle3 or block"));
  options = WithDrafts(TinyOptions(), 9);
  EXPECT_EQ(Engine::Open(options, {}).status().field(), "speculate-tokens");
}

}  // namespace
}  // namespace sluice::engine
