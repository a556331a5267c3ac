// Attention over F16 KV at the demo model's shape and at that of an 8B model: prefill of a prompt
// and decode behind a context, by every implementation that runs here. Counters: operations and KV
// bytes per second.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/device.h"
#include "ops/attention.h"

namespace sluice::cpu {
namespace {

struct Shape {
  int q_heads, kv_heads, head_dim;
};
constexpr Shape kShapes[] = {{9, 3, 64}, {32, 8, 128}};
constexpr const char* kImplementations[] = {"amx_bf16_attention", "avx512_f32_attention",
                                            "avx2_f32_attention"};

// One sequence of `context` tokens whose last `queries` are asked for.
class Problem {
 public:
  Problem(const Shape& shape, int queries, int context, int threads)
      : device_(DetectCpu(), DetectCpu().best, threads) {
    desc_ = {.q_heads = shape.q_heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim};
    desc_.kv = {DType::kF16, shape.kv_heads, shape.head_dim, shape.head_dim, 16};
    const int blocks = (context + 15) / 16;
    q_.assign(static_cast<size_t>(queries) * shape.q_heads * shape.head_dim, 0.01f);
    out_ = q_;
    uint32_t state = 1;
    for (float& x : q_)
      x = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 1e-7f;
    for (std::vector<uint16_t>* cache : {&k_, &v_}) {
      cache->resize(static_cast<size_t>(blocks) * 16 * shape.kv_heads * shape.head_dim);
      for (uint16_t& x : *cache) x = 0x3000 | ((state = state * 1664525u + 1013904223u) >> 22);
    }
    // A shuffled table, as a pool that has been in use gives it.
    for (int b = 0; b < blocks; ++b) table_.push_back(b);
    for (int b = blocks - 1; b > 0; --b)
      std::swap(table_[b], table_[(state = state * 1664525u + 1013904223u) % (b + 1)]);
    start_ = {0, queries};
    context_ = {context};
    const auto tensor = [](auto& values, DType dtype, std::initializer_list<int64_t> dims) {
      const device::View view{reinterpret_cast<std::byte*>(values.data()),
                              values.size() * sizeof(values[0])};
      return ops::Dense(view, dtype, dims);
    };
    const int64_t width = int64_t{shape.q_heads} * shape.head_dim;
    args_.q = tensor(q_, DType::kF32, {queries, width});
    args_.out = tensor(out_, DType::kF32, {queries, width});
    args_.query_start = tensor(start_, DType::kI32, {2});
    args_.context = tensor(context_, DType::kI32, {1});
    args_.block_table = tensor(table_, DType::kI32, {1, blocks});
    args_.kv.k = tensor(k_, DType::kF16, {blocks, shape.kv_heads, 16, shape.head_dim});
    args_.kv.v = tensor(v_, DType::kF16, {blocks, shape.kv_heads, 16, shape.head_dim});
  }

  void Run(benchmark::State& state, const char* implementation, double macs, double bytes) {
    auto stream = std::move(device_.CreateStream().value());
    ops::OpTable table = device_.ops();
    table.Force("attention", implementation);
    auto bound = ops::Bind<ops::Attention>(table, desc_);
    state.SetLabel(implementation);
    if (!bound.ok()) return state.SkipWithError("not on this machine");
    for (auto _ : state) {
      if (!(*bound)(*stream, args_).ok()) state.SkipWithError("attention failed");
    }
    const double runs = static_cast<double>(state.iterations());
    state.counters["GFLOP/s"] =
        benchmark::Counter(2 * macs * runs * 1e-9, benchmark::Counter::kIsRate);
    state.counters["GB/s"] = benchmark::Counter(bytes * runs * 1e-9, benchmark::Counter::kIsRate);
  }

 private:
  CpuDevice device_;
  ops::Attention::Desc desc_;
  ops::Attention::Args args_;
  std::vector<float> q_, out_;
  std::vector<uint16_t> k_, v_;
  std::vector<int32_t> start_, context_, table_;
};

// Arguments: shape, tokens, threads, implementation.
void BM_Prefill(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const int tokens = static_cast<int>(state.range(1));
  const double pairs = 0.5 * tokens * (tokens + 1.0) * shape.q_heads;
  Problem(shape, tokens, tokens, static_cast<int>(state.range(2)))
      .Run(state, kImplementations[state.range(3)], pairs * 2 * shape.head_dim,
           tokens * 4.0 * shape.kv_heads * shape.head_dim);
}
BENCHMARK(BM_Prefill)->ArgsProduct({{0, 1}, {128, 512, 2048}, {1, 2}, {0, 1, 2}})->UseRealTime();

void BM_Decode(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const int context = static_cast<int>(state.range(1));
  Problem(shape, 1, context, static_cast<int>(state.range(2)))
      .Run(state, kImplementations[state.range(3)], 2.0 * context * shape.q_heads * shape.head_dim,
           context * 4.0 * shape.kv_heads * shape.head_dim);
}
BENCHMARK(BM_Decode)
    ->ArgsProduct({{0, 1}, {128, 2048, 8192, 65536}, {1, 2}, {0, 1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace sluice::cpu
