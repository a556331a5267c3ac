// Latent attention on a GPU at the shape of DeepSeek V3 (128 heads; 16 are those of V2 Lite): a
// token of each sequence behind its context, by the KV bytes that it reads, and chunks of prompts.
#include <benchmark/benchmark.h>

#include <chrono>

#include "backend/cuda/device_fixture.h"
#include "ops/latent_attention.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::LatentAttention;

constexpr int kKeyWidth = 576, kValueWidth = 512, kCalls = 20;

// `queries` rows at the end of each of `sequences` contexts.
void Run(benchmark::State& state, DType type, int heads, int sequences, int queries, int context,
         int block_tokens) {
  DeviceMemory& memory = BenchMemory();
  LatentAttention::Desc desc = {.activation = type,
                                .heads = heads,
                                .key_width = kKeyWidth,
                                .value_width = kValueWidth,
                                .scale = 0.07f};
  desc.kv = {type, 1, kKeyWidth, 0, block_tokens};
  const int64_t pages = context / block_tokens, blocks = sequences * pages;
  std::vector<int32_t> start = {0}, contexts(static_cast<size_t>(sequences), context), table;
  for (int64_t s = 0; s < sequences; ++s) {
    start.push_back(start.back() + queries);
    for (int64_t i = 0; i < pages; ++i)
      table.push_back(static_cast<int32_t>((s * pages + i) * 7919 % blocks));
  }
  // A few blocks of random numbers, again and again: the host fills them only once.
  Array k(type, {blocks, 1, block_tokens, kKeyWidth}), random(type, {16, block_tokens, kKeyWidth});
  ops::TestNoise noise(1);
  noise.Fill(random);
  const size_t piece = RowBytes(type, size_t{16} * block_tokens * kKeyWidth);
  const size_t bytes = RowBytes(type, static_cast<size_t>(blocks) * block_tokens * kKeyWidth);
  for (size_t at = 0; at < bytes; at += piece)
    std::copy_n(random.bytes().begin(), std::min(piece, bytes - at), k.tensor().data + at);
  Array q(type, {int64_t{sequences} * queries, int64_t{heads} * kKeyWidth});
  noise.Fill(q, 2.0f);
  LatentAttention::Args args{.q = memory.Upload(q),
                             .query_start = memory.Upload(Array::Ints(start)),
                             .context = memory.Upload(Array::Ints(contexts)),
                             .block_table = memory.Upload(Array::Ints({sequences, pages}, table))};
  args.kv.k = memory.Upload(k);
  args.out =
      memory.Upload(Array(type, {int64_t{sequences} * queries, int64_t{heads} * kValueWidth}));
  const auto bound = ops::Bind<LatentAttention>(memory.device().ops(), desc);
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
  const double pairs = (context - (queries - 1) / 2.0) * queries * sequences;
  state.counters["GB/s"] = calls * static_cast<double>(bytes) / seconds * 1e-9;
  state.counters["TFLOP/s"] =
      calls * 2.0 * pairs * heads * (kKeyWidth + kValueWidth) / seconds * 1e-12;
  state.SetLabel(std::string(bound->name()));
  memory.FreeAll();
}

void RegisterAll() {
  if (!HasDevice()) return;
  const auto add = [](DType type, int heads, int sequences, int queries, int context,
                      int block_tokens = 16) {
    const std::string name =
        StrCat("latent/", Name(type), "/heads:", heads, "/sequences:", sequences,
               "/queries:", queries, "/context:", context, "/block:", block_tokens);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& state) {
                                   Run(state, type, heads, sequences, queries, context,
                                       block_tokens);
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.05);
  };
  add(DType::kBF16, 128, 64, 1, 4096);
  add(DType::kBF16, 128, 64, 1, 4096, 64);
  add(DType::kF16, 128, 64, 1, 4096);
  add(DType::kBF16, 128, 64, 1, 1024);
  add(DType::kBF16, 128, 256, 1, 1024);
  add(DType::kBF16, 128, 1, 1, 4096);
  add(DType::kBF16, 128, 1, 1, 32768);
  add(DType::kBF16, 128, 64, 2, 4096);
  add(DType::kBF16, 16, 64, 1, 4096);
  add(DType::kBF16, 16, 256, 1, 4096);
  add(DType::kBF16, 128, 1, 512, 2048);
}
const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace sluice::cuda
