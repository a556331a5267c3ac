// Logits processors of an embedder, through the whole engine over tiny checkpoints: what they see,
// what their changes do, that nobody beside them notices, and that one that fails fails alone.
#include "sluice/logits_processor.h"
#include "base/source_dir_fixture.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

class Calling : public LogitsProcessor {
 public:
  using Call = std::function<void(const Row&, std::span<float>)>;
  explicit Calling(Call call) : call_(std::move(call)) {}
  void Process(const Row& row, std::span<float> logits) override { call_(row, logits); }

 private:
  const Call call_;
};

Request With(Calling::Call call, int tokens = 20) {
  Request request = TinyRequest(kPrompt, tokens);
  request.logits_processor = std::make_shared<Calling>(std::move(call));
  return request;
}

// Of an answer that is drawn from what two rows ago drew: it depends on every token.
void Shift(const LogitsProcessor::Row& row, std::span<float> logits) {
  size_t sum = row.prompt.size() + static_cast<size_t>(row.choice);
  for (const int32_t id : row.answer) sum += static_cast<size_t>(id);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] += static_cast<float>((i + sum) % 7);
}

TEST(LogitsProcessors, SeeThePromptTheAnswerAndTheModelsLogits) {
  const auto engine = OpenTiny(TinyOptions());
  Request plain = TinyRequest(kPrompt, 12);
  plain.logprobs = 3;
  const auto expected = Ask(*engine, plain);
  std::vector<std::vector<int32_t>> answers;
  std::vector<int32_t> likeliest;
  std::vector<size_t> sizes;
  Request request = With([&](const LogitsProcessor::Row& row, std::span<float> logits) {
    EXPECT_TRUE(std::ranges::equal(row.prompt, kPrompt));
    answers.emplace_back(row.answer.begin(), row.answer.end());
    sizes.push_back(logits.size());
    likeliest.push_back(
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  });
  request.max_tokens = 12;
  request.logprobs = 3;
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  // Whoever changes nothing gets the answer of those without, log-probs to the bit.
  EXPECT_EQ(answer->choices, expected->choices);
  EXPECT_EQ(likeliest, answer->choices[0].ids);
  ASSERT_EQ(answers.size(), 12u);  // once for each token
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(std::equal(answers[i].begin(), answers[i].end(), likeliest.begin(),
                           likeliest.begin() + static_cast<int64_t>(i)));
    EXPECT_EQ(sizes[i], static_cast<size_t>(engine->Info().vocab_size));
  }
  ExpectNothingLeft(*engine);
}

TEST(LogitsProcessors, WhatTheyLeaveIsWhatIsDrawnAndTold) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = With([](const LogitsProcessor::Row& row, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), -kInf);
    logits[40 + row.answer.size()] = 1.5f;
    logits[60] = 0.5f;
  });
  request.max_tokens = 4;
  request.logprobs = 1;
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  EXPECT_THAT(answer->choices[0].ids, ::testing::ElementsAre(40, 41, 42, 43));
  for (const double logprob : answer->choices[0].logprobs)
    EXPECT_NEAR(logprob, -std::log(1 + std::exp(-1.0)), 1e-5);
  // Bias comes behind it.
  request.sampling.logit_bias = {{60, 2.0}};
  EXPECT_THAT(Ask(*engine, request)->choices[0].ids, ::testing::Each(60));
}

TEST(LogitsProcessors, EachChoiceHasRowsOfItsOwn) {
  const auto engine = OpenTiny(TinyOptions());
  std::vector<int> calls(3);
  Request request = With([&](const LogitsProcessor::Row& row, std::span<float> logits) {
    ++calls.at(static_cast<size_t>(row.choice));
    std::fill(logits.begin(), logits.end(), -kInf);
    logits[static_cast<size_t>(50 + row.choice)] = 0.5f;
  });
  request.n = 3;
  request.max_tokens = 5;
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  for (int choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(answer->choices[choice].ids, std::vector<int32_t>(5, 50 + choice));
    EXPECT_EQ(calls[choice], 5);
  }
}

