// Time of what stands between two attentions of Llama-3.1-8B's shape in F8 with scales of blocks,
// on the first CUDA device: by one kernel, and by those for the parts. A measured run is a graph of
// layers with weights of their own, which no cache holds. Behind the time, `differing` says in how
// many numbers one kernel and the parts differ. Names:
//   dense_chain/one/tokens, dense_chain/parts/tokens
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "backend/cuda/device_fixture.h"
#include "ops/dense_chain.h"
#include "ops/group_quant.h"
#include "ops/norm.h"

namespace sluice::cuda {
namespace {

using ops::DenseChain;

constexpr int kLayers = 12;
constexpr int64_t kAttended = 4096, kHidden = 4096, kWidth = 14336, kQkv = 6144;
constexpr int64_t kRowsMax = 4;

struct Layer {
  ops::PackedWeight o, gate_up, down, qkv;
  ops::Tensor mlp_norm, next_norm;
};

// Tensors of one of the two ways.
struct Rows {
  ops::Tensor middle, gated, out, qkv;                          // of both
  ops::Tensor gate_up, codes, scales, coded_wide, scales_wide;  // of the parts
};

struct Model {
  std::vector<device::Buffer> buffers;
  std::vector<Layer> layers;
  ops::Tensor attended, residual;
  Rows one, parts;
  ops::Bound<ops::Linear> o, gate_up, down, qkv;
  ops::Bound<ops::Norm> norm;
  ops::Bound<ops::GroupQuant> gate;
  ops::Bound<DenseChain> chain;
  DenseChain::Desc desc{.weight = DType::kF8E4M3,
                        .weight_scales = ops::WeightScales::kBlock,
                        .x_scales = ops::ActivationScales::kBlock,
                        .activation = DType::kBF16,
                        .tokens = kRowsMax,
                        .attended = kAttended,
                        .hidden = kHidden,
                        .width = kWidth,
                        .qkv = kQkv};

  Result<ops::Tensor> Add(DType dtype, std::initializer_list<int64_t> dims) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                            RandomBuffer(BenchMemory().device(), BenchMemory().stream(), dtype,
                                         count * static_cast<size_t>(Info(dtype).bytes)));
    buffers.push_back(std::move(buffer));
    return ops::Dense(buffers.back().view(), dtype, dims);
  }
  Result<ops::PackedWeight> AddWeight(int64_t n, int64_t k) {
    ops::PackedWeight weight = {{}, DType::kF8E4M3, ops::LayoutId::kRowMajor, n, k};
    SLUICE_ASSIGN_OR_RETURN(weight.data, Add(DType::kF8E4M3, {n, k}));
    SLUICE_ASSIGN_OR_RETURN(weight.scales, Add(DType::kF32, {n / 128, k / 128}));
    return weight;
  }
  Status AddRows(Rows& rows) {
    SLUICE_ASSIGN_OR_RETURN(rows.middle, Add(DType::kBF16, {kRowsMax, kHidden}));
    SLUICE_ASSIGN_OR_RETURN(rows.gated, Add(DType::kBF16, {kRowsMax, kWidth}));
    SLUICE_ASSIGN_OR_RETURN(rows.out, Add(DType::kBF16, {kRowsMax, kHidden}));
    SLUICE_ASSIGN_OR_RETURN(rows.qkv, Add(DType::kBF16, {kRowsMax, kQkv}));
    SLUICE_ASSIGN_OR_RETURN(rows.gate_up, Add(DType::kBF16, {kRowsMax, 2 * kWidth}));
    SLUICE_ASSIGN_OR_RETURN(rows.codes, Add(DType::kF8E4M3, {kRowsMax, kHidden}));
    SLUICE_ASSIGN_OR_RETURN(rows.scales, Add(DType::kF32, {kHidden / 128, kRowsMax}));
    SLUICE_ASSIGN_OR_RETURN(rows.coded_wide, Add(DType::kF8E4M3, {kRowsMax, kWidth}));
    SLUICE_ASSIGN_OR_RETURN(rows.scales_wide, Add(DType::kF32, {kWidth / 128, kRowsMax}));
    return OkStatus();
  }
  Result<ops::Bound<ops::Linear>> BindLinear(int64_t n, int64_t k, bool adds) {
    return ops::Bind<ops::Linear>(BenchMemory().device().ops(),
                                  {.weight = DType::kF8E4M3,
                                   .weight_scales = ops::WeightScales::kBlock,
                                   .x_scales = ops::ActivationScales::kBlock,
                                   .activation = DType::kBF16,
                                   .n = n,
                                   .k = k,
                                   .residual = adds});
  }
  Status Make() {
    for (int i = 0; i < kLayers; ++i) {
      Layer layer;
      SLUICE_ASSIGN_OR_RETURN(layer.o, AddWeight(kHidden, kAttended));
      SLUICE_ASSIGN_OR_RETURN(layer.gate_up, AddWeight(2 * kWidth, kHidden));
      SLUICE_ASSIGN_OR_RETURN(layer.down, AddWeight(kHidden, kWidth));
      SLUICE_ASSIGN_OR_RETURN(layer.qkv, AddWeight(kQkv, kHidden));
      SLUICE_ASSIGN_OR_RETURN(layer.mlp_norm, Add(DType::kF32, {kHidden}));
      SLUICE_ASSIGN_OR_RETURN(layer.next_norm, Add(DType::kF32, {kHidden}));
      layers.push_back(layer);
    }
    SLUICE_ASSIGN_OR_RETURN(attended, Add(DType::kBF16, {kRowsMax, kAttended}));
    SLUICE_ASSIGN_OR_RETURN(residual, Add(DType::kBF16, {kRowsMax, kHidden}));
    SLUICE_RETURN_IF_ERROR(AddRows(one));
    SLUICE_RETURN_IF_ERROR(AddRows(parts));
    SLUICE_ASSIGN_OR_RETURN(o, BindLinear(kHidden, kAttended, true));
    SLUICE_ASSIGN_OR_RETURN(gate_up, BindLinear(2 * kWidth, kHidden, false));
    SLUICE_ASSIGN_OR_RETURN(down, BindLinear(kHidden, kWidth, true));
    SLUICE_ASSIGN_OR_RETURN(qkv, BindLinear(kQkv, kHidden, false));
    const ops::OpTable& table = BenchMemory().device().ops();
    SLUICE_ASSIGN_OR_RETURN(chain, ops::Bind<DenseChain>(table, desc));
    SLUICE_ASSIGN_OR_RETURN(norm, ops::Bind<ops::Norm>(table, {.activation = DType::kBF16,
                                                               .hidden = kHidden,
                                                               .eps = desc.eps,
                                                               .form = ops::RowForm::kCodes}));
    SLUICE_ASSIGN_OR_RETURN(
        gate, ops::Bind<ops::GroupQuant>(
                  table, {.activation = DType::kBF16, .width = kWidth, .gated = true}));
    return OkStatus();
  }

