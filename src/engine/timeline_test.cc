// The timeline of a request, by the whole engine over a tiny checkpoint.
#include "sluice/timeline.h"

#include <set>
#include <thread>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using Kind = TimelineEvent::Kind;

std::vector<int32_t> Prompt(int32_t first, size_t tokens) {
  std::vector<int32_t> prompt = {1};
  while (prompt.size() < tokens) prompt.push_back(100 + (first + 7 * prompt.size()) % 200);
  return prompt;
}

// Asks, and waits for the timeline to be complete.
std::shared_ptr<Timeline> Follow(Engine& engine, Request request) {
  auto timeline = std::make_shared<Timeline>();
  request.timeline = timeline;
  EXPECT_TRUE(Ask(engine, std::move(request))->error.ok());
  Settle(engine);
  return timeline;
}

TEST(EngineTimeline, TellsChunksStepsAndTimesInOrder) {
  const auto engine = OpenTiny(TinyOptions());  // 64 tokens a step
  const auto timeline = Follow(*engine, TinyRequest(Prompt(1, 100), 10));
  std::lock_guard lock(timeline->mutex);
  EXPECT_GT(timeline->submitted_us, 0);
  EXPECT_LE(timeline->submitted_us, timeline->queued_us);
  EXPECT_LE(timeline->queued_us, timeline->admitted_us);
  EXPECT_LE(timeline->admitted_us, timeline->events[0].begin_us);
  EXPECT_LE(timeline->events[0].end_us, timeline->events[1].begin_us);
  EXPECT_EQ(timeline->first_chunk_us, timeline->events[0].end_us);
  EXPECT_LT(timeline->first_chunk_us, timeline->first_token_us);  // which came with the second
  EXPECT_LE(timeline->first_token_us, timeline->ended_us);
  EXPECT_EQ(timeline->prompt_tokens, 100);
  EXPECT_EQ(timeline->cached_tokens, 0);
  EXPECT_EQ(timeline->drawn, 10);
  EXPECT_EQ(timeline->preemptions, 0);
  ASSERT_EQ(timeline->events.size(), 3u);
  EXPECT_EQ(timeline->events[0].kind, Kind::kPrefill);
  EXPECT_EQ(timeline->events[0].tokens, 64);
  EXPECT_EQ(timeline->events[1].tokens, 36);
  EXPECT_EQ(timeline->events[2].kind, Kind::kDecode);
  EXPECT_EQ(timeline->events[2].steps, 9);  // the first token came with the last chunk
  EXPECT_EQ(timeline->events[2].sequences, 9);
  for (const TimelineEvent& event : timeline->events) EXPECT_LT(event.begin_us, event.end_us);
  EXPECT_LE(timeline->events[2].end_us, timeline->ended_us);
}

TEST(EngineTimeline, APromptOfOneStepHasItsOwnTimes) {
  const auto engine = OpenTiny(TinyOptions());
  const auto timeline = Follow(*engine, TinyRequest(Prompt(1, 20), 1));
  std::lock_guard lock(timeline->mutex);
  ASSERT_EQ(timeline->events.size(), 1u);
  const TimelineEvent& prefill = timeline->events[0];
  EXPECT_EQ(prefill.kind, Kind::kPrefill);
  EXPECT_LE(timeline->admitted_us, prefill.begin_us);
  EXPECT_LT(prefill.begin_us, prefill.end_us);
  EXPECT_EQ(timeline->first_chunk_us, prefill.end_us);
  EXPECT_LE(prefill.end_us, timeline->first_token_us);
}

TEST(EngineTimeline, TellsWhatTheCacheHadAndEachChoice) {
  const auto engine = OpenTiny(TinyOptions());
  Ask(*engine, TinyRequest(Prompt(1, 60), 4));
  Request request = TinyRequest(Prompt(1, 60), 6);
  request.n = 3;
  request.sampling.temperature = 1.0;
  const auto timeline = Follow(*engine, std::move(request));
  std::lock_guard lock(timeline->mutex);
  EXPECT_EQ(timeline->cached_tokens, 56);  // whole blocks
  EXPECT_EQ(timeline->drawn, 18);
  std::set<int> choices;
  for (const TimelineEvent& event : timeline->events) choices.insert(event.choice);
  EXPECT_EQ(choices, (std::set<int>{0, 1, 2}));
}

TEST(EngineTimeline, TellsPreemption) {
  EngineOptions options = TinyOptions();
  options.kv_memory = "40KiB";  // 160 tokens, less than the four take
  const auto engine = OpenTiny(options);
  std::vector<std::shared_ptr<Timeline>> timelines;
  std::vector<std::shared_ptr<Answer>> answers;
  for (int32_t i = 0; i < 4; ++i) {
    Request request = TinyRequest(Prompt(i, 24), 60);
    request.timeline = timelines.emplace_back(std::make_shared<Timeline>());
    auto [answer, sink] = Answer::Make();
    ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
    answers.push_back(std::move(answer));
  }
  for (const auto& answer : answers) answer->Wait();
  Settle(*engine);
  int64_t preemptions = 0;
  for (const auto& timeline : timelines) {
    std::lock_guard lock(timeline->mutex);
    int64_t moments = 0;
    for (const TimelineEvent& event : timeline->events)
      moments += event.kind == Kind::kPreempted ? 1 : 0;
    EXPECT_EQ(moments, timeline->preemptions);
    EXPECT_EQ(timeline->drawn, 60);
    preemptions += timeline->preemptions;
  }
  EXPECT_EQ(preemptions, Metric(*engine, "vllm:num_preemptions_total"));
  EXPECT_GT(preemptions, 0) << "the test shows nothing";
}

TEST(EngineTimeline, CanBeReadWhileTheRequestWaits) {
  const auto engine = OpenTiny(TinyOptions());
  ASSERT_TRUE(Pause(*engine).ok());
  auto timeline = std::make_shared<Timeline>();
  Request request = TinyRequest(Prompt(1, 8), 4);
  request.timeline = timeline;
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
  while (engine->Info().waiting == 0) std::this_thread::yield();
  Settle(*engine);
  {
    std::lock_guard lock(timeline->mutex);
    EXPECT_GT(timeline->queued_us, 0);
    EXPECT_EQ(timeline->admitted_us, 0);
    EXPECT_EQ(timeline->ended_us, 0);
  }
  ASSERT_TRUE(Resume(*engine).ok());
  answer->Wait();
  std::lock_guard lock(timeline->mutex);
  EXPECT_GT(timeline->ended_us, 0);
  EXPECT_EQ(timeline->drawn, 4);
}

TEST(EngineTimeline, ARequestThatIsRefusedEndsToo) {
  const auto engine = OpenTiny(TinyOptions());
  auto timeline = std::make_shared<Timeline>();
  Request request = TinyRequest(Prompt(1, 8), 4);
  request.grammar = {Grammar::Kind::kRegex, "("};
  request.timeline = timeline;
  EXPECT_FALSE(Ask(*engine, std::move(request))->error.ok());
  ASSERT_TRUE(engine->Drain(10).ok());
  std::lock_guard lock(timeline->mutex);
  EXPECT_GT(timeline->ended_us, 0);
  EXPECT_EQ(timeline->queued_us, 0);
  EXPECT_TRUE(timeline->events.empty());
}

}  // namespace
}  // namespace sluice::engine
