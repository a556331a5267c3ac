// Tokens that a constraint leaves no choice about are verified as drafts: answers of every kind are
// the same as without, ids and log-probs to the bit, and take fewer steps.
#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

const std::vector<int32_t> kJumpPrompt = {1, 75, 65, 67, 109, 98, 32, 67, 108, 33, 81, 53};
const char* const kJumpSchema = R"({"type": "object", "properties": {
    "colour": {"enum": ["red", "green", "blue"]},
    "a_long_name": {"type": "integer", "minimum": 0, "maximum": 99},
    "another": {"const": "always the same"}},
    "required": ["colour", "a_long_name", "another"], "additionalProperties": false})";

// All that is forced is found in time, however busy the machine is.
EngineOptions Jumping(EngineOptions options) {
  options.jump_forward = true;
  options.draft_wait_us = 10'000'000;
  return options;
}

EngineOptions Plain(const std::string& model = "llama") {
  EngineOptions options = TinyOptions(model);
  options.jump_forward = false;
  return options;
}

std::vector<Request> JumpRequests() {
  std::vector<Request> requests;
  const auto add = [&](Grammar::Kind kind, std::string text) -> Request& {
    Request request = TinyRequest(kJumpPrompt, 100);
    request.grammar = {kind, std::move(text)};
    request.logprobs = 2;
    request.sampling.seed = static_cast<int64_t>(requests.size());
    return requests.emplace_back(std::move(request));
  };
  add(Grammar::Kind::kJsonSchema, kJumpSchema);
  add(Grammar::Kind::kJsonSchema, kJumpSchema).sampling.temperature = 1.5;
  add(Grammar::Kind::kJsonSchema, kJumpSchema).n = 3;
  requests.back().sampling.temperature = 1.0;
  Request& penalized = add(Grammar::Kind::kJsonSchema, kJumpSchema);
  penalized.sampling.repetition_penalty = 1.4;
  penalized.sampling.frequency_penalty = 0.5;
  penalized.logprobs.reset();
  add(Grammar::Kind::kJsonSchema, kJumpSchema).max_tokens = 17;
  add(Grammar::Kind::kJsonSchema, kJumpSchema).stop = {"long"};
  add(Grammar::Kind::kRegex, "id-[0-9]{3} of the (first|second) kind").sampling.temperature = 2.0;
  add(Grammar::Kind::kRules, "root ::= \"yes, \" [a-c] \" and so on, for ever\"");
  // It never ends, and is cut.
  add(Grammar::Kind::kRules, "root ::= \"ab\" root").max_tokens = 30;
  Request& choice = requests.emplace_back(TinyRequest(kJumpPrompt, 60));
  choice.choice = {"one of two long texts", "one of two longer texts"};
  choice.logprobs = 0;
  return requests;
}

class JumpForward : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, JumpForward, ::testing::Values("llama", "gemma2", "mimo"));

TEST_P(JumpForward, ChangesNoAnswerAndTakesFewerSteps) {
  const auto plain = OpenTiny(Plain(GetParam()));
  for (const char* const speculate : {"none", "ngram"}) {
    EngineOptions options = Jumping(Plain(GetParam()));
    options.speculate = speculate;
    const auto jumping = OpenTiny(options);
    int number = 0;
    for (const Request& request : JumpRequests()) {
      SCOPED_TRACE(++number);
      const auto expected = Ask(*plain, request), answer = Ask(*jumping, request);
      ASSERT_TRUE(answer->error.ok()) << answer->error.message();
      EXPECT_TRUE(answer->choices == expected->choices) << answer->choices[0].text;
      EXPECT_GT(answer->usage.accepted_tokens, 0);
    }
    ExpectNothingLeft(*jumping);  // what a step counts follows its answers
    EXPECT_LT(jumping->Info().steps * 10, plain->Info().steps * 8);
    EXPECT_GT(Metric(*jumping, "sluice_forced_accepted_tokens_total"), 100);
    EXPECT_LE(Metric(*jumping, "sluice_forced_accepted_tokens_total"),
              Metric(*jumping, "vllm:spec_decode_num_accepted_tokens_total"));
  }
  EXPECT_EQ(Metric(*plain, "vllm:spec_decode_num_draft_tokens_total"), 0);
}

TEST(JumpForwardOptions, ItIsLeftOutWhereItWouldChangeAnswersOrHasNoState) {
  EngineOptions rejecting = Jumping(Plain());
  rejecting.speculate_verify = "rejection";
  for (const EngineOptions& options : {rejecting, Jumping(Plain("qwen3_next"))}) {
    const auto engine = OpenTiny(options);
    const auto answer = Ask(*engine, JumpRequests()[0]);
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    EXPECT_EQ(Metric(*engine, "sluice_forced_draft_tokens_total"), 0);
  }
  // With --speculate there are states behind drafts.
  EngineOptions options = Jumping(Plain("qwen3_next"));
  options.speculate = "ngram";
  options.kv_memory = "16MiB";
  const auto engine = OpenTiny(options);
  const auto plain = OpenTiny(Plain("qwen3_next"));
  EXPECT_TRUE(Ask(*engine, JumpRequests()[0])->choices == Ask(*plain, JumpRequests()[0])->choices);
  ExpectNothingLeft(*engine);
  EXPECT_GT(Metric(*engine, "sluice_forced_accepted_tokens_total"), 0);
}

TEST(JumpForwardOptions, AForcedDraftWinsOverAGuessedOne) {
  EngineOptions options = Jumping(Plain());
  options.speculate = "suffix";
  options.speculate_adapt = false;
  const auto engine = OpenTiny(options);
  Request request = TinyRequest(kJumpPrompt, 60);
  request.choice = {"one two three four"};
  request.prediction = "one two five six";
  const auto answer = Ask(*engine, request);
  EXPECT_EQ(answer->choices[0].text, "one two three four");
  ExpectNothingLeft(*engine);
  EXPECT_EQ(Metric(*engine, "sluice_forced_draft_tokens_total"),
            Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"));
}

// Neighbours that come and go, and one that is cancelled in the middle.
TEST(JumpForwardOptions, NeighboursAndCancelsChangeNothing) {
  const auto plain = OpenTiny(Plain());
  const auto engine = OpenTiny(Jumping(Plain()));
  std::vector<std::shared_ptr<Answer>> answers;
  for (const Request& request : JumpRequests()) {
    auto [answer, sink] = Answer::Make();
    ASSERT_TRUE(engine->Submit(request, sink).ok());
    answers.push_back(answer);
    auto id = std::make_shared<std::atomic<RequestId>>(0);
    auto [cancelled, cancelled_sink] = Answer::Make();
    auto taken = engine->Submit(request, [&engine, id, to = cancelled_sink](TextDelta&& delta) {
      const bool last = delta.last;
      to(std::move(delta));
      if (!last && *id != 0) engine->Cancel(*id);
    });
    ASSERT_TRUE(taken.ok());
    *id = *taken;
    answers.push_back(cancelled);
  }
  for (const auto& answer : answers) answer->Wait();
  size_t at = 0;
  for (const Request& request : JumpRequests()) {
    EXPECT_TRUE(answers[at]->choices == Ask(*plain, request)->choices) << at;
    at += 2;
  }
  ExpectNothingLeft(*engine);
}

}  // namespace
}  // namespace sluice::engine
