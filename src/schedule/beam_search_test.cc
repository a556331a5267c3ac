#include "schedule/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

using batch::TokenLogprob;
using testing::ElementsAre;
using Row = std::vector<TokenLogprob>;

constexpr int32_t kStop = 3;

Tokens TokensOf(const BeamSearch& search, size_t answer) {
  batch::StepResult result;
  const int32_t count = search.Tell(search.answers()[answer], &result);
  EXPECT_EQ(count, static_cast<int32_t>(result.tokens.size()));
  Tokens tokens;
  for (const batch::ResultToken& token : result.tokens) tokens.push_back(token.id);
  return tokens;
}

BeamSearch Make(BeamOptions options, int32_t max_tokens) {
  return {std::move(options), {kEnd}, {kStop}, max_tokens};
}

TEST(BeamSearch, FollowsTheLargestSumsAndTellsTheirParents) {
  BeamSearch search = Make({.widths = {2}, .answers = 2}, 3);
  EXPECT_EQ(search.beams().size(), 1u);
  EXPECT_FALSE(search.ready());
  search.Take(0, Row{{10, -0.1f}, {11, -0.5f}, {12, -3.0f}});
  ASSERT_TRUE(search.ready());
  EXPECT_TRUE(search.Advance());
  ASSERT_EQ(search.beams().size(), 2u);
  EXPECT_EQ(search.beams()[0].token, 10);
  search.Take(1, Row{{20, -0.1f}, {21, -0.2f}, {22, -4.0f}});
  EXPECT_FALSE(search.ready());
  search.Take(0, Row{{20, -2.0f}, {21, -2.5f}, {22, -4.0f}});
  EXPECT_TRUE(search.Advance());
  EXPECT_EQ(search.beams()[0].parent, 1);  // both continue what was the second one
  EXPECT_EQ(search.beams()[1].parent, 1);
  EXPECT_NEAR(search.beams()[1].logprob, -0.7, 1e-6);
  for (const int32_t beam : {0, 1}) search.Take(beam, Row{{30, -0.1f}, {31, -1.0f}, {32, -2.0f}});
  EXPECT_FALSE(search.Advance());
  ASSERT_EQ(search.answers().size(), 2u);
  EXPECT_THAT(TokensOf(search, 0), ElementsAre(11, 20, 30));
  EXPECT_THAT(TokensOf(search, 1), ElementsAre(11, 21, 30));
  EXPECT_EQ(search.answers()[0].finish, FinishReason::kLength);
  EXPECT_NEAR(search.answers()[0].score, -0.7 / 3, 1e-6);
}

TEST(BeamSearch, AnEndAmongTheBestIsAnAnswerAndAnotherIsDropped) {
  BeamSearch search = Make({.widths = {2}, .answers = 1}, 8);
  search.Take(0, Row{{10, -0.1f}, {kEnd, -0.2f}, {11, -0.3f}, {kStop, -0.4f}});
  EXPECT_TRUE(search.Advance());
  ASSERT_EQ(search.answers().size(), 1u);
  EXPECT_EQ(search.answers()[0].finish, FinishReason::kEnd);
  EXPECT_THAT(TokensOf(search, 0), ElementsAre(kEnd));
  ASSERT_EQ(search.beams().size(), 2u);  // those that go on are as many as ever
  EXPECT_EQ(search.beams()[1].token, 11);
}

TEST(BeamSearch, EqualSumsGoToTheBetterBeamAndToken) {
  BeamSearch search = Make({.widths = {2}}, 8);
  search.Take(0, Row{{12, -1.0f}, {10, -1.0f}, {11, -1.0f}});
  EXPECT_TRUE(search.Advance());
  EXPECT_EQ(search.beams()[0].token, 12);
  EXPECT_EQ(search.beams()[1].token, 10);
}

TEST(BeamSearch, NoAnswerEndsBeforeMinTokens) {
  BeamSearch search = Make({.widths = {1}, .asked = {.min_tokens = 1}}, 8);
  search.Take(0, Row{{kEnd, -0.1f}, {kStop, -0.2f}, {10, -3.0f}});
  EXPECT_TRUE(search.Advance());
  EXPECT_EQ(search.beams()[0].token, 10);
  EXPECT_TRUE(search.answers().empty());
  search.Take(0, Row{{kStop, -0.2f}, {10, -3.0f}, {11, -4.0f}});
  EXPECT_FALSE(search.Advance());
  EXPECT_EQ(search.answers()[0].finish, FinishReason::kStop);
}

// An answer of one token stands; the beam beside it has -0.9 and could reach -1.0 behind ten.
BeamSearch WithOneAnswer(BeamOptions::Stop stop, double length_penalty, bool* goes_on) {
  BeamSearch search = Make({.widths = {1}, .length_penalty = length_penalty, .stop = stop}, 10);
  search.Take(0, Row{{kEnd, -0.5f}, {10, -0.9f}, {11, -2.0f}});
  *goes_on = search.Advance();
  return search;
}

