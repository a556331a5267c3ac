#include "cli/load/answer_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::load {
namespace {

using End = Outcome::End;

// Reads events one after another; the first comes at 10, the next at 20, ...
Outcome Read(const std::vector<std::string>& events) {
  Outcome outcome;
  AnswerReader reader(&outcome);
  int64_t now_us = 0;
  for (const std::string& event : events) {
    now_us += 10;
    reader.Add("data: " + event + "\n\n", now_us);
  }
  reader.Finish(now_us + 10);
  return outcome;
}

TEST(AnswerReaderTest, PiecesWithTextAreTimedAndTokensAreTheServersCount) {
  const Outcome outcome =
      Read({R"({"choices":[{"text":"a","finish_reason":null}]})",
            R"({"choices":[{"text":"","finish_reason":null}]})",
            R"({"choices":[{"text":"bc","finish_reason":null}],"usage":null})",
            R"({"choices":[{"text":"","finish_reason":"length"}]})",
            R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}})", "[DONE]"});
  EXPECT_EQ(outcome.end, End::kCompleted);
  EXPECT_EQ(outcome.chunk_us, (std::vector<int64_t>{10, 30}));
  EXPECT_EQ(outcome.last_us, 40);
  EXPECT_EQ(outcome.input_tokens, 7);
  EXPECT_EQ(outcome.output_tokens, 5);
}

TEST(AnswerReaderTest, WithoutACountPiecesAreCountedAndWithoutTextTheEndIsTheTime) {
  Outcome outcome =
      Read({R"({"choices":[{"text":"a"}]})", R"({"choices":[{"text":"b"}]})", "[DONE]"});
  EXPECT_EQ(outcome.end, End::kCompleted);
  EXPECT_EQ(outcome.output_tokens, 2);
  outcome = Read({R"({"choices":[{"text":"","finish_reason":"length"}]})"});
  EXPECT_EQ(outcome.end, End::kCompleted);
  EXPECT_EQ(outcome.chunk_us, (std::vector<int64_t>{10}));
}

TEST(AnswerReaderTest, WhatIsCutOrWrongHasFailed) {
  Outcome outcome = Read({R"({"choices":[{"text":"a","finish_reason":null}]})"});
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_EQ(outcome.failure, "the answer was cut");
  outcome = Read({R"({"error":{"message":"out of memory"}})", "[DONE]"});
  EXPECT_EQ(outcome.failure, "an error in the stream");
  EXPECT_EQ(outcome.detail, "out of memory");
  for (const char* wrong : {"{", "[1]", "\"text\""}) {
    outcome = Read({wrong, "[DONE]"});
    EXPECT_EQ(outcome.failure, "the answer is no stream of completions") << wrong;
  }
}

TEST(AnswerReaderTest, OddTypesAreNoCrash) {
  const Outcome outcome =
      Read({R"({"choices":4})", R"({"choices":[4]})", R"({"choices":[{"text":4}]})",
            R"({"usage":4})", R"({"choices":[],"usage":{"completion_tokens":-3}})",
            R"({"choices":[],"usage":{"completion_tokens":1e30,"prompt_tokens":"x"}})",
            R"({"choices":[{"text":"a","finish_reason":"stop"}]})"});
  EXPECT_EQ(outcome.end, End::kCompleted);
  EXPECT_EQ(outcome.output_tokens, 1);
  EXPECT_EQ(outcome.input_tokens, 0);
}

TEST(ErrorSentenceTest, TheSentenceOfOpenAIsErrorsElseTheFirstBytes) {
  EXPECT_EQ(ErrorSentence(R"({"error":{"message":"full","type":"x"}})"), "full");
  EXPECT_EQ(ErrorSentence(R"({"error":"full"})"), "full");
  EXPECT_EQ(ErrorSentence(R"({"detail":"Not Found"})"), "Not Found");
  EXPECT_EQ(ErrorSentence("<html>"), "<html>");
  EXPECT_EQ(ErrorSentence(std::string(1000, 'x')).size(), 300u);
}

}  // namespace
}  // namespace sluice::load
