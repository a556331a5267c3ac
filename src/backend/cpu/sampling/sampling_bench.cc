// Speed of sampling by implementation: microseconds per row of a vocabulary of 49,152 logits shaped
// like a language model's (a few far above a wide middle), on one thread.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/sampling/impls.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/sampling.h"

namespace sluice::cpu {
namespace {

using namespace ops;

constexpr int64_t kVocab = 49152;
constexpr int kTopMax = 20;

struct Kind {
  const char* name;
  SampleRow row;
  bool flat = false;
};

std::vector<float> RandomLogits(int64_t rows, bool flat) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::exponential_distribution<float> tail(0.5f);
  std::vector<float> logits(rows * kVocab);
  for (float& x : logits) x = flat ? 0.1f * normal(random) : 2.5f * normal(random);
  for (int64_t row = 0; row < rows && !flat; ++row) {
    for (int i = 0; i < 60; ++i) logits[row * kVocab + random() % kVocab] = 10.0f + tail(random);
  }
  return logits;
}

template <class T>
Tensor TensorOf(std::vector<T>& values, DType dtype, std::initializer_list<int64_t> dims) {
  return Dense({reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T), {}, {}},
               dtype, dims);
}

void RunKind(benchmark::State& state, const std::string& name, const Kind& kind, int64_t rows) {
  device::DeviceFacts facts;
  facts.architecture = Name(DetectCpu().best);
  OpTable table(&facts);
  RegisterSampling(table);
  table.Force("sample", name);
  ThreadPool pool({.threads = 1});
  CpuStream stream(&pool, &facts);
  const auto bound = Bind<Sample>(table, {.vocab = kVocab, .top_logprobs_max = kTopMax});
  if (!bound.ok()) return state.SkipWithError(bound.status().message().c_str());

  std::vector<float> logits = RandomLogits(rows, kind.flat);
  std::vector<int32_t> ids(rows * (kTopMax + 1));
  std::vector<float> logprobs(rows * (kTopMax + 1));
  std::vector<SampleRow> params(rows, kind.row);
  std::vector<SampleOutput> outputs(rows);
  Sample::Args args;
  args.logits = TensorOf(logits, DType::kF32, {rows, kVocab});
  args.rows = TensorOf(params, DType::kU8, {rows, int64_t{sizeof(SampleRow)}});
  args.outputs = TensorOf(outputs, DType::kU8, {rows, int64_t{sizeof(SampleOutput)}});
  args.top_ids = TensorOf(ids, DType::kI32, {rows, kTopMax + 1});
  args.top_logprobs = TensorOf(logprobs, DType::kF32, {rows, kTopMax + 1});
  int64_t position = 0;
  for (auto _ : state) {
    for (SampleRow& row : params) row.position = position++;
    if (!(*bound)(stream, args).ok()) return state.SkipWithError("run");
    benchmark::DoNotOptimize(outputs.data());
  }
  using benchmark::Counter;
  state.counters["s/row"] =
      Counter(static_cast<double>(state.iterations() * rows), Counter::kIsRate | Counter::kInvert);
}

void Register() {
  const Kind kinds[] = {
      {"greedy", {.temperature = 0.0f}},
      {"temperature", {.temperature = 0.8f}},
      {"top_p_0.9", {.temperature = 0.8f, .top_p = 0.9f}},
      {"top_p_0.9_flat", {.temperature = 1.0f, .top_p = 0.9f}, true},
      {"top_k_40", {.temperature = 0.8f, .top_k = 40}},
      {"top_k_40_top_p_0.9", {.temperature = 0.8f, .top_k = 40, .top_p = 0.9f}},
      {"min_p_0.05", {.temperature = 0.8f, .min_p = 0.05f}},
      {"greedy_logprobs_5", {.temperature = 0.0f, .top_logprobs = 5}},
      {"temperature_logprobs_5", {.temperature = 0.8f, .top_logprobs = 5}},
  };
  for (const char* arch : {"avx512", "avx2", "any"}) {
    const std::string name = std::string(arch) + "_f32_sample";
    for (const Kind& kind : kinds) {
      for (const int64_t rows : {1, 32}) {
        benchmark::RegisterBenchmark(
            (name + "/" + kind.name + "/" + std::to_string(rows)).c_str(),
            [=](benchmark::State& state) { RunKind(state, name, kind, rows); })
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

[[maybe_unused]] const bool kRegistered = (Register(), true);

}  // namespace
}  // namespace sluice::cpu
