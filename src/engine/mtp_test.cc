// Drafts of a head in the checkpoint: requests of every kind get the answers that they get without,
// beside others, in any chunks, from the prefix cache and through preemption, and most drafts of a
// head that has learned what its model draws are right.
#include <algorithm>
#include <random>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

EngineOptions Options(int drafts) {
  EngineOptions options = TinyOptions("mimo");
  options.speculate = drafts > 0 ? "mtp" : "none";
  options.speculate_tokens = std::max(1, drafts);
  options.speculate_adapt = false;  // what pays is a matter of time
  return options;
}

std::vector<int32_t> RandomPrompt(int tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(3 + static_cast<int32_t>(random() % 120));
  return ids;
}

// Of every kind.
std::vector<Request> Requests() {
  std::vector<Request> requests;
  for (int i = 0; i < 15; ++i) {
    Request request = TinyRequest(RandomPrompt(1 + i * 37 % 45, 7 + i), 6 + i * 13 % 50);
    request.logprobs = i % 3;
    request.sampling.seed = 100 + i;
    if (i % 2 == 1) request.sampling.temperature = 0.3 + 0.1 * i;
    if (i == 2) request.n = 3;
    if (i == 3) request.n = 2;
    if (i == 4) request.sampling.frequency_penalty = 0.3;
    if (i == 5) request.sampling.repetition_penalty = 1.2;
    if (i == 6) request.prompt_logprobs = 1;
    if (i == 7) request.sampling.no_repeat_ngram = 3;
    if (i == 8) request.sampling.logit_bias = {{20, 2.5f}, {30, -4.0f}};
    if (i == 9) request.max_tokens = 1;
    if (i == 10) request.max_tokens = 2;
    if (i == 11) {
      request.ignore_eos = false;
      request.min_tokens = 12;
      for (int32_t id = 3; id < 128; id += 9) request.stop_token_ids.push_back(id);
    }
    if (i == 12) request.max_tokens = 0, request.prompt_logprobs = 0;
    if (i == 13) request.max_tokens = 400;  // to the end of the context
    if (i == 14) request.choice = {"to the end", "to the", "once"};
    requests.push_back(request);
  }
  return requests;
}

struct Expected {
  std::map<int, Answer::Choice> choices;
  std::vector<double> prompt;
  friend bool operator==(const Expected&, const Expected&) = default;
};

Expected Of(const Answer& answer) {
  EXPECT_TRUE(answer.error.ok()) << answer.error.message();
  Expected expected{answer.choices, {}};
  for (const TokenInfo& token : answer.prompt) expected.prompt.push_back(token.logprob.value_or(1));
  return expected;
}

class Mtp : public ::testing::Test {
 protected:
  Mtp() {
    EngineOptions options = Options(0);
    options.prefix_cache = false;
    const auto engine = OpenTiny(options);
    for (const Request& request : Requests()) expected_.push_back(Of(*Ask(*engine, request)));
  }
  // All requests at once, twice, so that the second time finds prompts in the cache.
  void ExpectSame(Engine& engine) {
    for (int round = 0; round < 2; ++round) {
      std::vector<std::shared_ptr<Answer>> answers;
      for (Request& request : Requests()) {
        auto [answer, sink] = Answer::Make();
        ASSERT_TRUE(engine.Submit(std::move(request), sink).ok());
        answers.push_back(answer);
      }
      for (size_t i = 0; i < answers.size(); ++i) {
        answers[i]->Wait();
        EXPECT_TRUE(Of(*answers[i]) == expected_[i]) << "request " << i << " in round " << round;
      }
    }
    ExpectNothingLeft(engine);
  }
  std::vector<Expected> expected_;
};

double Accepted(const Engine& engine) {
  return Metric(engine, "vllm:spec_decode_num_accepted_tokens_total");
}

TEST_F(Mtp, RequestsOfEveryKindGetTheSameAnswer) {
  for (const int drafts : {1, 3, 8}) {
    const auto engine = OpenTiny(Options(drafts));
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 50) << drafts;
    EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  }
}

// Here the number changes from step to step, and some sequences are given up.
TEST_F(Mtp, AsManyAsPayChangeNothing) {
  EngineOptions options = Options(8);
  options.speculate_adapt = true;
  const auto engine = OpenTiny(options);
  for (int i = 0; i < 3; ++i) ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "sluice_draft_lengths_total"), 0);
}

TEST_F(Mtp, ChunksChangeNothing) {
  for (const int tokens : {9, 17}) {
    EngineOptions options = Options(3);
    options.max_batch_tokens = tokens;
    const auto engine = OpenTiny(options);
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 10) << tokens;
  }
}

TEST_F(Mtp, PreemptionChangesNothing) {
  EngineOptions options = Options(3);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const std::string tight = std::to_string(OpenTiny(options)->Info().kv_bytes * 5 / 4) + "B";
  options = Options(3);
  options.kv_memory = tight;
  const auto engine = OpenTiny(options);
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:num_preemptions_total"), 0) << "the test shows nothing";
  EXPECT_GT(Accepted(*engine), 10);
}

// Chance would be one in 128; a head that reads the states of the position before gets a third. The
// head has learned from texts of 24 tokens.
TEST_F(Mtp, MostDraftsAreRight) {
  const auto engine = OpenTiny(Options(2));
  int accepted = 0, rejected = 0, tokens = 0;
  for (int i = 0; i < 40; ++i) {
    Request request = TinyRequest(RandomPrompt(2 + i % 5, 70 + i), 18);
    const Usage usage = Ask(*engine, request)->usage;
    accepted += usage.accepted_tokens;
    rejected += usage.rejected_tokens;
    tokens += usage.completion_tokens;
  }
  Settle(*engine);
  EXPECT_GT(accepted, 0.7 * (accepted + rejected)) << accepted << " of " << accepted + rejected;
  EXPECT_GT(accepted, tokens / 2);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_accepted_tokens_total"), accepted);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"), accepted + rejected);
}

TEST(MtpOpen, HeadsThatAreNotThereAreNamed) {
  EngineOptions options = TinyOptions("qwen2");
  options.speculate = "mtp";
  const Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "speculate");
  EXPECT_THAT(status.message(), HasSubstr("has none; leave --speculate out or choose ngram"));
}

TEST(MtpOpen, AutoTakesTheHeadThatIsThere) {
  EngineOptions options = Options(2);
  options.speculate = "auto";
  const auto engine = OpenTiny(options);
  Request request = TinyRequest(RandomPrompt(5, 71), 18);
  EXPECT_GT(Ask(*engine, request)->usage.accepted_tokens, 0);
  EXPECT_EQ(engine->Info().weight_bytes, OpenTiny(Options(2))->Info().weight_bytes);
}

TEST(MtpOpen, AutoIsContentWithoutMemoryForTheHead) {
  EngineOptions options = Options(0);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const int64_t without = OpenTiny(options)->Info().kv_bytes;
  options.speculate = "auto";
  options.kv_memory = std::to_string(without);
  const auto engine = OpenTiny(options);
  EXPECT_EQ(engine->Info().max_model_len, options.max_model_len);
  EXPECT_EQ(engine->Info().weight_bytes, OpenTiny(Options(0))->Info().weight_bytes);
}

TEST(MtpOpen, HeadsTakeMemoryOnlyWhereTheyAreAskedFor) {
  const EngineInfo with = OpenTiny(Options(2))->Info(), without = OpenTiny(Options(0))->Info();
  EXPECT_GT(with.weight_bytes, without.weight_bytes + 50'000);
}

}  // namespace
}  // namespace sluice::engine
