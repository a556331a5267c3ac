// Attention on a GPU at the shape of an 8B model (32 query heads, 8 KV heads of 128 numbers):
// decode of a batch behind a context, by the KV bytes that it reads, and causal prefill of one
// prompt.
#include <benchmark/benchmark.h>

#include <chrono>

#include "backend/cuda/device_fixture.h"
#include "ops/attention.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Attention;

constexpr int kBlockTokens = 16, kCalls = 20;

// `sequences` with `queries` rows each at the end of `context` tokens.
void Run(benchmark::State& state, DType activation, DType kv, int sequences, int queries,
         int context, int head_dim) {
  DeviceMemory& memory = BenchMemory();
  Attention::Desc desc;
  desc.activation = activation;
  desc.q_heads = 32;
  desc.kv_heads = 8;
  desc.head_dim = head_dim;
  desc.kv = {kv, desc.kv_heads, head_dim, head_dim, kBlockTokens};
  ops::TestNoise noise(1);
  const int per_sequence = context / kBlockTokens;
  const int64_t blocks = int64_t{sequences} * per_sequence;
  std::vector<int32_t> start = {0}, table;
  for (int s = 0; s < sequences; ++s) start.push_back(start.back() + queries);
  for (int64_t b = 0; b < blocks; ++b)
    table.push_back(static_cast<int32_t>(b * 7919 % blocks));  // scattered
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
  Array q(activation, {int64_t{sequences} * queries, int64_t{desc.q_heads} * head_dim});
  noise.Fill(q, 2.0f);
  Attention::Args args;
  args.q = memory.Upload(q);
  args.out = memory.Upload(q);
  args.query_start = memory.Upload(Array::Ints(start));
  args.context =
      memory.Upload(Array::Ints(std::vector<int32_t>(static_cast<size_t>(sequences), context)));
  args.block_table = memory.Upload(Array::Ints({sequences, per_sequence}, table));
  args.kv.k = memory.Upload(k);
  args.kv.v = memory.Upload(k);
  if (ops::KvHasScales(kv)) args.kv.k_scale = args.kv.v_scale = memory.Upload(scales);
  const auto bound = ops::Bind<Attention>(memory.device().ops(), desc);
  if (!bound.ok()) return state.SkipWithError(bound.status().message().c_str());
  const auto call = [&] { return (*bound)(memory.stream(), args).ok(); };
  if (!call() || !memory.stream().Synchronize().ok()) return state.SkipWithError("attention");
  double seconds = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    bool ok = true;
    for (int i = 0; i < kCalls; ++i) ok &= call();
    ok &= memory.stream().Synchronize().ok();
    if (!ok) return state.SkipWithError("attention");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(took.count() / kCalls);
    seconds += took.count() / kCalls;
  }
  const double calls = static_cast<double>(state.iterations());
  const double rows = 2.0 * (RowBytes(kv, static_cast<size_t>(head_dim)) +
                             (ops::KvHasScales(kv) ? sizeof(float) : 0));
  state.counters["GB/s"] = calls * rows * desc.kv_heads * context * sequences / seconds * 1e-9;
  const double pairs = (context - (queries - 1) / 2.0) * queries * sequences;
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
                                   Run(state, activation, kv, sequences, queries, context,
                                       head_dim);
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.05);
  };
  for (const DType kv : {DType::kBF16, DType::kF8E4M3, DType::kI8})
    add(DType::kBF16, kv, 64, 1, 4096, 128);
  add(DType::kBF16, DType::kBF16, 1, 1, 4096, 128);
  add(DType::kBF16, DType::kBF16, 1, 1, 32768, 128);
  add(DType::kBF16, DType::kBF16, 64, 4, 4096, 128);
  add(DType::kF32, DType::kF16, 64, 1, 2048, 64);
  for (const int dim : {64, 128, 256}) add(DType::kBF16, DType::kBF16, 1, 2048, 2048, dim);
  add(DType::kBF16, DType::kBF16, 4, 2048, 2048, 128);
  add(DType::kBF16, DType::kF8E4M3, 1, 2048, 2048, 128);
  add(DType::kF32, DType::kF16, 1, 512, 512, 64);
}
const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace sluice::cuda
