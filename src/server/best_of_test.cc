// best_of and beam searches from a body to an answer, over a fake engine.
#include <gtest/gtest.h>

#include "server/fake_engine.h"
#include "server/fake_exchange.h"
#include "server/generation.h"
#include "server/openai/openai_answer.h"

namespace sluice::server {
namespace {

class BestOfTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeExchange> Start(const std::string& body) {
    auto call = ParseCompletionCall(body, {.name = "tiny", .vocab_size = 256});
    EXPECT_TRUE(call.ok()) << call.status().message();
    auto exchange = std::make_shared<FakeExchange>();
    // Of which nobody is the owner but this.
    const std::shared_ptr<Engine> engine(std::shared_ptr<void>(), &engine_);
    StartGeneration(engine, *std::move(call), {.request_id = "id"}, &MakeFormat<OpenAiAnswer>, "",
                    &totals_, std::make_shared<RunningAnswers>(), nullptr, exchange);
    return exchange;
  }
  // An answer of tokens with these log-probs, in two events.
  void Answer(size_t request, int choice, const std::string& text,
              const std::vector<double>& logprobs, bool last) {
    TextDelta delta;
    delta.choice = choice;
    delta.text = text;
    for (const double logprob : logprobs) delta.tokens.push_back({1, "x", logprob, {}});
    engine_.EmitDelta(request, delta);
    engine_.Emit(request, "", FinishReason::kStop, last, choice);
  }

  FakeEngine engine_;
  TokenTotals totals_;
};

TEST_F(BestOfTest, TheAnswersWithTheBestMeanLogProbAreTold) {
  const auto exchange = Start(R"({"prompt":["a","b"],"n":2,"best_of":4,"echo":true})");
  ASSERT_EQ(engine_.submitted.size(), 2u);
  EXPECT_EQ(engine_.submitted[0].request.n, 4);
  EXPECT_EQ(engine_.submitted[0].request.logprobs, 0);
  Answer(0, 0, "worst", {-3.0, -3.0}, false);
  Answer(0, 1, "second", {-1.0, -1.0, -1.0, -1.0}, false);  // a low sum, but long
  Answer(0, 2, "best", {-0.5}, false);
  Answer(0, 3, "third", {-1.5}, true);
  for (const int choice : {0, 1, 2, 3}) {  // equal ones keep their order
    Answer(1, choice, std::to_string(choice), {-1.0}, choice == 3);
  }
  const Json body = exchange->body();
  std::vector<std::string> texts;
  for (const Json& choice : body["choices"]) {
    EXPECT_EQ(choice["index"], texts.size());
    EXPECT_TRUE(choice["logprobs"].is_null());
    texts.push_back(choice["text"]);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"abest", "asecond", "b0", "b1"}));
}

TEST_F(BestOfTest, LogProbsThatWereAskedForStayWithTheirAnswers) {
  const auto exchange = Start(R"({"prompt":"a","best_of":2,"logprobs":0})");
  Answer(0, 0, "worse", {-2.0}, false);
  Answer(0, 1, "better", {-1.0}, true);
  const Json body = exchange->body();
  ASSERT_EQ(body["choices"].size(), 1u);
  EXPECT_EQ(body["choices"][0]["text"], "better");
  EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"], (Json{-1.0}));
}

TEST_F(BestOfTest, AStreamOfABeamSearchHasEachAnswerInOnePiece) {
  const auto exchange =
      Start(R"({"prompt":"a","use_beam_search":true,"beam_width":4,"n":2,"stream":true})");
  EXPECT_EQ(engine_.submitted.at(0).request.beams.width(), 4);
  EXPECT_EQ(engine_.submitted.at(0).request.n, 2);
  engine_.Emit(0, "first", FinishReason::kLength, false, 0);
  engine_.Emit(0, "second", FinishReason::kStop, true, 1);
  const std::vector<std::string> events = exchange->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["text"], "first");
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["index"], 1);
  EXPECT_EQ(events[2], "[DONE]");
}

}  // namespace
}  // namespace sluice::server
