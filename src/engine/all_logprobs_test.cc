// Whole distributions of generated tokens, through the engine: raw and filtered, what they must sum
// to and agree with, that they change no answer, and what limits them.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/engine_fixture.h"
#include "sluice/limits.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

struct Told {
  std::shared_ptr<Answer> answer;
  std::vector<TokenInfo> tokens;
};

Told AskFor(Engine& engine, Request request, Distribution which) {
  request.all_logprobs = which;
  Told told;
  auto [answer, sink] = Answer::Make();
  told.answer = answer;
  const auto id = engine.Submit(std::move(request), [&, take = sink](TextDelta&& delta) {
    told.tokens.insert(told.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    take(std::move(delta));
  });
  EXPECT_TRUE(id.ok()) << id.status().message();
  if (id.ok()) answer->Wait();
  return told;
}

double Sum(const std::vector<float>& logprobs) {
  double sum = 0;
  for (const float logprob : logprobs) sum += std::exp(static_cast<double>(logprob));
  return sum;
}

Request Sampled() {
  Request request = TinyRequest(kPrompt, 16);
  request.sampling.temperature = 0.8;
  request.sampling.top_k = 12;
  request.sampling.seed = 5;
  request.sampling.frequency_penalty = 0.4;
  return request;
}

TEST(AllLogprobs, RawOnesAreTheModelsWhateverTheFilters) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = Sampled();
  const auto plain = Ask(*engine, request);
  request.logprobs = 4;
  const Told told = AskFor(*engine, request, Distribution::kRaw);
  EXPECT_EQ(told.answer->choices[0].ids, plain->choices[0].ids);
  ASSERT_EQ(told.tokens.size(), 16u);
  for (const TokenInfo& token : told.tokens) {
    ASSERT_EQ(token.all_logprobs.size(), static_cast<size_t>(engine->Info().vocab_size));
    EXPECT_NEAR(Sum(token.all_logprobs), 1.0, 1e-4);
    // The same numbers as those of the best few, to the bit.
    EXPECT_EQ(token.all_logprobs[token.id], static_cast<float>(*token.logprob));
    for (const TopToken& top : token.top)
      EXPECT_EQ(token.all_logprobs[top.id], static_cast<float>(top.logprob));
  }
}

TEST(AllLogprobs, FilteredOnesAreWhatATokenIsDrawnFrom) {
  const auto engine = OpenTiny(TinyOptions());
  const Request request = Sampled();
  const auto plain = Ask(*engine, request);
  const Told told = AskFor(*engine, request, Distribution::kFiltered);
  EXPECT_EQ(told.answer->choices[0].ids, plain->choices[0].ids);
  for (const TokenInfo& token : told.tokens) {
    EXPECT_FALSE(token.logprob.has_value());  // which was not asked for
    EXPECT_NEAR(Sum(token.all_logprobs), 1.0, 1e-4);
    EXPECT_EQ(std::ranges::count_if(token.all_logprobs, [](float x) { return x > -9999.0f; }), 12);
    EXPECT_GT(token.all_logprobs[token.id], -9999.0f);
  }
  Request greedy = TinyRequest(kPrompt, 4);
  for (const TokenInfo& token : AskFor(*engine, greedy, Distribution::kFiltered).tokens) {
    EXPECT_EQ(token.all_logprobs[token.id], 0.0f);
    EXPECT_EQ(Sum(token.all_logprobs), 1.0);
  }
}

// What is held back has no share.
TEST(AllLogprobs, FilteredOnesFollowMasks) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = TinyRequest(kPrompt, 30);
  request.sampling.temperature = 1.0;
  request.choice = {"to the end", "to the", "once"};
  const Told told = AskFor(*engine, request, Distribution::kFiltered);
  ASSERT_TRUE(told.answer->error.ok()) << told.answer->error.message();
  for (const TokenInfo& token : told.tokens) {
    EXPECT_NEAR(Sum(token.all_logprobs), 1.0, 1e-4);
    EXPECT_LT(std::ranges::count_if(token.all_logprobs, [](float x) { return x > -9999.0f; }), 40);
  }
}

TEST(AllLogprobs, NeighboursAndDraftsChangeNothing) {
  const EngineOptions options = TinyOptions();
  for (const Distribution which : {Distribution::kRaw, Distribution::kFiltered}) {
    const auto alone = OpenTiny(options);
    const Told expected = AskFor(*alone, Sampled(), which);
    EngineOptions drafting = options;
    drafting.speculate = "ngram";
    drafting.speculate_adapt = false;
    const auto engine = OpenTiny(drafting);
    std::vector<std::shared_ptr<Answer>> others;
    for (int i = 0; i < 5; ++i) {
      auto [answer, sink] = Answer::Make();
      Request other = TinyRequest({20, 33, 46, 20, 33, 46, 20 + i}, 40);
      if (i % 2 == 0) other.all_logprobs = Distribution::kRaw;
      ASSERT_TRUE(engine->Submit(std::move(other), sink).ok());
      others.push_back(answer);
    }
    const Told told = AskFor(*engine, Sampled(), which);
    for (const auto& other : others) other->Wait();
    ASSERT_EQ(told.tokens.size(), expected.tokens.size());
    for (size_t i = 0; i < told.tokens.size(); ++i) {
      EXPECT_EQ(told.tokens[i].id, expected.tokens[i].id);
      EXPECT_EQ(told.tokens[i].all_logprobs, expected.tokens[i].all_logprobs) << i;
    }
    EXPECT_EQ(told.answer->usage.accepted_tokens + told.answer->usage.rejected_tokens, 0);
    ExpectNothingLeft(*engine);
  }
}

TEST(AllLogprobs, TheirLimitsAreTold) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = TinyRequest(kPrompt, 4);
  request.all_logprobs = Distribution::kRaw;
  request.n = 16;
  const int64_t row = 16LL * 4 * engine->Info().vocab_size;
  request.max_tokens = static_cast<int>(limits::kAllLogprobsBytesMax / row + 1);
  const Status status = Ask(*engine, request)->error;
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "max_tokens");
  EXPECT_THAT(status.message(), HasSubstr("the limit is 1073741824: set max_tokens to"));
  request.n = 1;
  request.max_tokens = 4;
  request.beams.widths = {2};
  EXPECT_EQ(Ask(*engine, request)->error.field(), "all_logprobs");
}

// What is open at once is counted, and counted off.
TEST(AllLogprobs, OpenOnesHaveALimitTogether) {
  EngineOptions options = TinyOptions();
  options.max_queue = 1 << 16;
  const auto engine = OpenTiny(options);
  ASSERT_TRUE(Pause(*engine).ok());
  Request request = TinyRequest(kPrompt, 1);
  request.all_logprobs = Distribution::kRaw;
  request.n = 16;
  const int64_t row = 16LL * 4 * engine->Info().vocab_size;
  std::vector<RequestId> ids;
  Status status;
  while (status.ok() && ids.size() < 100'000) {
    const auto id = engine->Submit(request, [](TextDelta&&) {});
    status = id.status();
    if (id.ok()) ids.push_back(*id);
  }
  EXPECT_EQ(static_cast<int64_t>(ids.size()), limits::kAllLogprobsRowBytesMax / row);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.field(), "all_logprobs");
  for (const RequestId id : ids) engine->Cancel(id);
  ASSERT_TRUE(Resume(*engine).ok());
  ASSERT_TRUE(engine->Drain(60).ok());
}

}  // namespace
}  // namespace sluice::engine
