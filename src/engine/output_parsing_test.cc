// Answers that are taken apart, through the whole engine: a tiny checkpoint that is held to the
// text of a call.
#include <condition_variable>
#include <future>
#include <mutex>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

struct Parts {
  std::string text, reasoning, name, arguments, id;
  FinishReason finish = FinishReason::kNone;
  size_t calls = 0;
  int tokens = 0;
};

Parts AskForParts(Engine& engine, Request request) {
  Parts parts;
  std::mutex mutex;
  std::condition_variable ended;
  bool last = false;
  const auto id = engine.Submit(std::move(request), [&](TextDelta&& delta) {
    std::lock_guard lock(mutex);
    parts.text += delta.text;
    parts.reasoning += delta.reasoning;
    parts.tokens += static_cast<int>(delta.tokens.size());
    for (const ToolCallDelta& call : delta.tool_calls) {
      parts.calls += call.name.empty() ? 0 : 1;
      parts.name += call.name;
      parts.id += call.id;
      parts.arguments += call.arguments;
    }
    if (delta.finish != FinishReason::kNone) parts.finish = delta.finish;
    last = delta.last;
    if (last) ended.notify_all();
  });
  EXPECT_TRUE(id.ok()) << id.status().message();
  std::unique_lock lock(mutex);
  if (id.ok()) ended.wait(lock, [&] { return last; });
  return parts;
}

Request Answering(std::string text, OutputParsing parsing) {
  Request request = TinyRequest({1, 75, 65, 67}, 110);
  request.choice = {std::move(text)};
  request.parsing = parsing;
  return request;
}

EngineOptions HermesOptions() {
  EngineOptions options = TinyOptions();
  options.tool_parser = "hermes";
  options.reasoning_parser = "think";
  return options;
}

constexpr const char* kCall = R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)";

TEST(OutputParsingTest, CallsAndThinkingAreEventsOfTheirOwn) {
  const auto engine = OpenTiny(HermesOptions());
  EXPECT_EQ(engine->Info().tool_parser, "hermes");
  EXPECT_EQ(engine->Info().reasoning_parser, "think");
  const Parts parts = AskForParts(*engine, Answering(std::string("<think>Hm.</think>So: ") + kCall,
                                                     {.reasoning = true, .tools = true}));
  EXPECT_EQ(parts.text, "So:");
  EXPECT_EQ(parts.reasoning, "Hm.");
  EXPECT_EQ(parts.calls, 1u);
  EXPECT_EQ(parts.name, "f");
  EXPECT_EQ(parts.arguments, R"({"a": 1})");
  EXPECT_EQ(parts.id.substr(0, 5), "call_");
  EXPECT_EQ(parts.finish, FinishReason::kToolCalls);
}

TEST(OutputParsingTest, AnAnswerEndsBehindTheOneCallThatIsWanted) {
  const auto engine = OpenTiny(HermesOptions());
  const std::string text = std::string(kCall) + kCall;
  const int both = AskForParts(*engine, Answering(text, {.tools = true})).tokens;
  const Parts parts = AskForParts(*engine, Answering(text, {.tools = true, .one_call = true}));
  EXPECT_EQ(parts.calls, 1u);
  EXPECT_EQ(parts.arguments, R"({"a": 1})");
  EXPECT_EQ(parts.finish, FinishReason::kToolCalls);
  EXPECT_LT(parts.tokens, both);
  ExpectNothingLeft(*engine);
}

TEST(OutputParsingTest, DraftsLogprobsAndMoreAnswersChangeNothing) {
  EngineOptions options = HermesOptions();
  options.speculate = "ngram";
  options.text_workers = 2;
  const auto engine = OpenTiny(options);
  for (int n = 1; n <= 3; ++n) {
    Request request = Answering(std::string("<think>Hm.</think>So: ") + kCall,
                                {.reasoning = true, .tools = true});
    request.n = n;
    request.logprobs = 2;
    const Parts parts = AskForParts(*engine, std::move(request));
    EXPECT_EQ(parts.calls, static_cast<size_t>(n));
    std::string arguments, reasoning;
    for (int i = 0; i < n; ++i) {
      arguments += R"({"a": 1})";
      reasoning += "Hm.";
    }
    EXPECT_EQ(parts.arguments.size(), arguments.size());
    EXPECT_EQ(parts.reasoning.size(), reasoning.size());
  }
}

