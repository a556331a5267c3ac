// Speed of linear on the first CUDA device by weight format and batch: time, TFLOP/s, GB/s of
// weights and their share of what the device can read. The shapes are those of Llama-3.1-8B and of
// experts. A measured run is a graph of launches over copies of the weight that the last-level
// cache can't hold. Names: linear/format/activation/shape/m, wgmma/kernel/shape/m for one kernel in
// BF16, and cublaslt/shape/m for the vendor's product in BF16, by the algorithm that joins ours.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device_fixture.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/linear/impls.h"
#include "backend/cuda/linear/wgmma_impls.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using namespace ops;

constexpr double kReadCeiling = 4.57e12;  // bytes per second, of an H200
constexpr size_t kColdBytes = size_t{400} << 20;
constexpr int64_t kLaunchesMin = 8;

struct Shape {
  const char* name;
  int64_t n, k;
};
constexpr Shape kShapes[] = {{"qkv", 6144, 4096},      {"o", 4096, 4096},
                             {"gate_up", 28672, 4096}, {"down", 4096, 14336},
                             {"moe_down", 7168, 2048}, {"moe_gate_up", 4096, 7168},
                             {"lm_head", 128256, 4096}};

device::Device* TheDevice() { return HasDevice() ? &BenchMemory().device() : nullptr; }

// Random bits whose numbers are finite and small: weights of 16 bits in BF16 lie within 2.
std::vector<std::byte> RandomBytes(DType dtype, size_t bytes) {
  TestNoise noise(1);
  std::vector<std::byte> random(bytes);
  const bool plain = dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32;
  const auto size = static_cast<size_t>(Info(dtype).bytes);
  for (size_t i = 0; i + size <= bytes; i += plain ? size : 1) {
    if (plain) {
      StoreElement(dtype, random.data(), static_cast<int64_t>(i / size), noise.Value());
    } else {
      random[i] = static_cast<std::byte>((noise.Next() & 0xbf) | 4);
    }
  }
  return random;
}

// Device memory that is full of `pattern`.
Result<device::Buffer> Filled(device::Stream& stream, std::vector<std::byte> pattern,
                              size_t bytes) {
  device::Device& device = *TheDevice();
  SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                          device.Allocate(bytes, device::MemoryKind::kDevice));
  const auto part = [&](size_t at, size_t size) {
    device::View view = buffer.view();
    view.data += at;
    view.bytes = size;
    return view;
  };
  size_t done = std::min(pattern.size(), bytes);
  const device::View host = {pattern.data(), done, device::MemoryKind::kHost, device.facts().id};
  const device::CopyItem first = {part(0, done), host};
  SLUICE_RETURN_IF_ERROR(device.Copy(stream, {&first, 1}));
  while (done < bytes) {
    const size_t size = std::min(done, bytes - done);
    const device::CopyItem next = {part(done, size), part(0, size)};
    SLUICE_RETURN_IF_ERROR(device.Copy(stream, {&next, 1}));
    done += size;
  }
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  return buffer;
}

struct Case {
  DType weight, activation;
  Shape shape;
  int64_t m;
  // Instead of the implementation that is chosen: the vendor's product, or one kernel.
  bool vendor = false;
  const WgmmaKernel* kernel = nullptr;
};

struct Measured {
  std::unique_ptr<device::Stream> stream;
  std::vector<device::Buffer> buffers;
  std::vector<PackedWeight> weights;
  Linear::Args args;
  std::unique_ptr<OpTable> table;
  Bound<Linear> linear;
  std::unique_ptr<device::Graph> graph;
  int64_t launches = 0;
};

// In BF16, by the vendor or by one kernel of ours.
Status RunProduct(device::Stream& stream, const Case& c, const Linear::Args& args) {
  const ProductKind kind = {c.weight, c.shape.n, c.shape.k};
  const ProductCall call = {.m = c.m,
                            .x = args.x.data,
                            .weight = args.weight->data.data,
                            .out = args.out.data,
                            .x_stride = kind.k,
                            .out_stride = kind.n};
  const auto ours = [&](const ProductCall& product) {
    const WgmmaShape shape = {product.m, kind.n, kind.k, FactsOf(stream).compute_units};
    return MultiplyWgmma(stream, kind, product,
                         c.kernel == nullptr ? PlanWgmma(shape) : PlanWgmmaWith(*c.kernel, shape));
  };
  if (!c.vendor) return ours(call);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<CublasLt::Pins>* const pinned,
                          CublasLtOf(stream).Pinned(stream, kind, call, ours));
  const LtAlgorithm* const algorithm = pinned == nullptr ? nullptr : Joining(*pinned, kind, call);
  if (algorithm == nullptr) return Status(StatusCode::kUnimplemented, DescribeCublasLt());
  return CublasLtOf(stream).Multiply(stream, kind, call, *algorithm);
}

