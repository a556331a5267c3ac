// Host cost of the scheduler: of a decode step (Plan and Commit for `batch` sequences of `context`
// tokens and up to kSteps more), and of prompts that share nothing, with the prefix cache and
// without, whose difference is what the cache costs when it finds nothing.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {
namespace {

constexpr int32_t kSteps = 500;

void Answer(const batch::BatchPlan& plan, batch::StepResult* result) {
  result->step = plan.step;
  result->entries.clear();
  result->tokens.clear();
  for (const batch::PlanEntry& entry : plan.entries) {
    batch::ResultEntry out;
    out.sequence = entry.sequence;
    out.token_begin = static_cast<int32_t>(result->tokens.size());
    out.token_count = entry.logits_count;
    if (entry.logits_count > 0) result->tokens.push_back({.id = 7});
    result->entries.push_back(out);
  }
}

void BM_DecodeStep(benchmark::State& state) {
  const auto batch = static_cast<int32_t>(state.range(0));
  const auto context = static_cast<int32_t>(state.range(1));
  SchedulerOptions options;
  options.max_num_seqs = batch;
  options.max_batch_tokens = 8192;
  options.max_model_len = 1 << 20;
  const int32_t per_sequence = (context + 4 * kSteps) / 16 + 2;
  auto scheduler =
      Scheduler::Create(options, {{batch::KvKind::kFull, 16, 16, 0, (batch + 1) * per_sequence}});
  CHECK(scheduler.ok(), scheduler.status().message());
  Scheduler& s = **scheduler;
  for (int32_t i = 1; i <= batch; ++i) {
    SequenceSpec spec;
    spec.id = static_cast<SequenceId>(i);
    spec.prompt.assign(context, i);
    spec.max_tokens = 4 * kSteps;
    CHECK(s.Add(std::move(spec), i).ok());
  }
  batch::BatchPlan plan;
  batch::StepResult result;
  CommitOutcome outcome;
  const auto step = [&] {
    s.Plan(0, &plan);
    Answer(plan, &result);
    s.Commit(result, &outcome);
  };
  do {
    step();
  } while (plan.entries.size() != static_cast<size_t>(batch) ||
           plan.tokens.size() != plan.entries.size());
  for (auto _ : state) step();
}
BENCHMARK(BM_DecodeStep)
    ->ArgNames({"batch", "context"})
    ->Args({1, 1000})
    ->Args({32, 1000})
    ->Args({256, 1000})
    ->Args({256, 8000})
    ->Iterations(kSteps)
    ->Repetitions(3)
    ->Unit(benchmark::kMicrosecond);

// One prompt of `prompt` tokens after another, one token drawn for each. The pool holds few of
// them, so that with the cache every prompt evicts an older one.
void BM_Prompt(benchmark::State& state) {
  const auto prompt = static_cast<int32_t>(state.range(0));
  SchedulerOptions options;
  options.max_num_seqs = 64;
  options.max_batch_tokens = 2048;
  options.max_model_len = 1 << 20;
  options.prefix_cache = state.range(1) != 0;
  auto scheduler = Scheduler::Create(options, {{batch::KvKind::kFull, 32, 32, 0, prompt / 2}});
  CHECK(scheduler.ok(), scheduler.status().message());
  Scheduler& s = **scheduler;
  batch::BatchPlan plan;
  batch::StepResult result;
  CommitOutcome outcome;
  int32_t drawn = 0;
  SequenceId id = 0;
  for (auto _ : state) {
    state.PauseTiming();
    SequenceSpec spec;
    spec.id = ++id;
    for (int32_t i = 0; i < prompt; ++i) spec.prompt.push_back(++drawn & 0xffffff);
    spec.max_tokens = 1;
    spec.prefix_cache = options.prefix_cache;
    state.ResumeTiming();
    CHECK(s.Add(std::move(spec), 0).ok());
    while (s.HasWork()) {
      s.Plan(0, &plan);
      Answer(plan, &result);
      s.Commit(result, &outcome);
    }
  }
  CHECK(s.Stats().prefix_hits == 0);
  state.counters["us_per_1000_tokens"] =
      benchmark::Counter(1e-9 * prompt * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Prompt)
    ->ArgNames({"prompt", "prefix_cache"})
    ->ArgsProduct({{128, 512, 2048}, {0, 1}})
    ->Iterations(kSteps)
    ->Repetitions(5)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::schedule
