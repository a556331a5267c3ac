// For tests of drafts that the runner makes: requests of every kind, and whether an engine gives
// them the answers that one without drafts gives.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/source_dir_fixture.h"
#include "engine/engine_fixture.h"

namespace sluice::engine {

inline std::string DraftFolder(const std::string& name) {
  return SourceDir() + "/tests/golden/drafts/" + name;
}

// With one line that names the field at fault.
inline void ExpectRefused(const EngineOptions& options, const std::string& field,
                          const std::string& said) {
  const Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.field(), field) << status.message();
  EXPECT_THAT(status.message(), ::testing::HasSubstr(said));
  EXPECT_EQ(std::count(status.message().begin(), status.message().end(), '\n'), 0);
}

inline std::vector<int32_t> RandomPrompt(int tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(3 + static_cast<int32_t>(random() % 120));
  return ids;
}

// Of every kind.
inline std::vector<Request> Requests() {
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

// What an answer must be, to the bit.
struct Expected {
  std::map<int, Answer::Choice> choices;
  std::vector<double> prompt;
  friend bool operator==(const Expected&, const Expected&) = default;
};

inline Expected Of(const Answer& answer) {
  EXPECT_TRUE(answer.error.ok()) << answer.error.message();
  Expected expected{answer.choices, {}};
  for (const TokenInfo& token : answer.prompt) expected.prompt.push_back(token.logprob.value_or(1));
  return expected;
}

inline double Accepted(const Engine& engine) {
  return Metric(engine, "vllm:spec_decode_num_accepted_tokens_total");
}

class DeviceDraftsTest : public ::testing::Test {
 protected:
  // `plain`: without drafts.
  explicit DeviceDraftsTest(EngineOptions plain) {
    plain.prefix_cache = false;
    const auto engine = OpenTiny(plain);
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
  // Where the number of drafts changes from step to step, and some sequences are given up.
  void ExpectSameAsManyAsPay(EngineOptions options) {
    options.speculate_adapt = true;
    const auto engine = OpenTiny(options);
    for (int i = 0; i < 3; ++i) ExpectSame(*engine);
    EXPECT_GT(Metric(*engine, "sluice_draft_lengths_total"), 0);
  }
  void ExpectSameInChunks(EngineOptions options) {
    for (const int tokens : {9, 17}) {
      options.max_batch_tokens = tokens;
      const auto engine = OpenTiny(options);
      ExpectSame(*engine);
      EXPECT_GT(Accepted(*engine), 10) << tokens;
    }
  }
  std::vector<Expected> expected_;
};

}  // namespace sluice::engine
