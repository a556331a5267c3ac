// The same request gets the same tokens and log-probs, bit for bit, whatever runs beside it,
// however its prompt is cut, whatever the prefix cache holds, and when it is preempted.
#include <algorithm>
#include <random>

#include "engine/device_drafts_fixture.h"

namespace sluice::engine {
namespace {

// One greedy, one sampled with filters, one with penalties and two choices.
std::vector<Request> Subjects() {
  std::vector<Request> subjects;
  for (int i = 0; i < 3; ++i) {
    Request request = TinyRequest(RandomPrompt(20 + 9 * i, 77 + i), 24);
    request.logprobs = 3;
    request.sampling.seed = 1000 + i;
    if (i > 0) request.sampling.temperature = 0.9;
    if (i == 1) request.sampling.top_p = 0.9;
    if (i == 1) request.prompt_logprobs = 0;
    if (i == 2) request.sampling.frequency_penalty = 0.7;
    if (i == 2) request.sampling.repetition_penalty = 1.1;
    if (i == 2) request.n = 2;
    subjects.push_back(request);
  }
  return subjects;
}

constexpr char kOnHost[] = "qwen3_moe beside OpenCL";

// "llama", or "llama int8": a model and the number format of its KV; or one whose experts lie on
// the host beside an OpenCL device.
EngineOptions OptionsOf(const std::string& subject) {
  const size_t space = subject.find(' ');
  EngineOptions options = TinyOptions(subject.substr(0, space));
  if (subject == kOnHost) {
    options.device = "xpu";
    options.experts_on = "host";
  } else if (space != std::string::npos) {
    options.kv_dtype = subject.substr(space + 1);
  }
  return options;
}

// Each subject alone, one after another, without the prefix cache.
std::vector<Expected> Alone(const std::string& model) {
  EngineOptions options = OptionsOf(model);
  options.prefix_cache = false;
  const auto engine = OpenTiny(options);
  std::vector<Expected> expected;
  for (const Request& subject : Subjects()) expected.push_back(Of(*Ask(*engine, subject)));
  return expected;
}

class Sameness : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == kOnHost) {
      const auto there = Engine::Open(OptionsOf(kOnHost), {});
      if (there.status().code() == StatusCode::kDevice) GTEST_SKIP() << there.status().message();
    }
    expected_ = Alone(GetParam());
  }

  // The subjects between `neighbours` random requests, all at once; twice, so that the second round
  // finds what the first left in the prefix cache.
  void ExpectSame(const EngineOptions& options, int neighbours, double* preemptions = nullptr,
                  double* accepted = nullptr) {
    const auto engine = OpenTiny(options);
    std::mt19937 random(5);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::shared_ptr<Answer>> others, answers;
      const auto submit = [&](Request request, std::vector<std::shared_ptr<Answer>>* to) {
        auto [answer, sink] = Answer::Make();
        ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
        to->push_back(answer);
      };
      for (const Request& subject : Subjects()) {
        for (int i = 0; i < neighbours / 3; ++i) {
          // Some share the beginning of a subject's prompt.
          std::vector<int32_t> prompt = RandomPrompt(1 + static_cast<int>(random() % 50), random());
          if (random() % 3 == 0) {
            const auto& ids = std::get<std::vector<int32_t>>(subject.prompt);
            prompt.insert(prompt.begin(), ids.begin(),
                          ids.begin() + static_cast<long>(random() % ids.size()));
          }
          Request other = TinyRequest(prompt, 1 + static_cast<int>(random() % 40));
          other.sampling.temperature = random() % 2;
          submit(other, &others);
        }
        submit(subject, &answers);
      }
      for (size_t i = 0; i < answers.size(); ++i) {
        answers[i]->Wait();
        ASSERT_TRUE(answers[i]->error.ok()) << answers[i]->error.message();
        EXPECT_TRUE(Of(*answers[i]) == expected_[i]) << "subject " << i << " in round " << round;
      }
      for (const auto& other : others) other->Wait();
    }
    if (options.prefix_cache) {
      EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0) << "nothing was found again";
    }
    ExpectNothingLeft(*engine);
    if (accepted != nullptr)
      *accepted = Metric(*engine, "vllm:spec_decode_num_accepted_tokens_total");
    if (preemptions != nullptr) *preemptions = Metric(*engine, "vllm:num_preemptions_total");
  }

  // A little more than one sequence of the full length takes.
  static std::string TightMemory(EngineOptions one) {
    one.max_num_seqs = 1;
    one.kv_memory.clear();
    return std::to_string(OpenTiny(one)->Info().kv_bytes * 5 / 4) + "B";
  }

  std::vector<Expected> expected_;
};
INSTANTIATE_TEST_SUITE_P(Models, Sameness,
                         ::testing::Values("llama", "gemma2", "llama fp8", "gemma2 int8",
                                           "qwen3_next", kOnHost),
                         [](const auto& name) {
                           std::string word = name.param;
                           std::replace(word.begin(), word.end(), ' ', '_');
                           return word;
                         });

TEST_P(Sameness, AmongNeighbours) {
  for (const bool cache : {false, true}) {
    EngineOptions options = OptionsOf(GetParam());
    options.prefix_cache = cache;
    ExpectSame(options, 20);
  }
}

TEST_P(Sameness, WhateverTheChunks) {
  for (const int tokens : {8, 11, 33}) {
    EngineOptions options = OptionsOf(GetParam());
    options.max_batch_tokens = tokens;
    ExpectSame(options, 3);
  }
}

TEST_P(Sameness, WithOtherThreads) {
  EngineOptions options = OptionsOf(GetParam());
  options.threads = 2;
  options.text_workers = 3;
  ExpectSame(options, 6);
}

TEST_P(Sameness, ThroughPreemption) {
  EngineOptions options = OptionsOf(GetParam());
  options.kv_memory = TightMemory(options);
  double preemptions = 0;
  ExpectSame(options, 20, &preemptions);
  EXPECT_GT(preemptions, 0) << "nothing was preempted: the test shows nothing";
}

TEST_P(Sameness, WithDraftsOfAnyLength) {
  for (const auto& [proposer, tokens] :
       {std::pair{"ngram", 1}, {"ngram", 3}, {"ngram", 8}, {"suffix", 4}, {"suffix", 8}, {"", 8}}) {
    EngineOptions options = OptionsOf(GetParam());
    options.speculate_tree = std::string_view(proposer).empty();
    options.speculate = options.speculate_tree ? "suffix" : proposer;
    options.speculate_tokens = tokens;
    options.speculate_adapt = false;
    options.draft_wait_us = 10'000'000;
    options.kv_memory = "16MiB";  // with room for a state behind every draft
    double accepted = 0;
    ExpectSame(options, 20, nullptr, &accepted);
    EXPECT_GT(accepted, 0) << "no draft was right: the test shows nothing";
  }
}

TEST_P(Sameness, WithDraftsThroughPreemption) {
  EngineOptions options = OptionsOf(GetParam());
  options.speculate = "suffix";
  options.speculate_tree = true;  // where there are no states
  options.speculate_adapt = false;
  options.draft_wait_us = 10'000'000;
  options.kv_memory = TightMemory(options);
  double preemptions = 0, accepted = 0;
  ExpectSame(options, 20, &preemptions, &accepted);
  EXPECT_GT(preemptions, 0) << "nothing was preempted: the test shows nothing";
  EXPECT_GT(accepted, 0) << "no draft was right: the test shows nothing";
}

}  // namespace
}  // namespace sluice::engine
