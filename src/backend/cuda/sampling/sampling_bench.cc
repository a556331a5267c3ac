// Sampling on a GPU: microseconds per call for rows of 128k logits shaped like a language model's
// (a few far above a wide middle).
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>

#include "backend/cuda/device_fixture.h"
#include "ops/sampling.h"
#include "ops/token_counts.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Sample;
using ops::SampleRow;

constexpr int64_t kVocab = 128256;
constexpr int kTopMax = 20, kCalls = 20, kIds = 2000;

// What changes logits before a draw: edits, or counts of as many ids. kCounting: nothing, but what
// is drawn is counted all the same, as in a graph, where no row has counts.
enum class Changes { kNone, kEdits, kCounts, kCounting };

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

// kIds ids of the vocabulary, ascending.
int32_t AnyId(ops::TestNoise& noise, int index) {
  return static_cast<int32_t>(index * (kVocab / kIds) + noise.Below(kVocab / kIds));
}

Array RandomCounts(ops::TestNoise& noise, int64_t rows) {
  Array counts(DType::kI32, {rows, kVocab});
  for (int64_t r = 0; r < rows; ++r) {
    for (int e = 0; e < kIds; ++e) counts.Int(r * kVocab + AnyId(noise, e)) = 1;
  }
  return counts;
}

void Run(benchmark::State& state, SampleRow row, Changes kind, int64_t rows) {
  DeviceMemory& memory = BenchMemory();
  std::vector<SampleRow> params;
  std::vector<ops::LogitEdit> changes;
  ops::TestNoise noise(4);
  for (int64_t r = 0; r < rows; ++r) {
    row.seed = noise.Next();
    if (kind == Changes::kCounts) {
      row.counts_row = static_cast<int32_t>(r);
      row.repetition_penalty = 1.1f;
      row.presence_penalty = 0.5f;
    }
    if (kind == Changes::kEdits) {
      row.edit_begin = static_cast<int32_t>(changes.size());
      row.edit_count = kIds;
      for (int e = 0; e < kIds; ++e) {
        ops::LogitEdit edit;
        edit.id = AnyId(noise, e);
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
  if (kind == Changes::kEdits) args.edits = memory.Upload(Bytes(changes));
  const bool counts = kind == Changes::kCounts || kind == Changes::kCounting;
  if (counts) args.counts = memory.Upload(RandomCounts(noise, rows));
  args.outputs = memory.Upload(Bytes(std::vector<ops::SampleOutput>(rows)));
  args.top_ids = memory.Upload(Array(DType::kI32, {rows, kTopMax + 1}));
  args.top_logprobs = memory.Upload(Array(DType::kF32, {rows, kTopMax + 1}));
  const auto bound = ops::Bind<Sample>(memory.device().ops(), {kVocab, kTopMax});
  if (!bound.ok()) return state.SkipWithError(bound.status().message().c_str());
  const auto count = ops::Bind<ops::KeepDrawn>(memory.device().ops(), {kVocab});
  if (!count.ok()) return state.SkipWithError(count.status().message().c_str());
  const ops::Tensor lengths = memory.Upload(Array(DType::kI32, {rows}));
  const ops::Tensor tokens = memory.Upload(Array(DType::kI32, {rows, 1}));
  const auto call = [&] {
    if (!(*bound)(memory.stream(), args).ok()) return false;
    return !counts ||
           (*count)(memory.stream(), {args.rows, args.outputs, args.counts, lengths, tokens}).ok();
  };
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
    Changes changes = Changes::kNone;
  };
  const Kind kinds[] = {
      {"greedy", {.temperature = 0.0f}},
      {"temperature", {.temperature = 0.8f}},
      {"top_p_0.9_top_k_50", {.temperature = 0.8f, .top_k = 50, .top_p = 0.9f}},
      {"top_p_0.9", {.temperature = 0.8f, .top_p = 0.9f}},
      {"greedy_counting", {.temperature = 0.0f}, Changes::kCounting},
      {"edits_top_p_0.9_top_k_50",
       {.temperature = 0.8f, .top_k = 50, .top_p = 0.9f},
       Changes::kEdits},
      {"penalties_top_p_0.9_top_k_50",
       {.temperature = 0.8f, .top_k = 50, .top_p = 0.9f},
       Changes::kCounts},
      {"top_k_50_and_20_logprobs", {.temperature = 0.8f, .top_k = 50, .top_logprobs = 20}},
  };
  for (const Kind& kind : kinds) {
    for (const int rows : {1, 64, 256}) {
      benchmark::RegisterBenchmark(
          StrCat(kind.name, "/rows:", rows).c_str(),
          [=](benchmark::State& state) { Run(state, kind.row, kind.changes, rows); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.05);
    }
  }
}
const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace sluice::cuda