// Requests of several kinds, some with processors, alone and all at once.
std::vector<Request> Mixed() {
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    Request request = TinyRequest({3 + i, 33, 46, 7 + i, 20, 33, 46, 20}, 10 + i);
    request.logprobs = 1;
    request.sampling.seed = 70 + i;
    if (i % 3 == 1) request.sampling.temperature = 0.9;
    if (i % 2 == 0) request.logits_processor = std::make_shared<Calling>(&Shift);
    if (i == 2) request.n = 2;
    if (i == 4) request.choice = {"to the end", "to the", "once upon a time"};
    if (i == 6) request.sampling.repetition_penalty = 1.4;
    if (i == 8) request.min_tokens = 5, request.ignore_eos = false;
    if (i == 10) request.prompt_logprobs = 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

void ExpectSameTogether(const EngineOptions& alone, const EngineOptions& together) {
  std::vector<std::map<int, Answer::Choice>> expected;
  const auto one = OpenTiny(alone);
  for (Request& request : Mixed()) {
    const auto answer = Ask(*one, std::move(request));
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    expected.push_back(answer->choices);
  }
  EXPECT_NE(expected[0], expected[1]);
  const auto engine = OpenTiny(together);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<Answer>> answers;
    for (Request& request : Mixed()) {
      auto [answer, sink] = Answer::Make();
      ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
      answers.push_back(answer);
    }
    for (size_t i = 0; i < answers.size(); ++i) {
      answers[i]->Wait();
      EXPECT_TRUE(answers[i]->error.ok()) << answers[i]->error.message();
      EXPECT_EQ(answers[i]->choices, expected[i]) << "request " << i << " in round " << round;
    }
  }
  ExpectNothingLeft(*engine);
}

TEST(LogitsProcessors, AnswersAreThoseAloneAmongNeighboursAndWithOtherThreads) {
  EngineOptions options = TinyOptions();
  EngineOptions other = options;
  other.threads = 2;
  other.text_workers = 3;
  other.max_batch_tokens = 11;
  ExpectSameTogether(options, other);
}

TEST(LogitsProcessors, RecurrentLayersAndLittleMemoryChangeNothing) {
  EngineOptions options = TinyOptions("qwen3_next");
  ExpectSameTogether(options, options);
  options = TinyOptions();
  EngineOptions little = options;
  little.kv_memory = "48KiB";
  ExpectSameTogether(options, little);
}

// Drafts are none of theirs, whoever makes them; the others have theirs.
TEST(LogitsProcessors, DraftsChangeNoAnswer) {
  for (const char* const proposer : {"ngram", "suffix", "mtp"}) {
    const EngineOptions plain = TinyOptions(proposer == std::string("mtp") ? "mimo" : "qwen3");
    EngineOptions drafting = plain;
    drafting.speculate = proposer;
    drafting.speculate_adapt = false;
    drafting.draft_wait_us = 10'000'000;
    ExpectSameTogether(plain, drafting);
    const auto engine = OpenTiny(drafting);
    Request request = TinyRequest({20, 33, 46, 20, 33, 46, 20, 33}, 60);
    request.logits_processor =
        std::make_shared<Calling>([](const LogitsProcessor::Row&, std::span<float>) {});
    const auto processed = Ask(*engine, request);
    EXPECT_EQ(processed->usage.accepted_tokens + processed->usage.rejected_tokens, 0) << proposer;
    request.logits_processor = nullptr;
    const auto free = Ask(*engine, request);
    EXPECT_GT(free->usage.accepted_tokens + free->usage.rejected_tokens, 0) << proposer;
    EXPECT_EQ(free->choices, processed->choices) << proposer;
  }
}