Result<std::unique_ptr<Measured>> Prepare(const Case& c) {
  auto run = std::make_unique<Measured>();
  device::Device& device = *TheDevice();
  const auto [name, n, k] = c.shape;
  SLUICE_ASSIGN_OR_RETURN(run->stream, device.CreateStream());
  run->table = std::make_unique<OpTable>(&device.facts());
  RegisterLinear(*run->table);
  SLUICE_ASSIGN_OR_RETURN(
      run->linear,
      Bind<Linear>(*run->table, {.weight = c.weight, .activation = c.activation, .n = n, .k = k}));
  const size_t bytes = RowBytes(c.weight, static_cast<size_t>(k)) * static_cast<size_t>(n);
  const size_t copies = std::max<size_t>(1, (kColdBytes + bytes - 1) / bytes);
  SLUICE_ASSIGN_OR_RETURN(
      device::Buffer weight,
      Filled(*run->stream, RandomBytes(c.weight, std::min<size_t>(bytes, 2880 * 1024)),
             bytes * copies));
  const auto size = static_cast<size_t>(Info(c.activation).bytes);
  SLUICE_ASSIGN_OR_RETURN(
      device::Buffer x,
      Filled(*run->stream, RandomBytes(c.activation, c.m * k * size), c.m * k * size));
  SLUICE_ASSIGN_OR_RETURN(device::Buffer out,
                          device.Allocate(c.m * n * size, device::MemoryKind::kDevice));
  for (size_t i = 0; i < copies; ++i) {
    device::View view = weight.view();
    view.data += i * bytes;
    view.bytes = bytes;
    PackedWeight packed = {{}, c.weight, LayoutId::kRowMajor, n, k};
    packed.data = Dense(view, DType::kU8, {static_cast<int64_t>(bytes)});
    run->weights.push_back(packed);
  }
  run->args.x = Dense(x.view(), c.activation, {c.m, k});
  run->args.out = Dense(out.view(), c.activation, {c.m, n});
  run->buffers.push_back(std::move(weight));
  run->buffers.push_back(std::move(x));
  run->buffers.push_back(std::move(out));
  run->launches = std::max<int64_t>(kLaunchesMin, static_cast<int64_t>(copies));
  const auto body = [&](device::Stream& stream) {
    for (int64_t i = 0; i < run->launches; ++i) {
      run->args.weight = &run->weights[i % run->weights.size()];
      SLUICE_RETURN_IF_ERROR(c.vendor || c.kernel != nullptr ? RunProduct(stream, c, run->args)
                                                             : run->linear(stream, run->args));
    }
    return OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(body(*run->stream));  // scratch memory grows only outside capture
  SLUICE_RETURN_IF_ERROR(run->stream->Synchronize());
  SLUICE_ASSIGN_OR_RETURN(run->graph, device.Capture(*run->stream, nullptr, body));
  return run;
}

void RunCase(benchmark::State& state, const Case& c) {
  if (TheDevice() == nullptr) return state.SkipWithError("no CUDA device");
  const auto run = Prepare(c);
  if (!run.ok()) return state.SkipWithError(run.status().message().c_str());
  Measured& measured = **run;
  std::vector<double> seconds;  // of a launch
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    Status status = measured.graph->Replay(*measured.stream, {});
    if (status.ok()) status = measured.stream->Synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
    seconds.push_back(took.count() / static_cast<double>(measured.launches));
    state.SetIterationTime(seconds.back());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const auto weights = static_cast<double>(c.shape.n * c.shape.k);
  const double bytes = weights * Info(c.weight).bytes / Info(c.weight).block;
  state.counters["us"] = median * 1e6;
  state.counters["TFLOPs"] = 2e-12 * weights * static_cast<double>(c.m) / median;
  state.counters["GBs"] = 1e-9 * bytes / median;
  state.counters["share"] = bytes / median / kReadCeiling;
}

void RegisterCase(const std::string& name, const Case& c) {
  benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& s) { RunCase(s, c); })
      ->UseManualTime()
      ->Iterations(9)
      ->Unit(benchmark::kMicrosecond);
}

constexpr int64_t kTokens[] = {1, 8, 16, 32, 64, 128, 129, 192, 256, 320, 384, 512, 2048};

const int kRegistered = [] {
  for (const Shape& shape : kShapes) {
    for (const int64_t m : kTokens) {
      if (m > 128 && shape.n > 100000) continue;
      for (const WgmmaKernel& kernel : WgmmaKernels()) {
        if (m > 4 * kernel.tokens) continue;
        RegisterCase(StrCat("wgmma/", kernel.bf16_function, "/", shape.name, "/", m),
                     {DType::kBF16, DType::kBF16, shape, m, false, &kernel});
      }
      RegisterCase(StrCat("cublaslt/", shape.name, "/", m),
                   {DType::kBF16, DType::kBF16, shape, m, true});
    }
  }
  constexpr std::pair<DType, DType> kTypes[] = {
      {DType::kBF16, DType::kBF16},  {DType::kF8E4M3, DType::kBF16}, {DType::kF16, DType::kF16},
      {DType::kF32, DType::kF32},    {DType::kBF16, DType::kF32},    {DType::kQ4_0, DType::kF32},
      {DType::kQ4_1, DType::kF32},   {DType::kQ5_0, DType::kF32},    {DType::kQ5_1, DType::kF32},
      {DType::kQ8_0, DType::kF32},   {DType::kQ2_K, DType::kF32},    {DType::kQ3_K, DType::kF32},
      {DType::kQ4_K, DType::kF32},   {DType::kQ5_K, DType::kF32},    {DType::kQ6_K, DType::kF32},
      {DType::kIQ4_NL, DType::kF32}, {DType::kMXFP4, DType::kF32},   {DType::kQ4_K, DType::kBF16},
      {DType::kQ6_K, DType::kBF16},  {DType::kQ8_0, DType::kBF16},   {DType::kQ4_0, DType::kBF16}};
  for (const auto& [weight, activation] : kTypes) {
    for (const Shape& shape : kShapes) {
      for (const int64_t m : kTokens) {
        if (m > 128 && shape.n > 100000) continue;  // logits are of a row per sequence
        RegisterCase(
            StrCat("linear/", Name(weight), "/", Name(activation), "/", shape.name, "/", m),
            {weight, activation, shape, m});
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace sluice::cuda
