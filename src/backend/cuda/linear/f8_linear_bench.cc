// Speed of products in F8 on the first CUDA device: time, TFLOP/s, GB/s of weights and their share
// of what the device can read. The shapes are those of Llama-3.1-8B and of experts. A measured run
// is a graph of launches over copies of the weight that the last-level cache can't hold. Names:
//   f8/scales/shape/m           the op: x becomes F8, then the product
//   f8_coded/block/shape/m      the op from codes, by whoever multiplies so many rows
//   f8_residual/block/shape/m   the same with a residual
//   f8_product/scales/shape/m   the product alone, by the one of our kernels that is chosen
//   f8_kernel/name/shape/m      the same by one kernel
//   cublaslt_f8/scales/shape/m  the vendor's product, the best of its first eight algorithms
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device_fixture.h"
#include "backend/cuda/linear/cublaslt_library.h"
#include "backend/cuda/linear/f8_product.h"
#include "backend/cuda/linear/impls.h"
#include "backend/cuda/stream.h"

namespace sluice::cuda {
namespace {

using ops::ActivationScales;
using ops::Linear;
using ops::WeightScales;

constexpr double kReadCeiling = 4.57e12;  // bytes per second, of an H200
constexpr size_t kColdBytes = size_t{256} << 20;
constexpr int64_t kLaunchesMin = 8;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

struct Shape {
  const char* name;
  int64_t n, k;
};
constexpr Shape kShapes[] = {{"qkv", 6144, 4096},      {"o", 4096, 4096},
                             {"gate_up", 28672, 4096}, {"down", 4096, 14336},
                             {"moe_down", 7168, 2048}, {"moe_gate_up", 4096, 7168}};
struct Scales {
  const char* name;
  WeightScales w;
  ActivationScales x;
  int mode_w, mode_x;  // of cuBLASLt
};
constexpr Scales kScales[] = {{"tensor", WeightScales::kTensor, ActivationScales::kTensor, 0, 0},
                              {"row", WeightScales::kRow, ActivationScales::kRow, 3, 3},
                              {"block", WeightScales::kBlock, ActivationScales::kBlock, 5, 4}};

enum class What { kOp, kCoded, kResidual, kProduct, kVendor };
struct Case {
  What what;
  Scales scales;
  Shape shape;
  int64_t m;
  const F8Kernel* kernel = nullptr;  // null: the chosen one
};

device::Device* TheDevice() { return HasDevice() ? &BenchMemory().device() : nullptr; }

struct Measured {
  std::unique_ptr<device::Stream> stream;
  std::vector<device::Buffer> buffers;
  std::vector<ops::PackedWeight> weights;
  Linear::Desc desc;
  Linear::Args args;
  std::unique_ptr<ops::OpTable> table;
  ops::Bound<Linear> linear;
  F8Codes codes;
  F8Plan plan;
  int64_t launches = 0;

  Result<ops::Tensor> Add(DType dtype, std::initializer_list<int64_t> dims) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                            RandomBuffer(*TheDevice(), *stream, dtype, count * Info(dtype).bytes));
    buffers.push_back(std::move(buffer));
    return ops::Dense(buffers.back().view(), dtype, dims);
  }
};

// The vendor's objects for one product: out^T = W x^T in columns.
struct Vendor {
  const LtFunctions* lt = nullptr;
  LtHandle handle = nullptr;
  LtMatmulDesc desc = nullptr;
  LtLayout w = nullptr, x = nullptr, out = nullptr;
  std::vector<LtHeuristic> found;

