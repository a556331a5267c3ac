// Speed of linear by implementation and format: GMAC/s and GB/s of weights. The shapes are those of
// SmolLM2-135M; decode (m to 64) walks over copies of the weight, 96 MB in all.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/linear/impls.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/formats/rows.h"
#include "ops/linear.h"

namespace sluice::cpu {
namespace {

using namespace ops;

struct Shape {
  DType dtype;
  int64_t m, n, k;
  bool cached = false;  // decode on one copy of the weight, which stays in the cache
};

// Normal values where quantizing is quick, otherwise random blocks with scales that are neither
// infinite nor subnormal.
std::vector<std::byte> RandomRows(const Shape& shape) {
  std::mt19937 random(1);
  std::vector<std::byte> rows(RowBytes(shape.dtype, static_cast<size_t>(shape.n * shape.k)));
  if (CanQuantize(shape.dtype) && Info(shape.dtype).block < 256) {
    std::vector<float> values(shape.n * shape.k);
    for (float& value : values) value = std::normal_distribution<float>(0.0f, 0.05f)(random);
    QuantizeRow(shape.dtype, values, rows.data());
    return rows;
  }
  for (std::byte& byte : rows) byte = static_cast<std::byte>((random() & 0xbf) | 4);
  if (shape.dtype == DType::kMXFP4) {
    for (size_t at = 0; at < rows.size(); at += 17) rows[at] = std::byte{122};
  }
  return rows;
}

void RunShape(benchmark::State& state, const std::string& name, Shape shape, int threads) {
  device::DeviceFacts facts;
  facts.architecture = Name(DetectCpu().best);
  OpTable table(&facts);
  RegisterLinear(table);
  table.Force("linear", name);
  ThreadPool pool({.threads = threads});
  CpuStream stream(&pool, &facts);
  const auto bound = Bind<Linear>(table, {.weight = shape.dtype, .n = shape.n, .k = shape.k});
  if (!bound.ok()) return state.SkipWithError(bound.status().message().c_str());
  const LinearPacking& packing = PackingOf(table, name);
  const size_t bytes = packing.packed_bytes(bound->desc());
  const int copies = shape.m > 64 || shape.cached
                         ? 1
                         : static_cast<int>(std::clamp<size_t>((96u << 20) / bytes, 1, 400));
  std::vector<std::vector<std::byte>> packed(copies, std::vector<std::byte>(bytes));
  const std::vector<std::byte> rows = RandomRows(shape);
  if (!packing.pack(bound->desc(), 0, rows, packed[0]).ok()) return state.SkipWithError("pack");
  for (int i = 1; i < copies; ++i) packed[i] = packed[0];

  std::vector<float> x(shape.m * shape.k), out(shape.m * shape.n);
  std::mt19937 random(2);
  for (float& value : x) value = std::normal_distribution<float>()(random);
  std::vector<PackedWeight> weights(copies);
  for (int i = 0; i < copies; ++i) {
    weights[i].data =
        Dense({packed[i].data(), bytes, {}, {}}, DType::kU8, {static_cast<int64_t>(bytes)});
    weights[i].dtype = shape.dtype;
    weights[i].layout = packing.layout;
    weights[i].n = shape.n;
    weights[i].k = shape.k;
  }
  Linear::Args args;
  args.x = Dense({reinterpret_cast<std::byte*>(x.data()), x.size() * 4, {}, {}}, DType::kF32,
                 {shape.m, shape.k});
  args.out = Dense({reinterpret_cast<std::byte*>(out.data()), out.size() * 4, {}, {}}, DType::kF32,
                   {shape.m, shape.n});
  int64_t calls = 0;
  for (auto _ : state) {
    args.weight = &weights[calls++ % copies];
    if (!(*bound)(stream, args).ok()) return state.SkipWithError("run");
    benchmark::DoNotOptimize(out.data());
  }
  using benchmark::Counter;
  const double macs = static_cast<double>(shape.m * shape.n * shape.k);
  state.counters["GMAC/s"] = Counter(1e-9 * macs * static_cast<double>(calls), Counter::kIsRate);
  state.counters["GB/s"] =
      Counter(1e-9 * static_cast<double>(bytes) * static_cast<double>(calls), Counter::kIsRate);
}

void Register() {
  const Shape shapes[] = {
      {DType::kQ4_1, 1, 1536, 576, true}, {DType::kQ4_1, 1, 576, 576},
      {DType::kQ4_1, 1, 1536, 576},       {DType::kQ4_1, 1, 576, 1536},
      {DType::kQ8_0, 1, 49152, 576},      {DType::kQ4_1, 8, 1536, 576},
      {DType::kQ4_1, 32, 1536, 576},      {DType::kQ4_1, 4, 1536, 576},
      {DType::kQ4_1, 16, 1536, 576},      {DType::kQ4_1, 64, 1536, 576},
      {DType::kQ4_1, 512, 576, 576},      {DType::kQ4_1, 512, 1536, 576},
      {DType::kQ4_1, 512, 576, 1536},     {DType::kQ4_0, 512, 1536, 576},
      {DType::kQ8_0, 512, 1536, 576},     {DType::kQ5_0, 512, 1536, 576},
      {DType::kQ4_K, 512, 1536, 512},     {DType::kQ6_K, 512, 1536, 512},
      {DType::kQ2_K, 512, 1536, 512},     {DType::kMXFP4, 512, 1536, 576},
      {DType::kF32, 512, 1536, 576},      {DType::kBF16, 512, 1536, 576},
      {DType::kF32, 132, 384, 384},       {DType::kF32, 132, 384, 1536},
      {DType::kQ4_K, 1, 1536, 512},       {DType::kQ6_K, 1, 1536, 512},
      {DType::kF16, 1, 1536, 576},        {DType::kF32, 1, 1536, 576},
      {DType::kF8E4M3, 1, 1536, 576},     {DType::kBF16, 1, 1536, 576},
      {DType::kBF16, 8, 1536, 576},       {DType::kBF16, 32, 1536, 576},
  };
  for (const char* isa : {"amx", "avx512", "avx2"}) {
    for (const Shape& shape : shapes) {
      if (isa == std::string_view("amx") && !IsQuantized(shape.dtype) &&
          shape.dtype != DType::kBF16) {
        continue;
      }
      const std::string name = StrCat(isa, IsQuantized(shape.dtype)         ? "_int8_linear"
                                           : isa == std::string_view("amx") ? "_bf16_linear"
                                                                            : "_f32_linear");
      for (int threads : {1, 2}) {
        benchmark::RegisterBenchmark(
            StrCat(name, "/", Name(shape.dtype), "/m", shape.m, "/", shape.n, "x", shape.k,
                   shape.cached ? "/cached" : "", "/t", threads)
                .c_str(),
            [=](benchmark::State& state) { RunShape(state, name, shape, threads); })
            ->UseRealTime();
      }
    }
  }
}

[[maybe_unused]] const bool kRegistered = (Register(), true);

}  // namespace
}  // namespace sluice::cpu
