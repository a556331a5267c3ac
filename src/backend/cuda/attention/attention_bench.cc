// Attention on a GPU at the shape of an 8B model (32 query heads, 8 KV heads of 128 numbers):
// decode of a batch behind its contexts, by the KV bytes that it reads, and causal prefill of one
// prompt or of a chunk behind its beginning.
#include <benchmark/benchmark.h>

#include <chrono>

#include "backend/cuda/device_fixture.h"
#include "ops/attention.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Attention;

constexpr int kBlockTokens = 16, kCalls = 20;

// A sequence per context, with `queries` rows each at its end; block tables have room for
// `declared` tokens.
void Run(benchmark::State& state, DType activation, DType kv, const std::vector<int32_t>& contexts,
         int queries, int declared, int head_dim) {
  DeviceMemory& memory = BenchMemory();
  Attention::Desc desc;
  desc.activation = activation;
  desc.q_heads = 32;
  desc.kv_heads = 8;
  desc.head_dim = head_dim;
  desc.kv = {kv, desc.kv_heads, head_dim, head_dim, kBlockTokens};
  ops::TestNoise noise(1);
  const int64_t sequences = static_cast<int64_t>(contexts.size());
  const int64_t width = declared / kBlockTokens;
  int64_t blocks = 0;
  for (const int32_t context : contexts) blocks += context / kBlockTokens;
  std::vector<int32_t> start = {0}, table(static_cast<size_t>(sequences * width), -1);
  double positions = 0, pairs = 0;
  for (int64_t s = 0, b = 0; s < sequences; ++s) {
    const int32_t context = contexts[static_cast<size_t>(s)];
    start.push_back(start.back() + queries);
    for (int64_t i = 0; i < context / kBlockTokens; ++i, ++b)
      table[static_cast<size_t>(s * width + i)] = static_cast<int32_t>(b * 7919 % blocks);
    positions += context;
    pairs += (context - (queries - 1) / 2.0) * queries;
  }
  // A block of random numbers, again and again: the cache is filled on the host only once.
  Array k(kv, {blocks, desc.kv_heads, kBlockTokens, head_dim});
  const size_t piece = RowBytes(kv, size_t{16} * desc.kv_heads * kBlockTokens * head_dim);
  Array random(kv, {16, desc.kv_heads, kBlockTokens, head_dim});
  noise.Fill(random, ops::KvHasScales(kv) ? 100.0f : 1.0f);
  for (size_t at = 0; at < k.bytes().size() - 1; at += piece)
    std::copy_n(random.bytes().begin(), std::min(piece, k.bytes().size() - 1 - at),
                k.tensor().data + at);
  Array scales(DType::kF32, {blocks, desc.kv_heads, kBlockTokens});
  scales.Fill(0.01f);
  Array q(activation, {sequences * queries, int64_t{desc.q_heads} * head_dim});
  noise.Fill(q, 2.0f);
  Attention::Args args;
  args.q = memory.Upload(q);
  args.out = memory.Upload(q);
  args.query_start = memory.Upload(Array::Ints(start));
  args.context = memory.Upload(Array::Ints(contexts));
  args.block_table = memory.Upload(Array::Ints({sequences, width}, table));
  const std::vector<int32_t> plan(static_cast<size_t>(ops::AttentionPlanNumbers(sequences)));
  args.plan = memory.Upload(Array::Ints(plan));
  args.kv.k = memory.Upload(k);
  args.kv.v = memory.Upload(k);
  if (ops::KvHasScales(kv)) args.kv.k_scale = args.kv.v_scale = memory.Upload(scales);
  const auto bound = ops::Bind<Attention>(memory.device().ops(), desc);
  if (!bound.ok()) return state.SkipWithError(bound.status().message().c_str());
  // As in a model, the first layer of a step plans for the others.
  const auto call = [&](int layer) {
    args.planned = layer > 0;
    return (*bound)(memory.stream(), args).ok();
  };
  if (!call(0) || !memory.stream().Synchronize().ok()) return state.SkipWithError("attention");
  double seconds = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    bool ok = true;
    for (int i = 0; i < kCalls; ++i) ok &= call(i);
    ok &= memory.stream().Synchronize().ok();
    if (!ok) return state.SkipWithError("attention");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(took.count() / kCalls);
    seconds += took.count() / kCalls;
  }
  const double calls = static_cast<double>(state.iterations());
  const double rows = 2.0 * (RowBytes(kv, static_cast<size_t>(head_dim)) +
                             (ops::KvHasScales(kv) ? sizeof(float) : 0));
  state.counters["GB/s"] = calls * rows * desc.kv_heads * positions / seconds * 1e-9;
  state.counters["TFLOP/s"] = calls * 4.0 * pairs * desc.q_heads * head_dim / seconds * 1e-12;
  state.SetLabel(std::string(bound->name()));
  memory.FreeAll();
}

