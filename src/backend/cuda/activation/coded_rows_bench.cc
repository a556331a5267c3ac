// Time of what makes rows of codes for products in F8 on the first CUDA device, in one kernel and
// in the two that do the same with rows in BF16 between them. A measured run is a graph of
// launches. Names:
//   gate/one/width/rows, gate/two/width/rows   SiLU and product of gate and up, then codes
//   norm/one/hidden/rows, norm/two/hidden/rows RMSNorm, then codes
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "backend/cuda/device_fixture.h"
#include "backend/cuda/linear/f8_product.h"
#include "ops/group_quant.h"
#include "ops/norm.h"

namespace sluice::cuda {
namespace {

constexpr int kLaunches = 64;

struct Case {
  bool norm, one;
  int64_t width, rows;
};

struct Tensors {
  std::vector<device::Buffer> buffers;
  ops::Tensor x, made, codes, scales, weight;

  Result<ops::Tensor> Add(device::Stream& stream, DType dtype, int64_t rows, int64_t width) {
    const size_t bytes = RowBytes(dtype, static_cast<size_t>(rows * width));
    SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                            RandomBuffer(BenchMemory().device(), stream, dtype, bytes));
    buffers.push_back(std::move(buffer));
    return ops::Dense(buffers.back().view(), dtype, {rows, width});
  }
  Status Make(device::Stream& stream, const Case& c) {
    const int64_t groups = (c.width + ops::kCodeGroup - 1) / ops::kCodeGroup;
    const int64_t read = c.norm ? c.width : 2 * c.width;
    SLUICE_ASSIGN_OR_RETURN(x, Add(stream, DType::kBF16, c.rows, read));
    SLUICE_ASSIGN_OR_RETURN(made, Add(stream, DType::kBF16, c.rows, c.width));
    SLUICE_ASSIGN_OR_RETURN(codes, Add(stream, DType::kF8E4M3, c.rows, c.width));
    SLUICE_ASSIGN_OR_RETURN(scales, Add(stream, DType::kF32, groups, c.rows));
    SLUICE_ASSIGN_OR_RETURN(weight, Add(stream, DType::kF32, 1, c.width));
    weight.rank = 1;
    weight.dims[0] = c.width;
    weight.strides[0] = 1;
    return OkStatus();
  }
};

// The ops of one launch, bound.
struct Ops {
  ops::Bound<ops::Norm> norm;
  ops::Bound<ops::GatedActivation> gate;
  ops::Bound<ops::GroupQuant> gated_codes;

  Status Make(const Case& c) {
    const ops::OpTable& table = BenchMemory().device().ops();
    ops::Norm::Desc desc{.activation = DType::kBF16, .hidden = c.width};
    if (c.one) desc.form = ops::RowForm::kCodes;
    SLUICE_ASSIGN_OR_RETURN(norm, ops::Bind<ops::Norm>(table, desc));
    SLUICE_ASSIGN_OR_RETURN(gate, ops::Bind<ops::GatedActivation>(
                                      table, {.activation = DType::kBF16, .width = c.width}));
    SLUICE_ASSIGN_OR_RETURN(
        gated_codes, ops::Bind<ops::GroupQuant>(
                         table, {.activation = DType::kBF16, .width = c.width, .gated = true}));
    return OkStatus();
  }
  Status Run(device::Stream& stream, const Case& c, const Tensors& t) const {
    if (c.norm) {
      ops::Norm::Args args{.x = t.x};
      args.weight = t.weight;
      if (!c.one) args.out = t.made;
      if (c.one) args.codes = t.codes, args.code_scales = t.scales;
      SLUICE_RETURN_IF_ERROR(norm(stream, args));
    } else if (c.one) {
      return gated_codes(stream, {.x = t.x, .counts = {}, .codes = t.codes, .scales = t.scales});
    } else {
      SLUICE_RETURN_IF_ERROR(gate(stream, {t.x, t.made}));
    }
    if (c.one) return OkStatus();
    // As a product does whose rows are no codes yet.
    ops::PackedWeight none;
    const ops::Linear::Desc desc{.weight = DType::kF8E4M3,
                                 .weight_scales = ops::WeightScales::kBlock,
                                 .x_scales = ops::ActivationScales::kBlock,
                                 .activation = DType::kBF16,
                                 .n = c.width,
                                 .k = c.width};
    return QuantizeF8(stream, desc, {.x = t.made, .weight = &none, .out = t.made}).status();
  }
};

Result<double> MedianSeconds(const Case& c) {
  device::Stream& stream = BenchMemory().stream();
  Tensors tensors;
  SLUICE_RETURN_IF_ERROR(tensors.Make(stream, c));
  Ops bound;
  SLUICE_RETURN_IF_ERROR(bound.Make(c));
  const auto body = [&](device::Stream& on) {
    for (int i = 0; i < kLaunches; ++i) SLUICE_RETURN_IF_ERROR(bound.Run(on, c, tensors));
    return OkStatus();
  };
  SLUICE_ASSIGN_OR_RETURN(const double all, MedianReplaySeconds(stream, 19, body));
  return all / kLaunches;
}

void RunCase(benchmark::State& state, const Case& c) {
  if (!HasDevice()) return state.SkipWithError("no CUDA device");
  const Result<double> median = MedianSeconds(c);
  if (!median.ok()) return state.SkipWithError(median.status().message().c_str());
  for (auto _ : state) state.SetIterationTime(*median);
  state.counters["us"] = *median * 1e6;
  // What is read and written at least, by one kernel.
  const double numbers = static_cast<double>(c.width * c.rows);
  state.counters["GBs"] = 1e-9 * numbers * ((c.norm ? 2 : 4) + 1 + 4.0 / 128) / *median;
}

const int kRegistered = [] {
  for (const bool norm : {false, true}) {
    for (const int64_t width :
         norm ? std::vector<int64_t>{2048, 4096, 8192} : std::vector<int64_t>{768, 4096, 14336}) {
      for (const int64_t rows : {1, 8, 64, 256, 2048}) {
        for (const bool one : {true, false}) {
          const std::string name =
              StrCat(norm ? "norm/" : "gate/", one ? "one/" : "two/", width, "/", rows);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=](benchmark::State& s) {
                                         RunCase(s, {norm, one, width, rows});
                                       })
              ->UseManualTime()
              ->Iterations(1)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace sluice::cuda