  // Whether the library offers any algorithm.
  bool Make(const Case& c, const Measured& run) {
    constexpr int kFastSums = 25;
    const auto set = [&](int attribute, auto value) {
      return lt->cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value) ==
             lt::kSuccess;
    };
    const auto [name, n, k] = c.shape;
    lt->cublasLtCreate(&handle);
    lt->cublasLtMatmulDescCreate(&desc, lt::kCompute32F, lt::kR32F);
    bool ok = set(lt::kDescTransA, lt::kOpT);
    ok = set(lt::kDescScaleA, static_cast<const void*>(run.weights[0].scales.data)) && ok;
    ok = set(lt::kDescScaleB, static_cast<const void*>(run.codes.scales)) && ok;
    if (c.scales.mode_w != 0) {
      ok = set(lt::kDescScaleModeA, int32_t{c.scales.mode_w}) && ok;
      ok = set(lt::kDescScaleModeB, int32_t{c.scales.mode_x}) && ok;
    } else {
      ok = set(kFastSums, int8_t{1}) && ok;
    }
    lt->cublasLtMatrixLayoutCreate(&w, lt::kR8FE4M3, static_cast<uint64_t>(k),
                                   static_cast<uint64_t>(n), k);
    lt->cublasLtMatrixLayoutCreate(&x, lt::kR8FE4M3, static_cast<uint64_t>(k),
                                   static_cast<uint64_t>(c.m), k);
    lt->cublasLtMatrixLayoutCreate(&out, lt::kR16BF, static_cast<uint64_t>(n),
                                   static_cast<uint64_t>(c.m), n);
    LtPreference preference = nullptr;
    lt->cublasLtMatmulPreferenceCreate(&preference);
    lt->cublasLtMatmulPreferenceSetAttribute(preference, lt::kPrefWorkspaceBytes, &kWorkspaceBytes,
                                             sizeof kWorkspaceBytes);
    found.resize(8);
    int count = 0;
    if (!ok || lt->cublasLtMatmulAlgoGetHeuristic(handle, desc, w, x, out, out, preference, 8,
                                                  found.data(), &count) != lt::kSuccess) {
      count = 0;
    }
    lt->cublasLtMatmulPreferenceDestroy(preference);
    found.resize(static_cast<size_t>(count));
    return count > 0;
  }
  Status Run(device::Stream& stream, const Measured& run, const ops::PackedWeight& weight,
             size_t algorithm, std::byte* workspace) const {
    const float one = 1.0f, zero = 0.0f;
    const int status = lt->cublasLtMatmul(handle, desc, &one, weight.data.data, w, run.codes.codes,
                                          x, &zero, run.args.out.data, out, run.args.out.data, out,
                                          &found[algorithm].algorithm, workspace, kWorkspaceBytes,
                                          AsCuda(stream).handle());
    return status == lt::kSuccess ? OkStatus() : Status(StatusCode::kDevice, "cuBLASLt");
  }
};

Status Prepare(const Case& c, Measured* run) {
  device::Device& device = *TheDevice();
  const auto [name, n, k] = c.shape;
  SLUICE_ASSIGN_OR_RETURN(run->stream, device.CreateStream());
  SLUICE_RETURN_IF_ERROR(run->stream->ReserveScratch(size_t{128} << 20));
  run->desc = {.weight = DType::kF8E4M3,
               .weight_scales = c.scales.w,
               .x_scales = c.scales.x,
               .activation = DType::kBF16,
               .n = n,
               .k = k,
               .residual = c.what == What::kResidual};
  run->table = std::make_unique<ops::OpTable>(&device.facts());
  RegisterLinear(*run->table);
  SLUICE_ASSIGN_OR_RETURN(run->linear, ops::Bind<Linear>(*run->table, run->desc));
  const auto bytes = static_cast<size_t>(n * k);
  const auto copies = static_cast<int64_t>((kColdBytes + bytes - 1) / bytes);
  SLUICE_ASSIGN_OR_RETURN(const ops::Tensor all, run->Add(DType::kF8E4M3, {copies * n, k}));
  const std::vector<int64_t> scaled = ops::ScaleShape(run->desc);
  ops::Tensor scales;
  if (scaled.size() == 2) {
    SLUICE_ASSIGN_OR_RETURN(scales, run->Add(DType::kF32, {scaled[0], scaled[1]}));
  } else {
    SLUICE_ASSIGN_OR_RETURN(scales, run->Add(DType::kF32, {scaled[0]}));
  }
  ops::Tensor x_scale;
  if (c.scales.x == ActivationScales::kTensor) {
    SLUICE_ASSIGN_OR_RETURN(x_scale, run->Add(DType::kF32, {1}));
  }
  SLUICE_ASSIGN_OR_RETURN(run->args.x, run->Add(DType::kBF16, {c.m, k}));
  SLUICE_ASSIGN_OR_RETURN(run->args.out, run->Add(DType::kBF16, {c.m, n}));
  if (run->desc.residual) {
    SLUICE_ASSIGN_OR_RETURN(run->args.residual, run->Add(DType::kBF16, {c.m, n}));
  }
  for (int64_t i = 0; i < copies; ++i) {
    ops::PackedWeight weight = {all.Rows(i * n, n), DType::kF8E4M3, ops::LayoutId::kRowMajor, n, k};
    weight.scales = scales;
    weight.x_scale = x_scale;
    run->weights.push_back(weight);
  }
  run->args.weight = &run->weights[0];
  run->launches = std::max<int64_t>(kLaunchesMin, copies);
  SLUICE_ASSIGN_OR_RETURN(run->codes, QuantizeF8(*run->stream, run->desc, run->args));
  const F8Shape shape = {c.m, n, k, device.facts().compute_units};
  run->plan = c.kernel == nullptr ? PlanF8(shape) : PlanF8With(*c.kernel, shape);
  if (c.what == What::kProduct || c.what == What::kVendor) return OkStatus();
  if (c.what != What::kOp) {
    const int64_t units = (k + kF8Unit - 1) / kF8Unit;
    SLUICE_ASSIGN_OR_RETURN(run->args.x_scales, run->Add(DType::kF32, {units, c.m}));
    SLUICE_ASSIGN_OR_RETURN(run->args.x, run->Add(DType::kF8E4M3, {c.m, k}));
  }
  // The first call finds out whether cuBLASLt joins, which no graph may hold.
  SLUICE_RETURN_IF_ERROR(run->linear(*run->stream, run->args));
  return OkStatus();
}