void RegisterAll() {
  if (!HasDevice()) return;
  const auto add = [](DType activation, DType kv, int sequences, int queries, int context,
                      int head_dim) {
    const std::string name = StrCat(Name(activation), "/", Name(kv), "/sequences:", sequences,
                                    "/queries:", queries, "/context:", context, "/head:", head_dim);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& state) {
                                   const std::vector<int32_t> contexts(sequences, context);
                                   Run(state, activation, kv, contexts, queries, context, head_dim);
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.05);
  };
  for (const DType kv : {DType::kBF16, DType::kF8E4M3, DType::kI8})
    add(DType::kBF16, kv, 64, 1, 4096, 128);
  for (const DType kv : {DType::kBF16, DType::kF8E4M3}) {
    add(DType::kBF16, kv, 64, 1, 1024, 128);
    add(DType::kBF16, kv, 256, 1, 1024, 128);
  }
  add(DType::kBF16, DType::kBF16, 16, 1, 8192, 128);
  for (const DType kv : {DType::kBF16, DType::kF8E4M3}) add(DType::kBF16, kv, 64, 1, 8192, 128);
  for (const DType kv : {DType::kBF16, DType::kF8E4M3}) {
    for (const int context : {1024, 4096, 32768, 122'880})
      add(DType::kBF16, kv, 1, 1, context, 128);
    for (const int sequences : {2, 4, 8, 16}) add(DType::kBF16, kv, sequences, 1, 1024, 128);
  }
  add(DType::kBF16, DType::kBF16, 64, 4, 4096, 128);
  add(DType::kF32, DType::kF16, 64, 1, 2048, 64);
  for (const int dim : {64, 128, 256}) add(DType::kBF16, DType::kBF16, 1, 2048, 2048, dim);
  add(DType::kBF16, DType::kBF16, 4, 2048, 2048, 128);
  for (const int context : {8192, 16384}) {
    add(DType::kBF16, DType::kBF16, 1, context, context, 128);
    add(DType::kF16, DType::kF16, 1, context, context, 128);
  }
  // A chunk of a prompt behind what came before it.
  for (const int context : {10'240, 122'880})
    add(DType::kBF16, DType::kBF16, 1, 2048, context, 128);
  add(DType::kBF16, DType::kF8E4M3, 1, 2048, 2048, 128);
  add(DType::kF32, DType::kF16, 1, 512, 512, 64);
  for (const DType kv : {DType::kBF16, DType::kF8E4M3}) {
    const std::string name = StrCat("bf16/", Name(kv), "/queries:1/context:1024/table:131072");
    benchmark::RegisterBenchmark(
        name.c_str(),
        [=](benchmark::State& state) { Run(state, DType::kBF16, kv, {1024}, 1, 131072, 128); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.05);
  }
  std::vector<int32_t> mixed(63, 1024);
  mixed.push_back(122'880);
  for (const DType kv : {DType::kBF16, DType::kF8E4M3}) {
    const std::string name = StrCat("bf16/", Name(kv), "/queries:1/contexts:63x1024,1x122880");
    benchmark::RegisterBenchmark(
        name.c_str(),
        [=](benchmark::State& state) { Run(state, DType::kBF16, kv, mixed, 1, 131072, 128); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.05);
  }
}
const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace sluice::cuda
