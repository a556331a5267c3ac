#include "engine/update_batch.h"

#include <gtest/gtest.h>

#include "engine/request_state.h"

namespace sluice::engine {
namespace {

using schedule::FinishReason;

// Choice `choice` drew `ids`, the first of them with two log-probs when `with_logprobs`.
struct GivenStep {
  batch::StepResult result;
  schedule::SequenceOutcome outcome;

  GivenStep(int choice, std::vector<int32_t> ids, bool with_logprobs) {
    result.tokens.push_back({.id = 99});  // of another sequence
    outcome.choice = choice;
    outcome.token_begin = 1;
    outcome.token_count = static_cast<int32_t>(ids.size());
    outcome.drawn = outcome.token_count + 7;
    for (const int32_t id : ids) {
      batch::ResultToken token{.id = id};
      if (with_logprobs) {
        token.top_begin = static_cast<int32_t>(result.top.size());
        token.top_count = 2;
        result.top.push_back({id, -0.5f});
        result.top.push_back({id + 1, -1.5f});
      }
      result.tokens.push_back(token);
    }
  }
  void Score(std::vector<int32_t> ids) {
    outcome.score_count = static_cast<int32_t>(ids.size());
    for (const int32_t id : ids) {
      result.scores.push_back(
          {.id = id, .top_begin = static_cast<int32_t>(result.top.size()), .top_count = 1});
      result.top.push_back({id, -0.25f});
    }
  }
};

std::vector<int32_t> Ids(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

// What each update of `batch` points at, spelled out.
std::string Describe(const UpdateBatch& batch) {
  std::string text;
  for (const ChoiceUpdate& update : batch.updates()) {
    text += "choice " + std::to_string(update.choice) + ":";
    for (const int32_t id : batch.IdsOf(update)) text += " " + std::to_string(id);
    for (const batch::ResultToken& token : batch.TokensOf(update)) {
      text += " token " + std::to_string(token.id);
      for (const auto& top : batch.TopOf(token)) text += "/" + std::to_string(top.id);
    }
    if (const UpdateDetails* details = batch.DetailsOf(update)) {
      for (const batch::ResultToken& score : batch.ScoresOf(*details)) {
        text += " score " + std::to_string(score.id);
        for (const auto& top : batch.TopOf(score)) text += "/" + std::to_string(top.id);
      }
    }
    if (const Status* error = batch.ErrorOf(update)) text += " error " + error->message();
    text += "; ";
  }
  return text;
}

TEST(UpdateBatch, TokensWithoutLogProbsAreIdsAlone) {
  UpdateBatch batch;
  const GivenStep step(3, {5, 6}, false);
  batch.Add(nullptr, step.outcome, step.result, 11);
  ASSERT_EQ(batch.updates().size(), 1u);
  const ChoiceUpdate& update = batch.updates()[0];
  EXPECT_EQ(Ids(batch.IdsOf(update)), (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(update.now_us, 11);
  EXPECT_EQ(batch.DetailsOf(update), nullptr);
  EXPECT_TRUE(batch.TokensOf(update).empty());
  EXPECT_EQ(batch.items(), 2u);
}

TEST(UpdateBatch, TheFirstTokenTellsWhenTheSequenceWasAdmitted) {
  UpdateBatch batch;
  GivenStep step(0, {5}, false);
  step.outcome.drawn = 1;
  step.outcome.admitted_us = 77;
  step.outcome.cached_tokens = 32;
  batch.Add(nullptr, step.outcome, step.result, 0);
  const UpdateDetails* details = batch.DetailsOf(batch.updates()[0]);
  ASSERT_NE(details, nullptr);
  EXPECT_EQ(details->admitted_us, 77);
  EXPECT_EQ(details->cached_tokens, 32);
}

// A batch that finds another one waiting is put behind it: every index moves.
TEST(UpdateBatch, AppendedBatchesSayWhatTheySaidAlone) {
  const auto fill = [](UpdateBatch* batch, int from) {
    const GivenStep plain(from, {10 * from}, false);
    batch->Add(nullptr, plain.outcome, plain.result, 0);
    GivenStep rich(from + 1, {10 * from + 1, 10 * from + 2}, true);
    rich.Score({10 * from + 3, 10 * from + 4});
    batch->Add(nullptr, rich.outcome, rich.result, 0);
    batch->AddEnd({.choice = static_cast<uint8_t>(from + 2), .finish = FinishReason::kError}, {},
                  Status(StatusCode::kInternal, "no " + std::to_string(from)));
  };
  UpdateBatch first, second, third;
  fill(&first, 1);
  fill(&second, 4);
  fill(&third, 7);
  const std::string expected = Describe(first) + Describe(second) + Describe(third);
  EXPECT_NE(expected.find("choice 5: 41 42 token 41/41/42 token 42/42/43 score 43/43 score 44/44"),
            std::string::npos)
      << expected;
  UpdateBatch all;
  all.Append(&first);
  all.Append(&second);
  all.Append(&third);
  EXPECT_EQ(Describe(all), expected);
  EXPECT_TRUE(first.empty() && second.empty() && third.empty());
}

TEST(UpdateBatch, RetiredRequestsLiveUntilClear) {
  auto request = std::make_shared<RequestState>();
  const std::weak_ptr<RequestState> seen = request;
  UpdateBatch from, to;
  from.Retire(std::move(request));
  EXPECT_FALSE(from.empty());
  to.AddEnd({}, {}, OkStatus());
  to.Append(&from);
  EXPECT_TRUE(from.empty());
  EXPECT_FALSE(seen.expired());
  to.Clear();
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace sluice::engine