// A question that has opened the thinking.
Request Thinking(int budget) {
  Request request = TinyRequest({}, 60);
  request.prompt = std::string("So? <think>");
  request.parsing.reasoning = true;
  request.thinking_budget = budget;
  request.ignore_eos = true;
  return request;
}

TEST(OutputParsingTest, ThinkingEndsBehindItsBudget) {
  const auto engine = OpenTiny(HermesOptions());
  for (const int budget : {0, 1, 7}) {
    const Parts parts = AskForParts(*engine, Thinking(budget));
    EXPECT_FALSE(parts.text.empty()) << budget;
    EXPECT_EQ(parts.reasoning.empty(), budget == 0) << parts.reasoning;
    EXPECT_EQ(parts.tokens, 60);
  }
  // Drafts change nothing.
  EngineOptions options = HermesOptions();
  options.speculate = "ngram";
  const auto drafting = OpenTiny(options);
  const Parts plain = AskForParts(*engine, Thinking(7));
  const Parts drafted = AskForParts(*drafting, Thinking(7));
  EXPECT_EQ(plain.reasoning, drafted.reasoning);
  EXPECT_EQ(plain.text, drafted.text);
  Request both = Thinking(7);
  both.sampling.no_repeat_ngram = 3;
  EXPECT_FALSE(engine->Submit(std::move(both), [](TextDelta&&) {}).ok());
  ExpectNothingLeft(*engine);
}

TEST(OutputParsingTest, AGrammarBeginsBehindTheThinking) {
  const auto engine = OpenTiny(HermesOptions());
  Request request = Thinking(5);
  request.grammar = {Grammar::Kind::kRegex, "[0-9]{3}"};
  const Parts parts = AskForParts(*engine, request);
  EXPECT_EQ(parts.text.size(), 3u) << parts.text;
  EXPECT_EQ(parts.text.find_first_not_of("0123456789"), std::string::npos) << parts.text;
  EXPECT_FALSE(parts.reasoning.empty());
  EXPECT_EQ(parts.finish, FinishReason::kStop);
  request.grammar = {};
  request.choice = {"yes"};
  EXPECT_EQ(AskForParts(*engine, request).text, "yes");
}

TEST(OutputParsingTest, ThinkingEndsWhenItIsAskedTo) {
  const auto engine = OpenTiny(HermesOptions());
  Request request = Thinking(-1);
  request.grammar = {Grammar::Kind::kRegex, "[0-9]{3}"};
  request.max_tokens = 200;
  std::mutex mutex;
  std::condition_variable ended;
  std::string text;
  bool last = false;
  const auto id = engine->Submit(std::move(request), [&](TextDelta&& delta) {
    std::lock_guard lock(mutex);
    text += delta.text;
    last = delta.last;
    if (last) ended.notify_all();
  });
  ASSERT_TRUE(id.ok()) << id.status().message();
  engine->EndThinking(*id);
  engine->EndThinking(*id + 1000);  // nobody's
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return last; });
  EXPECT_EQ(text.size(), 3u) << text;
}

// Waits until the text worker has done what was given to it before.
void LetTheWorkerCatchUp(Engine& engine) {
  std::promise<void> ended;
  const auto id = engine.Submit(TinyRequest({1, 75}, 5), [&](TextDelta&& delta) {
    if (delta.last) ended.set_value();
  });
  ASSERT_TRUE(id.ok()) << id.status().message();
  engine.Cancel(*id);
  ended.get_future().wait();
}