  Status RunParts(device::Stream& stream, const Layer& layer, const ops::Tensor& from,
                  int64_t m) const {
    const Rows& r = parts;
    const auto rows = [m](const ops::Tensor& t) { return t.Rows(0, m); };
    const auto scales = [m](const ops::Tensor& t) { return t.Columns(0, m); };
    SLUICE_RETURN_IF_ERROR(o(
        stream,
        {.x = rows(attended), .weight = &layer.o, .residual = rows(from), .out = rows(r.middle)}));
    SLUICE_RETURN_IF_ERROR(norm(stream, {.x = rows(r.middle),
                                         .weight = layer.mlp_norm,
                                         .codes = rows(r.codes),
                                         .code_scales = scales(r.scales)}));
    SLUICE_RETURN_IF_ERROR(gate_up(stream, {.x = rows(r.codes),
                                            .weight = &layer.gate_up,
                                            .out = rows(r.gate_up),
                                            .x_scales = scales(r.scales)}));
    SLUICE_RETURN_IF_ERROR(gate(stream, {.x = rows(r.gate_up),
                                         .counts = {},
                                         .codes = rows(r.coded_wide),
                                         .scales = scales(r.scales_wide)}));
    SLUICE_RETURN_IF_ERROR(down(stream, {.x = rows(r.coded_wide),
                                         .weight = &layer.down,
                                         .residual = rows(r.middle),
                                         .out = rows(r.out),
                                         .x_scales = scales(r.scales_wide)}));
    SLUICE_RETURN_IF_ERROR(norm(stream, {.x = rows(r.out),
                                         .weight = layer.next_norm,
                                         .codes = rows(r.codes),
                                         .code_scales = scales(r.scales)}));
    return qkv(stream, {.x = rows(r.codes),
                        .weight = &layer.qkv,
                        .out = rows(r.qkv),
                        .x_scales = scales(r.scales)});
  }
  Status RunOne(device::Stream& stream, const Layer& layer, const ops::Tensor& from,
                int64_t m) const {
    const auto rows = [m](const ops::Tensor& t) { return t.Rows(0, m); };
    return chain(stream, {.attended = rows(attended),
                          .residual = rows(from),
                          .w_o = &layer.o,
                          .w_gate_up = &layer.gate_up,
                          .w_down = &layer.down,
                          .w_qkv = &layer.qkv,
                          .mlp_norm = layer.mlp_norm,
                          .next_norm = layer.next_norm,
                          .middle = rows(one.middle),
                          .gated = rows(one.gated),
                          .out = rows(one.out),
                          .qkv = rows(one.qkv)});
  }
  Status RunAll(device::Stream& stream, bool as_one, int64_t m) const {
    for (int i = 0; i < kLayers; ++i) {
      const ops::Tensor& from = i == 0 ? residual : as_one ? one.out : parts.out;
      SLUICE_RETURN_IF_ERROR(as_one ? RunOne(stream, layers[static_cast<size_t>(i)], from, m)
                                    : RunParts(stream, layers[static_cast<size_t>(i)], from, m));
    }
    return OkStatus();
  }

