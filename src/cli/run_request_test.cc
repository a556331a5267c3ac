#include "cli/run_request.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

RunResult ResultOf(int prompt, int cached, int drawn) {
  RunResult result;
  result.usage.prompt_tokens = prompt;
  result.usage.cached_tokens = cached;
  result.usage.completion_tokens = drawn;
  result.usage.prefill_ms = 100;
  result.usage.decode_ms = 500;
  return result;
}

TEST(SpeedLine, GivesRatesOfWhatWasComputed) {
  EXPECT_EQ(SpeedLine(ResultOf(30, 10, 51)),
            "51 tokens, 100.0 tokens/s; prompt 30 tokens (10 cached), 200.0 tokens/s");
}

TEST(SpeedLine, SaysThatALimitCutTheAnswer) {
  RunResult result = ResultOf(7, 0, 5);
  result.finish = FinishReason::kLength;
  EXPECT_EQ(SpeedLine(result), "5 tokens (the limit); prompt 7 tokens (0 cached)");
}

TEST(SpeedLine, TellsHowManyDraftsWereAccepted) {
  RunResult result = ResultOf(30, 10, 51);
  result.usage.accepted_tokens = 12;
  result.usage.rejected_tokens = 8;
  EXPECT_EQ(SpeedLine(result),
            "51 tokens, 100.0 tokens/s, 12 of 20 drafts accepted; prompt 30 tokens (10 cached), "
            "200.0 tokens/s");
}

// Two tokens were once said to come at a million a second, or at one.
TEST(SpeedLine, GivesNoRateOfAFewTokens) {
  EXPECT_EQ(SpeedLine(ResultOf(7, 0, 8)), "8 tokens; prompt 7 tokens (0 cached)");
  EXPECT_EQ(SpeedLine(ResultOf(8, 0, 9)),
            "9 tokens, 16.0 tokens/s; prompt 8 tokens (0 cached), 80.0 tokens/s");
  EXPECT_EQ(SpeedLine(ResultOf(1, 0, 1)), "1 token; prompt 1 token (0 cached)");
  EXPECT_EQ(SpeedLine(ResultOf(30, 23, 0)), "0 tokens; prompt 30 tokens (23 cached)");
}

}  // namespace
}  // namespace sluice::cli
