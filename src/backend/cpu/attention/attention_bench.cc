// Attention over KV of each format at the demo model's shape and at that of an 8B model: prefill of
// a prompt and decode behind a context, by every implementation that runs here. Decode goes through
// the KV of several layers in turn, so that none is in the cache when its turn comes. Counters:
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

constexpr int kBlock = 32;  // tokens of a kernel block

// The last `queries` tokens of each of some sequences of `context` tokens.
struct Size {
  int queries = 1, context = 0, sequences = 1;
  int64_t layers = 1;
};

class Problem {
 public:
  Problem(const Shape& shape, DType kv, const Size& size, int threads)
      : device_(DetectCpu(), DetectCpu().best, threads) {
    desc_ = {.q_heads = shape.q_heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim};
    desc_.kv = {kv, shape.kv_heads, shape.head_dim, shape.head_dim, kBlock};
    const int per_sequence = (size.context + kBlock - 1) / kBlock;
    const int64_t blocks = int64_t{per_sequence} * size.sequences;
    const int tokens = size.queries * size.sequences;
    q_.assign(static_cast<size_t>(tokens) * shape.q_heads * shape.head_dim, 0.01f);
    out_ = q_;
    uint32_t state = 1;
    for (float& x : q_)
      x = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 1e-7f;
    scales_.resize(static_cast<size_t>(blocks * size.layers) * kBlock * shape.kv_heads);
    std::vector<float> row(static_cast<size_t>(shape.head_dim));
    for (device::Buffer* cache : {&k_, &v_}) {
      const size_t row_bytes = row.size() * Info(kv).bytes;
      *cache = device_.Allocate(scales_.size() * row_bytes, device::MemoryKind::kDevice).value();
      for (size_t r = 0; r < scales_.size(); ++r) {
        for (float& x : row)
          x = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
        ops::StoreKvRow(kv, row.data(), shape.head_dim, cache->view().data,
                        static_cast<int64_t>(r * row.size()), &scales_[r]);
      }
    }
    // A shuffled table, as a pool that has been in use gives it.
    for (int b = 0; b < blocks; ++b) table_.push_back(b);
    for (int b = blocks - 1; b > 0; --b)
      std::swap(table_[b], table_[(state = state * 1664525u + 1013904223u) % (b + 1)]);
    for (int i = 0; i <= size.sequences; ++i) start_.push_back(i * size.queries);
    context_.assign(static_cast<size_t>(size.sequences), size.context);
    const auto tensor = [](auto& values, DType dtype, std::initializer_list<int64_t> dims) {
      const device::View view{reinterpret_cast<std::byte*>(values.data()),
                              values.size() * sizeof(values[0])};
      return ops::Dense(view, dtype, dims);
    };
    const int64_t width = int64_t{shape.q_heads} * shape.head_dim;
    args_.q = tensor(q_, DType::kF32, {tokens, width});
    args_.out = tensor(out_, DType::kF32, {tokens, width});
    args_.query_start = tensor(start_, DType::kI32, {size.sequences + 1});
    args_.context = tensor(context_, DType::kI32, {size.sequences});
    args_.block_table = tensor(table_, DType::kI32, {size.sequences, per_sequence});
    for (int64_t layer = 0; layer < size.layers; ++layer) {
      auto kv_of_layer = args_.kv;
      const int64_t rows = layer * blocks * shape.kv_heads * kBlock;
      const auto data = [&](const device::Buffer& cache) {
        const auto skip = static_cast<size_t>(rows) * row.size() * Info(kv).bytes;
        const device::View view{cache.view().data + skip, cache.view().bytes - skip};
        return ops::Dense(view, kv, {blocks, shape.kv_heads, kBlock, shape.head_dim});
      };
      kv_of_layer.k = data(k_);
      kv_of_layer.v = data(v_);
      if (ops::KvHasScales(kv)) {
        const auto skip = static_cast<size_t>(rows);
        const device::View view{reinterpret_cast<std::byte*>(scales_.data() + skip),
                                (scales_.size() - skip) * sizeof(float)};
        kv_of_layer.k_scale = kv_of_layer.v_scale =
            ops::Dense(view, DType::kF32, {blocks, shape.kv_heads, kBlock});
      }
      layers_.push_back(kv_of_layer);
    }
    kv_bytes_ = static_cast<double>(size.context) * size.sequences * shape.kv_heads * 2 *
                (shape.head_dim * Info(kv).bytes + (ops::KvHasScales(kv) ? sizeof(float) : 0));
  }

  void Run(benchmark::State& state, const char* implementation, double macs) {
    auto stream = std::move(device_.CreateStream().value());
    ops::OpTable table = device_.ops();
    table.Force("attention", implementation);
    auto bound = ops::Bind<ops::Attention>(table, desc_);
    state.SetLabel(StrCat(implementation, " ", Name(desc_.kv.dtype)));
    if (!bound.ok()) return state.SkipWithError("not on this machine");
    size_t layer = 0;
    for (auto _ : state) {
      args_.kv = layers_[layer++ % layers_.size()];
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
  std::vector<decltype(args_.kv)> layers_;
  std::vector<float> q_, out_, scales_;
  device::Buffer k_, v_;
  double kv_bytes_ = 0;
  std::vector<int32_t> start_, context_, table_;
};

constexpr DType kFormats[] = {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8};

// Arguments: shape, tokens, threads, implementation, KV format.
void BM_Prefill(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const int tokens = static_cast<int>(state.range(1));
  const double pairs = 0.5 * tokens * (tokens + 1.0) * shape.q_heads;
  Problem(shape, kFormats[state.range(4)], {.queries = tokens, .context = tokens},
          static_cast<int>(state.range(2)))
      .Run(state, kImplementations[state.range(3)], pairs * 2 * shape.head_dim);
}
BENCHMARK(BM_Prefill)
    ->ArgsProduct({{0, 1}, {128, 512, 2048}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}})
    ->UseRealTime();

void Decode(benchmark::State& state, int queries) {
  const Shape& shape = kShapes[state.range(0)];
  const DType kv = kFormats[state.range(4)];
  Size size = {.queries = queries};
  size.context = static_cast<int>(state.range(1));
  size.sequences = static_cast<int>(state.range(5));
  constexpr double kStreamed = 96e6;
  const double tokens = double{1} * size.context * size.sequences;
  size.layers =
      1 + static_cast<int64_t>(kStreamed / (tokens * shape.kv_heads * shape.head_dim * 4));
  Problem(shape, kv, size, static_cast<int>(state.range(2)))
      .Run(state, kImplementations[state.range(3)],
           2.0 * queries * tokens * shape.q_heads * shape.head_dim);
}

// Arguments: those of BM_Prefill, sequences.
void BM_Decode(benchmark::State& state) { Decode(state, 1); }
BENCHMARK(BM_Decode)
    ->ArgsProduct({{0, 1}, {128, 2048, 8192}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}, {1, 8, 32}})
    ->UseRealTime();

// A draft of three tokens.
void BM_Verify(benchmark::State& state) { Decode(state, 4); }
BENCHMARK(BM_Verify)
    ->ArgsProduct({{0, 1}, {128, 2048}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}, {1, 8}})
    ->UseRealTime();

}  // namespace
}  // namespace sluice::cpu