  // How many numbers differ between the two ways, of the tensor that both have.
  Result<int64_t> Differing(const ops::Tensor& a, const ops::Tensor& b, int64_t m) const {
    const auto count = static_cast<size_t>(m * a.dims[1]);
    std::vector<uint16_t> numbers[2];
    for (const auto& [tensor, host] : {std::pair{&a, &numbers[0]}, {&b, &numbers[1]}}) {
      host->resize(count);
      const device::View to = {reinterpret_cast<std::byte*>(host->data()), 2 * count,
                               device::MemoryKind::kHost, BenchMemory().device().facts().id};
      const device::View from = {tensor->data, 2 * count, tensor->memory, tensor->device};
      const device::CopyItem item = {to, from};
      SLUICE_RETURN_IF_ERROR(BenchMemory().device().Copy(BenchMemory().stream(), {&item, 1}));
    }
    SLUICE_RETURN_IF_ERROR(BenchMemory().stream().Synchronize());
    int64_t differing = 0;
    for (size_t i = 0; i < count; ++i) differing += numbers[0][i] != numbers[1][i];
    return differing;
  }
};

Model* TheModel() {
  static Model* const model = [] {
    auto* made = new Model;
    CHECK(made->Make().ok());
    return made;
  }();
  return model;
}

// Of a layer.
Result<double> MedianSeconds(bool as_one, int64_t m) {
  const Model& model = *TheModel();
  SLUICE_ASSIGN_OR_RETURN(const double all,
                          MedianReplaySeconds(BenchMemory().stream(), 29, [&](device::Stream& on) {
                            return model.RunAll(on, as_one, m);
                          }));
  return all / kLayers;
}

// What differs behind all layers, in numbers of each tensor.
Result<int64_t> DifferingAfterAll(int64_t m) {
  const Model& model = *TheModel();
  for (const bool as_one : {false, true})
    SLUICE_RETURN_IF_ERROR(model.RunAll(BenchMemory().stream(), as_one, m));
  int64_t all = 0;
  for (const auto& [a, b] : {std::pair{&model.one.middle, &model.parts.middle},
                             {&model.one.out, &model.parts.out},
                             {&model.one.qkv, &model.parts.qkv}}) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t differing, model.Differing(*a, *b, m));
    all += differing;
  }
  return all;
}

void RunCase(benchmark::State& state, bool as_one, int64_t m) {
  if (!HasDevice()) return state.SkipWithError("no CUDA device");
  const Result<double> median = MedianSeconds(as_one, m);
  if (!median.ok()) return state.SkipWithError(median.status().message().c_str());
  for (auto _ : state) state.SetIterationTime(*median);
  state.counters["us"] = *median * 1e6;
  const auto bytes =
      static_cast<double>(kHidden * kAttended + 3 * kHidden * kWidth + kQkv * kHidden);
  state.counters["GBs"] = 1e-9 * bytes / *median;
  if (!as_one) return;
  const Result<int64_t> differing = DifferingAfterAll(m);
  if (!differing.ok()) return state.SkipWithError(differing.status().message().c_str());
  state.counters["differing"] = static_cast<double>(*differing);
}

const int kRegistered = [] {
  for (const int64_t m : {1, 2, 3, 4}) {
    for (const bool as_one : {false, true}) {
      const std::string name = StrCat("dense_chain/", as_one ? "one/" : "parts/", m);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& s) { RunCase(s, as_one, m); })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace sluice::cuda