TEST(BeamSearch, WhenItStopsIsChosen) {
  bool goes_on = false;
  WithOneAnswer(BeamOptions::Stop::kEarly, 1.0, &goes_on);
  EXPECT_FALSE(goes_on);
  WithOneAnswer(BeamOptions::Stop::kLikely, 1.0, &goes_on);
  EXPECT_FALSE(goes_on);
  BeamSearch search = WithOneAnswer(BeamOptions::Stop::kNever, 1.0, &goes_on);
  EXPECT_TRUE(goes_on);  // -0.9 / 10 would be better than -0.5
  search.Take(0, Row{{kEnd, -0.05f}, {10, -7.0f}, {11, -8.0f}});
  EXPECT_FALSE(search.Advance());  // -7.9 / 10 is worse than -0.95 / 2
  EXPECT_THAT(TokensOf(search, 0), ElementsAre(10, kEnd));
  WithOneAnswer(BeamOptions::Stop::kNever, 0.0, &goes_on);
  EXPECT_FALSE(goes_on);  // longer ones get no better
}

TEST(BeamSearch, WidthsChangeFromTokenToTokenAndTheLastGoesOn) {
  const Row row = {{10, -0.1f}, {11, -0.2f}, {12, -0.3f}, {13, -0.4f}, {14, -0.5f}};
  BeamSearch search = Make({.widths = {3, 1, 2}, .answers = 3}, 6);
  std::vector<size_t> widths;
  do {
    widths.push_back(search.beams().size());
    for (size_t b = 0; b < widths.back(); ++b) search.Take(static_cast<int32_t>(b), row);
  } while (search.Advance());
  EXPECT_THAT(widths, ElementsAre(1, 3, 1, 2, 2, 2));
  EXPECT_EQ(search.answers().size(), 3u);
}

TEST(BeamSearch, TellsTheLogProbsThatAreAskedFor) {
  BeamSearch search = Make({.widths = {2}, .answers = 2, .asked = {.top_logprobs = 1}}, 1);
  search.Take(0, Row{{10, -0.1f}, {11, -0.5f}, {12, -3.0f}});
  EXPECT_FALSE(search.Advance());
  batch::StepResult result;
  EXPECT_EQ(search.Tell(search.answers()[1], &result), 1);
  const batch::ResultToken& token = result.tokens[0];
  EXPECT_EQ(token.id, 11);
  EXPECT_FLOAT_EQ(token.logprob, -0.5f);
  EXPECT_EQ(token.rank, 1);
  ASSERT_EQ(token.top_count, 2);  // the best one, and the token itself
  EXPECT_EQ(result.top[token.top_begin].id, 10);
  EXPECT_EQ(result.top[token.top_begin + 1].id, 11);
}

TEST(BeamSearch, ABeamThatNothingMayFollowIsDroppedAndOthersGoOn) {
  BeamSearch search = Make({.widths = {2}, .answers = 2}, 8);
  search.Take(0, Row{{10, -0.1f}, {11, -0.5f}});
  EXPECT_TRUE(search.Advance());
  search.Take(0, {});
  EXPECT_FALSE(search.ready());
  search.Take(1, Row{{20, -0.3f}});
  ASSERT_TRUE(search.ready());
  EXPECT_TRUE(search.Advance());
  ASSERT_EQ(search.beams().size(), 1u);
  EXPECT_EQ(search.beams()[0].parent, 1);
  search.Take(0, Row{{kEnd, -4.0f}});  // it may do nothing else
  EXPECT_FALSE(search.Advance());
  ASSERT_EQ(search.answers().size(), 1u);  // there is no second one
  EXPECT_THAT(TokensOf(search, 0), ElementsAre(11, 20, kEnd));
  EXPECT_EQ(search.answers()[0].finish, FinishReason::kEnd);
}

TEST(BeamSearch, WithoutABeamThatAnythingMayFollowItIsOverWithoutAnAnswer) {
  BeamSearch search = Make({.widths = {2}, .answers = 2}, 8);
  search.Take(0, {});
  ASSERT_TRUE(search.ready());
  EXPECT_FALSE(search.Advance());
  EXPECT_TRUE(search.answers().empty());
}

TEST(BeamSearch, RowsThatAreForgottenAreWantedAgain) {
  BeamSearch search = Make({.widths = {1}}, 8);
  search.Take(0, Row{{10, -0.1f}, {11, -0.5f}});
  search.ForgetRows();
  EXPECT_FALSE(search.ready());
  search.Take(0, Row{{10, -0.1f}, {11, -0.5f}});
  search.Take(0, Row{{10, -0.1f}, {11, -0.5f}});  // twice is once
  EXPECT_TRUE(search.ready());
}

}  // namespace
}  // namespace sluice::schedule