// Though nothing was held to anything when it began.
TEST(OutputParsingTest, ThinkingWithoutABudgetEndsWhenItIsAskedTo) {
  for (const char* speculate : {"none", "ngram"}) {
    EngineOptions options = HermesOptions();
    options.speculate = speculate;
    const auto engine = OpenTiny(options);
    ASSERT_TRUE(engine->Admin(R"({"command": "pause"})").ok());
    Request request = Thinking(0);
    request.thinking_budget.reset();
    request.n = 2;
    Parts parts;
    std::promise<void> ended;
    const auto id = engine->Submit(std::move(request), [&](TextDelta&& delta) {
      parts.text += delta.text;
      parts.reasoning += delta.reasoning;
      parts.tokens += static_cast<int>(delta.tokens.size());
      if (delta.finish != FinishReason::kNone) parts.finish = delta.finish;
      if (delta.last) ended.set_value();
    });
    ASSERT_TRUE(id.ok()) << id.status().message();
    LetTheWorkerCatchUp(*engine);  // the sequences are there, and have no masks
    engine->EndThinking(*id);
    LetTheWorkerCatchUp(*engine);  // and now they have
    ASSERT_TRUE(engine->Admin(R"({"command": "resume"})").ok());
    ended.get_future().wait();
    EXPECT_EQ(parts.reasoning, "") << speculate;
    EXPECT_FALSE(parts.text.empty()) << speculate;
    EXPECT_EQ(parts.tokens, 2 * 60) << speculate;
    EXPECT_EQ(parts.finish, FinishReason::kLength) << speculate;
    ExpectNothingLeft(*engine);
  }
}

// In the midst of it, wherever the step thread is then.
TEST(OutputParsingTest, ThinkingMayEndAtAnyMoment) {
  for (const char* speculate : {"none", "ngram"}) {
    EngineOptions options = HermesOptions();
    options.speculate = speculate;
    const auto engine = OpenTiny(options);
    for (const size_t events : {1, 2, 5, 20}) {
      Request request = Thinking(0);
      request.thinking_budget.reset();
      size_t seen = 0;
      int tokens = 0;
      std::promise<void> ended;
      std::promise<RequestId> told;
      auto id_of = told.get_future().share();
      const auto id = engine->Submit(std::move(request), [&, id_of](TextDelta&& delta) {
        tokens += static_cast<int>(delta.tokens.size());
        if (++seen == events) engine->EndThinking(id_of.get());
        EXPECT_TRUE(delta.error.ok()) << delta.error.message();
        if (delta.last) ended.set_value();
      });
      ASSERT_TRUE(id.ok()) << id.status().message();
      told.set_value(*id);
      ended.get_future().wait();
      EXPECT_EQ(tokens, 60);
    }
    ExpectNothingLeft(*engine);
  }
}

TEST(OutputParsingTest, WhatNobodyAsksForStaysText) {
  const auto engine = OpenTiny(HermesOptions());
  const Parts parts = AskForParts(*engine, Answering(kCall, {}));
  EXPECT_EQ(parts.text, kCall);
  EXPECT_EQ(parts.finish, FinishReason::kStop);
}

TEST(OutputParsingTest, AModelOfNoFamilyAnswersInText) {
  const auto engine = OpenTiny(TinyOptions());
  EXPECT_EQ(engine->Info().tool_parser, "none");
  EXPECT_EQ(AskForParts(*engine, Answering(kCall, {.reasoning = true, .tools = true})).text, kCall);
}

TEST(OutputParsingTest, AnAnswerThatIsCutWithinACallIsCutByLength) {
  const auto engine = OpenTiny(HermesOptions());
  Request request = Answering(kCall, {.tools = true});
  request.max_tokens = 20;
  const Parts parts = AskForParts(*engine, std::move(request));
  EXPECT_EQ(parts.finish, FinishReason::kLength);
}

TEST(OutputParsingTest, AStopStringBehindACallIsAStop) {
  const auto engine = OpenTiny(HermesOptions());
  Request request = Answering(std::string(kCall) + " end", {.tools = true});
  request.stop = {"end"};
  const Parts parts = AskForParts(*engine, std::move(request));
  EXPECT_EQ(parts.calls, 1u);
  EXPECT_EQ(parts.finish, FinishReason::kStop);
}

TEST(OutputParsingTest, AWrongNameIsRefusedAtTheStart) {
  EngineOptions options = TinyOptions();
  options.tool_parser = "hermse";
  const auto engine = Engine::Open(options, {});
  EXPECT_EQ(engine.status().field(), "tool-parser");
}

}  // namespace
}  // namespace sluice::engine
