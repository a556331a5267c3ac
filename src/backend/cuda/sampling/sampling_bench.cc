// Sampling on a GPU: microseconds per call for rows of 128k logits shaped like a language model's
// (a few far above a wide middle).
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>

#include "backend/cuda/device_fixture.h"
#include "ops/sampling.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Sample;
using ops::SampleRow;

constexpr int64_t kVocab = 128256;
constexpr int kTopMax = 20, kCalls = 20, kEdits = 2000;

template <class T>
Array Bytes(const std::vector<T>& values) {
  Array array(DType::kU8, {static_cast<int64_t>(values.size()), int64_t{sizeof(T)}});
  std::memcpy(array.tensor().data, values.data(), values.size() * sizeof(T));
  return array;
}

Array RandomLogits(int64_t rows) {
  ops::TestNoise noise(3);
  Array logits(DType::kF32, {rows, kVocab});
  float* x = logits.tensor().ptr<float>();
  for (int64_t i = 0; i < rows * kVocab; ++i)
    x[i] = 2.5f * (noise.Value() + noise.Value() + noise.Value());
  for (int64_t r = 0; r < rows; ++r) {
    for (int i = 0; i < 60; ++i)
      x[r * kVocab + noise.Below(kVocab)] = 10.0f - 2.0f * std::log(1.0f - std::abs(noise.Value()));
  }
  return logits;
}

void Run(benchmark::State& state, SampleRow row, bool edits, int64_t rows) {
  DeviceMemory& memory = BenchMemory();
  std::vector<SampleRow> params;
  std::vector<ops::LogitEdit> changes;
  ops::TestNoise noise(4);
  for (int64_t r = 0; r < rows; ++r) {
    row.seed = noise.Next();
    if (edits) {
      row.edit_begin = static_cast<int32_t>(changes.size());
      row.edit_count = kEdits;
      for (int e = 0; e < kEdits; ++e) {
        ops::LogitEdit edit;
        edit.id = static_cast<int32_t>(e * (kVocab / kEdits) + noise.Below(kVocab / kEdits));
        edit.repetition = 1.1f;
        edit.subtract = 0.5f;
        changes.push_back(edit);
      }
    }
    params.push_back(row);
  }
  Sample::Args args;
  args.logits = memory.Upload(RandomLogits(rows));
  args.rows = memory.Upload(Bytes(params));
  if (edits) args.edits = memory.Upload(Bytes(changes));
  args.outputs = memory.Upload(Bytes(std::vector<ops::SampleOutput>(rows)));
  args.top_ids = memory.Upload(Array(DType::kI32, {rows, kTopMax + 1}));
  args.top_logprobs = memory.Upload(Array(DType::kF32, {rows, kTopMax + 1}));
  const auto bound = ops::Bind<Sample>(memory.device().ops(), {kVocab, kTopMax});
  if (!bound.ok()) return state.SkipWithError(bound.status().message().c_str());
  const auto call = [&] { return (*bound)(memory.stream(), args).ok(); };
  if (!call() || !memory.stream().Synchronize().ok()) return state.SkipWithError("sample");
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    bool ok = true;
    for (int i = 0; i < kCalls; ++i) ok &= call();
    ok &= memory.stream().Synchronize().ok();
    if (!ok) return state.SkipWithError("sample");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(took.count() / kCalls);
  }
  memory.FreeAll();
}

void RegisterAll() {
  if (!HasDevice()) return;
  struct Kind {
    const char* name;
    SampleRow row;
    bool edits = false;
  };
  const Kind kinds[] = {
      {"greedy", {.temperature = 0.0f}},
      {"temperature", {.temperature = 0.8f}},
      {"top_p_0.9_top_k_50", {.temperature = 0.8f, .top_k = 50, .top_p = 0.9f}},
      {"top_p_0.9", {.temperature = 0.8f, .top_p = 0.9f}},
      {"penalties_top_p_0.9_top_k_50", {.temperature = 0.8f, .top_k = 50, .top_p = 0.9f}, true},
      {"top_k_50_and_20_logprobs", {.temperature = 0.8f, .top_k = 50, .top_logprobs = 20}},
  };
  for (const Kind& kind : kinds) {
    for (const int rows : {1, 64, 256}) {
      benchmark::RegisterBenchmark(
          StrCat(kind.name, "/rows:", rows).c_str(),
          [=](benchmark::State& state) { Run(state, kind.row, kind.edits, rows); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.05);
    }
  }
}
const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace sluice::cuda
