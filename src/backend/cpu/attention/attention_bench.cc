// Attention over KV of each format at the demo model's shape and at that of an 8B model: prefill of
// a prompt and decode behind a context, by every implementation that runs here. Counters:
// operations and KV bytes per second.
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
  Problem(const Shape& shape, DType kv, int queries, int context, int threads)
      : device_(DetectCpu(), DetectCpu().best, threads) {
    desc_ = {.q_heads = shape.q_heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim};
    desc_.kv = {kv, shape.kv_heads, shape.head_dim, shape.head_dim, 16};
    const int blocks = (context + 15) / 16;
    q_.assign(static_cast<size_t>(queries) * shape.q_heads * shape.head_dim, 0.01f);
    out_ = q_;
    uint32_t state = 1;
    for (float& x : q_)
      x = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 1e-7f;
    scales_.resize(static_cast<size_t>(blocks) * 16 * shape.kv_heads);
    std::vector<float> row(static_cast<size_t>(shape.head_dim));
    for (std::vector<std::byte>* cache : {&k_, &v_}) {
      cache->resize(scales_.size() * row.size() * Info(kv).bytes);
      for (size_t r = 0; r < scales_.size(); ++r) {
        for (float& x : row)
          x = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
        ops::StoreKvRow(kv, row.data(), shape.head_dim, cache->data(),
                        static_cast<int64_t>(r * row.size()), &scales_[r]);
      }
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
    args_.kv.k = tensor(k_, kv, {blocks, shape.kv_heads, 16, shape.head_dim});
    args_.kv.v = tensor(v_, kv, {blocks, shape.kv_heads, 16, shape.head_dim});
    if (ops::KvHasScales(kv))
      args_.kv.k_scale = args_.kv.v_scale =
          tensor(scales_, DType::kF32, {blocks, shape.kv_heads, 16});
    kv_bytes_ = static_cast<double>(context) * shape.kv_heads * 2 *
                (shape.head_dim * Info(kv).bytes + (ops::KvHasScales(kv) ? sizeof(float) : 0));
  }

  void Run(benchmark::State& state, const char* implementation, double macs) {
    auto stream = std::move(device_.CreateStream().value());
    ops::OpTable table = device_.ops();
    table.Force("attention", implementation);
    auto bound = ops::Bind<ops::Attention>(table, desc_);
    state.SetLabel(StrCat(implementation, " ", Name(desc_.kv.dtype)));
    if (!bound.ok()) return state.SkipWithError("not on this machine");
    for (auto _ : state) {
      if (!(*bound)(*stream, args_).ok()) state.SkipWithError("attention failed");
    }
    const double runs = static_cast<double>(state.iterations());
    state.counters["GFLOP/s"] =
        benchmark::Counter(2 * macs * runs * 1e-9, benchmark::Counter::kIsRate);
    state.counters["GB/s"] =
        benchmark::Counter(kv_bytes_ * runs * 1e-9, benchmark::Counter::kIsRate);
  }

 private:
  CpuDevice device_;
  ops::Attention::Desc desc_;
  ops::Attention::Args args_;
  std::vector<float> q_, out_, scales_;
  std::vector<std::byte> k_, v_;
  double kv_bytes_ = 0;
  std::vector<int32_t> start_, context_, table_;
};

constexpr DType kFormats[] = {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8};

// Arguments: shape, tokens, threads, implementation, KV format.
void BM_Prefill(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const int tokens = static_cast<int>(state.range(1));
  const double pairs = 0.5 * tokens * (tokens + 1.0) * shape.q_heads;
  Problem(shape, kFormats[state.range(4)], tokens, tokens, static_cast<int>(state.range(2)))
      .Run(state, kImplementations[state.range(3)], pairs * 2 * shape.head_dim);
}
BENCHMARK(BM_Prefill)
    ->ArgsProduct({{0, 1}, {128, 512, 2048}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}})
    ->UseRealTime();

void BM_Decode(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const int context = static_cast<int>(state.range(1));
  Problem(shape, kFormats[state.range(4)], 1, context, static_cast<int>(state.range(2)))
      .Run(state, kImplementations[state.range(3)], 2.0 * context * shape.q_heads * shape.head_dim);
}
BENCHMARK(BM_Decode)
    ->ArgsProduct({{0, 1}, {128, 2048, 8192, 65536}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}})
    ->UseRealTime();

}  // namespace
}  // namespace sluice::cpu
