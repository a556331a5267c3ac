// What sampling costs a step on the CPU, from the plan to the result, on one thread: greedy draws
// of `sequences` from 49,152 logits each, behind a history of 2,000 tokens, with penalties or
// without.
#include <benchmark/benchmark.h>

#include <random>

#include "base/check.h"
#include "device/resolver.h"
#include "sample/sampler.h"

namespace sluice::sample {
namespace {

constexpr int64_t kVocab = 49152;
constexpr int kHistory = 2000;

void BM_SampleStep(benchmark::State& state) {
  const auto sequences = static_cast<int32_t>(state.range(0));
  const bool penalties = state.range(1) != 0;
  const auto device =
      std::move(device::ResolveDevice("cpu", device::LinkedBackends())->Open({.threads = 1}))
          .value();
  const auto stream = std::move(device->CreateStream().value());
  const auto sampler = std::move(
      Sampler::Make(*device, {.vocab = kVocab, .slots = sequences, .rows_max = sequences}).value());
  auto step = std::move(sampler->MakeStep().value());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(sequences * kVocab));
  for (float& value : values) value = 2.5f * normal(random);
  const ops::Tensor logits =
      ops::Dense({reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float),
                  device::MemoryKind::kHost, device->facts().id},
                 DType::kF32, {sequences, kVocab});
  batch::BatchPlan plan;
  for (int32_t s = 0; s < sequences; ++s) {
    plan.entries.push_back({.sequence = static_cast<batch::SequenceId>(s + 1),
                            .slot = s,
                            .first_position = kHistory - 1,
                            .query_tokens = 1,
                            .token_begin = s,
                            .logits_begin = s,
                            .logits_count = 1});
    plan.tokens.push_back(0);
    plan.logits_rows.push_back({.token = s});
    batch::SlotStart start = {.slot = s, .prompt_tokens = kHistory};
    start.sampling.temperature = 0.0f;
    if (penalties) start.sampling.repetition_penalty = 1.1f;
    if (penalties) start.sampling.frequency_penalty = 0.2f;
    for (int i = 0; i < kHistory; ++i)
      start.history.push_back(static_cast<int32_t>(random() % kVocab));
    plan.starts.push_back(std::move(start));
  }
  batch::StepResult result;
  for (auto _ : state) {
    ++plan.step;
    sampler->Begin(plan);
    plan.starts.clear();
    sampler->Build(plan, &step);
    CHECK(sampler->Run(*stream, logits, &step).ok());
    sampler->Collect(plan, step, &result);
    for (batch::PlanEntry& entry : plan.entries) ++entry.first_position;
  }
}
BENCHMARK(BM_SampleStep)
    ->ArgNames({"sequences", "penalties"})
    ->ArgsProduct({{1, 32}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::sample