// Its row is computed again until it is through, while the others go on.
TEST(LogitsProcessors, ASlowOneIsWaitedForByItselfAlone) {
  EngineOptions options = TinyOptions();
  options.text_workers = 2;
  const auto engine = OpenTiny(options);
  const auto quick = Ask(*engine, With(&Shift, 6));
  std::atomic<bool> go = false;
  std::atomic<int> calls = 0;
  auto [slow, slow_sink] = Answer::Make();
  Request request = With(
      [&](const LogitsProcessor::Row& row, std::span<float> logits) {
        if (calls++ == 2) {
          while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        Shift(row, logits);
      },
      6);
  const auto id = engine->Submit(std::move(request), slow_sink);
  ASSERT_TRUE(id.ok());
  while (calls < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // One of them has the other text worker; that beside the slow one has to wait for it.
  std::vector<std::shared_ptr<Answer>> others;
  std::shared_ptr<Answer> other;
  for (int i = 0; i < 2; ++i) {
    auto [answer, sink] = Answer::Make();
    const auto next = engine->Submit(TinyRequest(kPrompt, 30), sink);
    ASSERT_TRUE(next.ok());
    others.push_back(answer);
    if ((*next - *id) % 2 != 0) other = answer;
  }
  other->Wait();
  EXPECT_FALSE(slow->ended());
  EXPECT_GT(Metric(*engine, "sluice_late_masks_total"), 0);
  go = true;
  slow->Wait();
  EXPECT_EQ(slow->choices, quick->choices);
  EXPECT_EQ(calls, 6);
  for (const auto& answer : others) answer->Wait();
  ExpectNothingLeft(*engine);
}

TEST(LogitsProcessors, OneThatFailsFailsItsRequestAlone) {
  const auto engine = OpenTiny(TinyOptions());
  const auto neighbour = [] { return TinyRequest({5, 6, 7, 8, 9}, 40); };
  const auto expected = Ask(*engine, neighbour());
  const auto fail = [&](Calling::Call call, int n = 1) {
    auto [beside, sink] = Answer::Make();
    EXPECT_TRUE(engine->Submit(neighbour(), sink).ok());
    Request request = With([&call](const LogitsProcessor::Row& row, std::span<float> logits) {
      if (row.answer.size() == 3) call(row, logits);
    });
    request.n = n;
    const auto answer = Ask(*engine, request);
    beside->Wait();
    EXPECT_EQ(beside->choices, expected->choices);
    EXPECT_EQ(answer->error.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(answer->error.field(), "logits_processor");
    EXPECT_EQ(answer->lasts, 1);
    EXPECT_EQ(answer->after_last, 0);
    return answer->error.message();
  };
  using Row = LogitsProcessor::Row;
  EXPECT_EQ(fail([](const Row&, std::span<float>) { throw std::runtime_error("no\nluck"); }),
            "the logits processor threw: \"no\\x0aluck\"");
  EXPECT_THAT(fail([](const Row&, std::span<float>) { throw 7; }), HasSubstr("threw what is no"));
  EXPECT_THAT(fail([](const Row&, std::span<float> x) { x[17] = std::nanf(""); }),
              HasSubstr("left NaN for the id 17; it may leave"));
  EXPECT_THAT(fail([](const Row&, std::span<float> x) { x[3] = kInf; }),
              HasSubstr("left +inf for the id 3"));
  EXPECT_THAT(fail([](const Row&, std::span<float> x) { std::fill(x.begin(), x.end(), -kInf); }, 3),
              HasSubstr("left -inf for every id"));
  ExpectNothingLeft(*engine);
}

TEST(LogitsProcessors, CancelledOnesLeaveNothingBehind) {
  const auto engine = OpenTiny(TinyOptions());
  std::atomic<int> calls = 0;
  auto [answer, sink] = Answer::Make();
  const auto id = engine->Submit(
      With([&](const LogitsProcessor::Row&, std::span<float>) { ++calls; }, 100), sink);
  ASSERT_TRUE(id.ok());
  while (calls < 5) std::this_thread::yield();
  engine->Cancel(*id);
  answer->Wait();
  EXPECT_TRUE(answer->choices[0].finish == FinishReason::kCancelled ||
              answer->choices[0].finish == FinishReason::kLength);
  ExpectNothingLeft(*engine);
}

TEST(LogitsProcessors, AreRefusedWhereNothingIsDrawn) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = With(&Shift);
  request.beams.widths = {2};
  const Status beams = Ask(*engine, request)->error;
  EXPECT_EQ(beams.field(), "logits_processor");
  EXPECT_THAT(beams.message(), HasSubstr("send it without logits_processor"));
  // A prompt alone draws nothing, and is told as ever.
  int calls = 0;
  request = With([&](const LogitsProcessor::Row&, std::span<float>) { ++calls; }, 0);
  request.prompt_logprobs = 0;
  EXPECT_EQ(Ask(*engine, request)->prompt.size(), kPrompt.size());
  EXPECT_EQ(calls, 0);
  EngineOptions encoder = TinyOptions();
  encoder.model = SourceDir() + "/tests/golden/encoders/bert";
  encoder.max_model_len = 0;
  encoder.max_batch_tokens = 256;
  encoder.kv_dtype = "auto";
  const auto embedder = OpenTiny(encoder);
  request = With(&Shift);
  request.prompt = std::string("a text");
  request.embed = true;
  EXPECT_EQ(Ask(*embedder, request)->error.field(), "logits_processor");
}

}  // namespace
}  // namespace sluice::engine
