// Speed of products of experts on the first CUDA device: time, TFLOP/s, GB/s of the weights that
// are touched and their share of what the device can read. Eight experts a token, chosen at random;
// a measured run is a graph of launches with different choices, so that weights come from memory.
//   grouped/format/shape/tokens
#include <benchmark/benchmark.h>

#include <set>
#include <string>
#include <vector>

#include "backend/cuda/device_fixture.h"
#include "backend/cuda/linear/grouped_impls.h"
#include "ops/grouped_linear.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::GroupedLinear;

constexpr double kReadCeiling = 4.57e12;  // bytes per second, of an H200
constexpr int kExperts = 128, kTopK = 8, kLaunches = 16;

struct Format {
  const char* name;
  DType weight;
  ops::WeightScales w = ops::WeightScales::kNone;
  ops::ActivationScales x = ops::ActivationScales::kNone;
};
constexpr Format kFormats[] = {
    {"bf16", DType::kBF16},
    {"f8_block", DType::kF8E4M3, ops::WeightScales::kBlock, ops::ActivationScales::kBlock},
    {"q4_k", DType::kQ4_K}};
struct Shape {
  const char* name;
  int64_t n, k;
};
constexpr Shape kShapes[] = {{"gate_up_2048", 1536, 2048},
                             {"down_2048", 2048, 768},
                             {"gate_up_7168", 4096, 7168},
                             {"down_7168", 7168, 2048}};

// The places of one choice of experts, by expert.
struct Routing {
  std::vector<int32_t> starts = {0}, tokens;
  int experts = 0;  // that have places
};
Routing RandomRouting(ops::TestNoise& noise, int64_t tokens) {
  std::vector<std::vector<int32_t>> of(kExperts);
  for (int32_t t = 0; t < tokens; ++t) {
    std::set<int64_t> chosen;
    while (chosen.size() < kTopK) chosen.insert(noise.Below(kExperts));
    for (const int64_t e : chosen) of[static_cast<size_t>(e)].push_back(t);
  }
  Routing routing;
  for (const std::vector<int32_t>& places : of) {
    routing.tokens.insert(routing.tokens.end(), places.begin(), places.end());
    routing.starts.push_back(static_cast<int32_t>(routing.tokens.size()));
    routing.experts += places.empty() ? 0 : 1;
  }
  return routing;
}

Result<double> Time(const Format& format, const Shape& shape, int64_t tokens, double* experts) {
  DeviceMemory& memory = BenchMemory();
  device::Device& device = memory.device();
  device::Stream& stream = memory.stream();
  const GroupedLinear::Desc desc = {.each = {.weight = format.weight,
                                             .weight_scales = format.w,
                                             .x_scales = format.x,
                                             .activation = DType::kBF16,
                                             .n = shape.n,
                                             .k = shape.k},
                                    .experts = kExperts,
                                    .top_k = kTopK};
  const ops::Linear::Desc stack = desc.Stacked();
  ops::OpTable table(&device.facts());
  RegisterGroupedLinear(table);
  SLUICE_ASSIGN_OR_RETURN(const auto grouped, ops::Bind<GroupedLinear>(table, desc));
  const size_t row = RowBytes(format.weight, static_cast<size_t>(shape.k));
  const DType pattern = format.weight == DType::kBF16 ? DType::kBF16 : DType::kF8E4M3;
  SLUICE_ASSIGN_OR_RETURN(const device::Buffer w, RandomBuffer(device, stream, pattern,
                                                               row * static_cast<size_t>(stack.n)));
  const std::vector<int64_t> dims = ops::ScaleShape(stack);
  size_t scales = 1;
  for (const int64_t dim : dims) scales *= static_cast<size_t>(dim);
  SLUICE_ASSIGN_OR_RETURN(const device::Buffer s,
                          RandomBuffer(device, stream, DType::kF32, scales * 4));
  ops::PackedWeight weight = {ops::Dense(w.view(), format.weight, {stack.n, shape.k}),
                              format.weight, ops::LayoutId::kRowMajor, stack.n, shape.k};
  if (format.w == ops::WeightScales::kBlock)
    weight.scales = ops::Dense(s.view(), DType::kF32, {dims[0], dims[1]});
  ops::TestNoise noise(3);
  Array x(DType::kBF16, {tokens, shape.k});
  noise.Fill(x);
  GroupedLinear::Args args = {.x = memory.Upload(x), .weight = &weight};
  args.out = memory.Upload(Array(DType::kBF16, {tokens * kTopK, shape.n}));
  std::vector<GroupedLinear::Args> calls(kLaunches, args);
  *experts = 0;
  for (GroupedLinear::Args& call : calls) {
    const Routing routing = RandomRouting(noise, tokens);
    call.tokens = memory.Upload(Array::Ints(routing.tokens));
    call.starts = memory.Upload(Array::Ints(routing.starts));
    *experts += static_cast<double>(routing.experts) / kLaunches;
  }
  const auto body = [&](device::Stream& on) {
    for (const GroupedLinear::Args& call : calls) SLUICE_RETURN_IF_ERROR(grouped(on, call));
    return OkStatus();
  };
  SLUICE_ASSIGN_OR_RETURN(const double all, MedianReplaySeconds(stream, 9, body));
  return all / kLaunches;
}

void RunCase(benchmark::State& state, const Format& format, const Shape& shape, int64_t tokens) {
  if (!HasDevice()) return state.SkipWithError("no CUDA device");
  double experts = 0;
  const Result<double> median = Time(format, shape, tokens, &experts);
  BenchMemory().FreeAll();
  if (!median.ok()) return state.SkipWithError(median.status().message().c_str());
  for (auto _ : state) state.SetIterationTime(*median);
  const double bytes = experts *
                       static_cast<double>(RowBytes(format.weight, static_cast<size_t>(shape.k))) *
                       static_cast<double>(shape.n);
  state.counters["us"] = *median * 1e6;
  state.counters["TFLOPs"] = 2e-12 * static_cast<double>(shape.n * shape.k) *
                             static_cast<double>(tokens * kTopK) / *median;
  state.counters["GBs"] = 1e-9 * bytes / *median;
  state.counters["share"] = bytes / *median / kReadCeiling;
}

const int kRegistered = [] {
  for (const Format& format : kFormats) {
    for (const Shape& shape : kShapes) {
      for (const int64_t tokens : {1, 4, 16, 64, 256, 1024, 8192}) {
        benchmark::RegisterBenchmark(
            StrCat("grouped/", format.name, "/", shape.name, "/", tokens).c_str(),
            [=](benchmark::State& state) { RunCase(state, format, shape, tokens); })
            ->UseManualTime()
            ->Iterations(1)
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace sluice::cuda
