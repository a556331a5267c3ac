// Answers that are held to given texts, through the whole engine over a tiny checkpoint, whose free
// answers are noise.
#include "engine/constraint.h"

#include <set>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

const std::vector<int32_t> kPrompt = {1, 75, 65, 67, 209, 98, 132, 267, 208, 233, 181, 53};
const std::vector<std::string> kColours = {"red", "red wine", "green", "blue", "\xE2\x82\xAC 5"};

Request Choosing(std::vector<std::string> choice, double temperature = 0) {
  Request request = TinyRequest(kPrompt, 60);
  request.choice = std::move(choice);
  request.sampling.temperature = temperature;
  return request;
}

bool IsOneOf(const std::string& text, const std::vector<std::string>& choices) {
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

TEST(Choice, EveryAnswerIsOneOfTheTexts) {
  const auto engine = OpenTiny(TinyOptions());
  std::set<std::string> seen;
  for (int seed = 0; seed < 60; ++seed) {
    Request request = Choosing(kColours, seed % 4 == 0 ? 0 : 2.0);
    request.sampling.seed = seed;
    request.n = 1 + seed % 3;
    if (seed % 5 > 1) request.logprobs = seed % 3;
    if (seed % 5 == 2) request.sampling.repetition_penalty = 1.5;
    if (seed % 5 == 3) request.sampling.frequency_penalty = 1.0;
    request.ignore_eos = seed % 2 == 0;
    const auto answer = Ask(*engine, request);
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    ASSERT_EQ(answer->choices.size(), static_cast<size_t>(request.n));
    for (const auto& [index, choice] : answer->choices) {
      EXPECT_TRUE(IsOneOf(choice.text, kColours)) << choice.text;
      EXPECT_EQ(choice.finish, FinishReason::kStop);
      EXPECT_EQ(choice.logprobs.size(), request.logprobs ? choice.ids.size() : 0u);
      seen.insert(choice.text);
    }
  }
  EXPECT_EQ(seen.size(), kColours.size());  // one that another continues may end and may go on
  ExpectNothingLeft(*engine);
}

TEST(Choice, TheMostLikelyTextIsThatOfAFreeAnswerWhereItIsAmongThem) {
  const auto engine = OpenTiny(TinyOptions());
  Request free = TinyRequest(kPrompt, 60);
  free.sampling.logit_bias = {{2, -100.0}};
  for (int id = 3; id < 320; ++id) {  // letters alone, so that the text is UTF-8
    if (id < 68 || id > 93) free.sampling.logit_bias.push_back({id, -100.0});
  }
  free.max_tokens = 9;
  const auto expected = Ask(*engine, free)->choices[0];
  ASSERT_EQ(expected.ids.size(), 9u);
  // Single bytes alone spell these, so nothing but the free answer's own ids is likelier.
  Request request = Choosing({expected.text, "zz" + expected.text, expected.text + "~"});
  request.sampling.logit_bias = free.sampling.logit_bias;
  request.logprobs = 0;
  request.sampling.logit_bias[0].second = 0;  // the end
  const auto answer = Ask(*engine, request)->choices[0];
  ASSERT_GE(answer.ids.size(), 9u);
  EXPECT_EQ(std::vector<int32_t>(answer.ids.begin(), answer.ids.begin() + 9), expected.ids);
}

TEST(Choice, ItWinsOverWhatWouldLeaveNothingOrNeverEnd) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = Choosing({"aaaaaaaa"});
  request.sampling.no_repeat_ngram = 1;
  request.min_tokens = 40;
  request.ignore_eos = true;
  request.sampling.logit_bias = {{2, -100.0}, {68, -100.0}};
  const auto answer = Ask(*engine, request);
  EXPECT_EQ(answer->choices[0].text, "aaaaaaaa");
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kStop);
  // What another text continues goes on for so long.
  request = Choosing({"a", "ab", "abcdefghij"});
  request.sampling.logit_bias = {{2, 100.0}};
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "a");
  request.min_tokens = 2;
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "ab");
  request.min_tokens = 20;
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "abcdefghij");
}

TEST(Choice, LengthsAndStopsStillEndAnAnswer) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = Choosing({"to the sea"});
  request.stop = {"sea"};
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "to the ");
  request = Choosing({"qqqqqq"});
  request.max_tokens = 3;
  const auto cut = Ask(*engine, request);
  EXPECT_EQ(cut->choices[0].text, "qqq");
  EXPECT_EQ(cut->choices[0].finish, FinishReason::kLength);
  request.max_tokens = 0;  // the prompt alone
  EXPECT_TRUE(Ask(*engine, request)->choices[0].ids.empty());
}

TEST(Choice, AFreeNeighbourAnswersAsIfAlone) {
  const auto engine = OpenTiny(TinyOptions());
  const Request free = TinyRequest(kPrompt, 40);
  const auto alone = Ask(*engine, free)->choices[0];
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(free, sink).ok());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(IsOneOf(Ask(*engine, Choosing(kColours, 1.0))->choices[0].text, kColours));
  }
  answer->Wait();
  EXPECT_EQ(answer->choices[0], alone);
}

TEST(Choice, TextsThatNoTokensSpellEndWithOneEvent) {
  const auto engine = OpenTiny(TinyOptions());
  // As bytes, not as the token.
  EXPECT_EQ(Ask(*engine, Choosing({"</s>"}))->choices[0].text, "</s>");
  const Constraints none(nullptr, 320, {2});
  EXPECT_EQ(none.WalkChoices({"a"}, {}, 1).status().field(), "choice");
}

// The worker of a request is held up in the middle of its answer: its rows draw nothing meanwhile,
// and another request's go on.
TEST(Choice, AMaskThatDoesNotComeHoldsUpItsOwnAnswerAlone) {
  EngineOptions options = TinyOptions();
  options.text_workers = 2;
  const auto engine = OpenTiny(options);
  const std::string text = "one two three four five";
  const auto expected = Ask(*engine, Choosing({text}))->choices[0];
  const Request free = TinyRequest(kPrompt, 40);
  const auto alone = Ask(*engine, free)->choices[0];
  std::mutex mutex;
  std::condition_variable opened;
  bool held = false, open = false;
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine
                  ->Submit(Choosing({text}),
                           [&, sink = sink](TextDelta&& delta) {
                             sink(std::move(delta));
                             std::unique_lock lock(mutex);
                             held = true;
                             opened.notify_all();
                             opened.wait(lock, [&] { return open; });
                           })
                  .ok());
  {
    std::unique_lock lock(mutex);
    opened.wait(lock, [&] { return held; });
  }
  // The requests before it and this one took worker 1, 0 and 1 of the two.
  EXPECT_EQ(Ask(*engine, free)->choices[0], alone);
  while (Metric(*engine, "sluice_late_masks_total") < 3) std::this_thread::yield();
  EXPECT_FALSE(answer->ended());
  {
    std::lock_guard lock(mutex);
    open = true;
  }
  opened.notify_all();
  answer->Wait();
  EXPECT_EQ(answer->choices[0], expected);
  ExpectNothingLeft(*engine);
}

}  // namespace
}  // namespace sluice::engine