// Of a launch.
Result<double> MedianSeconds(Measured& run, const device::CaptureBody& body) {
  SLUICE_ASSIGN_OR_RETURN(const double all, MedianReplaySeconds(*run.stream, 9, body));
  return all / static_cast<double>(run.launches);
}

Result<double> TimeVendor(const Case& c, Measured& run) {
  SLUICE_ASSIGN_OR_RETURN(const LtFunctions* const library, LoadCublasLt());
  Vendor vendor;
  vendor.lt = library;
  if (!vendor.Make(c, run)) return Status(StatusCode::kUnimplemented, "not offered here");
  SLUICE_ASSIGN_OR_RETURN(const device::Buffer workspace,
                          TheDevice()->Allocate(kWorkspaceBytes, device::MemoryKind::kDevice));
  double best = 1e9;
  for (size_t algorithm = 0; algorithm < vendor.found.size(); ++algorithm) {
    const auto body = [&](device::Stream& stream) {
      for (int64_t i = 0; i < run.launches; ++i) {
        const auto at = static_cast<size_t>(i) % run.weights.size();
        SLUICE_RETURN_IF_ERROR(
            vendor.Run(stream, run, run.weights[at], algorithm, workspace.data()));
      }
      return OkStatus();
    };
    const Result<double> took = MedianSeconds(run, body);
    if (took.ok()) best = std::min(best, *took);
  }
  if (best > 1e8) return Status(StatusCode::kDevice, "none of the algorithms ran");
  return best;
}

Result<double> Time(const Case& c, Measured& run) {
  SLUICE_RETURN_IF_ERROR(Prepare(c, &run));
  if (c.what == What::kVendor) return TimeVendor(c, run);
  return MedianSeconds(run, [&](device::Stream& stream) {
    for (int64_t i = 0; i < run.launches; ++i) {
      run.args.weight = &run.weights[static_cast<size_t>(i) % run.weights.size()];
      SLUICE_RETURN_IF_ERROR(c.what == What::kProduct
                                 ? MultiplyF8(stream, run.desc, run.args, run.codes, run.plan)
                                 : run.linear(stream, run.args));
    }
    return OkStatus();
  });
}

void RunCase(benchmark::State& state, const Case& c) {
  if (TheDevice() == nullptr) return state.SkipWithError("no CUDA device");
  Measured run;
  const Result<double> median = Time(c, run);
  if (!median.ok()) return state.SkipWithError(median.status().message().c_str());
  for (auto _ : state) state.SetIterationTime(*median);
  const auto bytes = static_cast<double>(c.shape.n * c.shape.k);
  state.counters["us"] = *median * 1e6;
  state.counters["TFLOPs"] = 2e-12 * bytes * static_cast<double>(c.m) / *median;
  state.counters["GBs"] = 1e-9 * bytes / *median;
  state.counters["share"] = bytes / *median / kReadCeiling;
}

void RegisterCase(const std::string& name, const Case& c) {
  benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& s) { RunCase(s, c); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

const int kRegistered = [] {
  for (const Shape& shape : kShapes) {
    for (const int64_t m :
         {1, 16, 32, 64, 128, 160, 192, 256, 320, 384, 512, 1024, 2048, 4096, 8192}) {
      for (const Scales& scales : kScales) {
        const std::string rest = StrCat(scales.name, "/", shape.name, "/", m);
        RegisterCase(StrCat("f8/", rest), {What::kOp, scales, shape, m});
        RegisterCase(StrCat("f8_product/", rest), {What::kProduct, scales, shape, m});
        RegisterCase(StrCat("cublaslt_f8/", rest), {What::kVendor, scales, shape, m});
      }
      RegisterCase(StrCat("f8_coded/block/", shape.name, "/", m),
                   {What::kCoded, kScales[2], shape, m});
      RegisterCase(StrCat("f8_residual/block/", shape.name, "/", m),
                   {What::kResidual, kScales[2], shape, m});
      for (const F8Kernel& kernel : F8Kernels()) {
        if (m > 32 * kernel.tokens) continue;
        RegisterCase(StrCat("f8_kernel/", kernel.blocks_function, "/", shape.name, "/", m),
                     {What::kProduct, kScales[2], shape, m, &kernel});
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace sluice::cuda
