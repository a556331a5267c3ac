// What the device layer and the simple ops cost on a GPU. Needs one.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/cuda/device_fixture.h"
#include "ops/activation.h"
#include "ops/norm.h"

namespace sluice::cuda {
namespace {

using device::MemoryKind;

template <class T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().message().c_str());
  std::exit(4);
}
void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

struct Gpu {
  device::Device* device;
  device::Stream* stream;
};

Gpu TheGpu() {
  if (!HasDevice()) {
    std::fprintf(stderr, "%s\n", CudaBackend().AbsentReason().c_str());
    std::exit(4);
  }
  return {&BenchMemory().device(), &BenchMemory().stream()};
}

// Calls `run` `calls` times between two waits, as one iteration.
template <class Run>
void Measure(benchmark::State& state, int calls, double bytes_per_call, Run run) {
  const Gpu gpu = TheGpu();
  run();
  Must(gpu.stream->Synchronize());
  const auto started = std::chrono::steady_clock::now();
  for (auto _ : state) {
    for (int i = 0; i < calls; ++i) run();
    Must(gpu.stream->Synchronize());
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  const double all = static_cast<double>(state.iterations()) * calls;
  state.counters["us_per_call"] = taken.count() * 1e6 / all;
  state.counters["GB_per_s"] = all * bytes_per_call / taken.count() / 1e9;
}

struct Row {
  device::Buffer x, out, weight;
  ops::Norm::Args args;
  ops::Bound<ops::Norm> norm;
};

Row MakeRow(int64_t tokens, int64_t hidden) {
  const Gpu gpu = TheGpu();
  Row row;
  const size_t bytes = static_cast<size_t>(tokens * hidden) * 2;
  row.x = Must(gpu.device->Allocate(bytes, MemoryKind::kDevice));
  row.out = Must(gpu.device->Allocate(bytes, MemoryKind::kDevice));
  row.weight = Must(gpu.device->Allocate(static_cast<size_t>(hidden) * 4, MemoryKind::kDevice));
  row.args.x = ops::Dense(row.x.view(), DType::kBF16, {tokens, hidden});
  row.args.out = ops::Dense(row.out.view(), DType::kBF16, {tokens, hidden});
  row.args.weight = ops::Dense(row.weight.view(), DType::kF32, {hidden});
  row.norm =
      Must(ops::Bind<ops::Norm>(gpu.device->ops(), {.activation = DType::kBF16, .hidden = hidden}));
  return row;
}

void BM_Norm(benchmark::State& state) {
  const Row row = MakeRow(state.range(0), state.range(1));
  Measure(state, 50, 4.0 * static_cast<double>(state.range(0) * state.range(1)),
          [&] { Must(row.norm(*TheGpu().stream, row.args)); });
}
BENCHMARK(BM_Norm)->Args({1, 4096})->Args({64, 4096})->Args({8192, 4096})->UseRealTime();

void BM_GatedActivation(benchmark::State& state) {
  const Gpu gpu = TheGpu();
  const int64_t tokens = state.range(0), width = state.range(1);
  const size_t bytes = static_cast<size_t>(tokens * width) * 2;
  const auto in = Must(gpu.device->Allocate(2 * bytes, MemoryKind::kDevice));
  const auto out = Must(gpu.device->Allocate(bytes, MemoryKind::kDevice));
  const ops::GatedActivation::Args args = {
      .gate_up = ops::Dense(in.view(), DType::kBF16, {tokens, 2 * width}),
      .out = ops::Dense(out.view(), DType::kBF16, {tokens, width})};
  const auto op = Must(ops::Bind<ops::GatedActivation>(
      gpu.device->ops(), {.activation = DType::kBF16, .width = width}));
  Measure(state, 50, 3.0 * static_cast<double>(bytes), [&] { Must(op(*gpu.stream, args)); });
}
BENCHMARK(BM_GatedActivation)
    ->Args({1, 14336})
    ->Args({64, 14336})
    ->Args({4096, 14336})
    ->UseRealTime();

// 300 small kernels, as a decode step of 32 layers has, one by one and as a graph.
void BM_EagerStep(benchmark::State& state) {
  const Row row = MakeRow(1, 4096);
  Measure(state, 300, 0, [&] { Must(row.norm(*TheGpu().stream, row.args)); });
}
BENCHMARK(BM_EagerStep)->UseRealTime();

void BM_ReplayedStep(benchmark::State& state) {
  const Gpu gpu = TheGpu();
  const Row row = MakeRow(1, 4096);
  Must(row.norm(*gpu.stream, row.args));
  const auto graph =
      Must(gpu.device->Capture(*gpu.stream, nullptr, [&](device::Stream& stream) -> Status {
        for (int i = 0; i < 300; ++i) SLUICE_RETURN_IF_ERROR(row.norm(stream, row.args));
        return OkStatus();
      }));
  const auto source = Must(gpu.device->Allocate(4096, MemoryKind::kPinned));
  const auto target = Must(gpu.device->Allocate(4096, MemoryKind::kDevice));
  const device::ReplayParams params = {{{"inputs", source.view(), target.view()}}};
  Measure(state, 1, 0, [&] { Must(graph->Replay(*gpu.stream, params)); });
}
BENCHMARK(BM_ReplayedStep)->UseRealTime();

void BM_Copy(benchmark::State& state, MemoryKind from, MemoryKind to) {
  const Gpu gpu = TheGpu();
  const size_t bytes = static_cast<size_t>(state.range(0));
  const auto source = Must(gpu.device->Allocate(bytes, from));
  const auto target = Must(gpu.device->Allocate(bytes, to));
  const device::CopyItem item = {target.view(), source.view()};
  Measure(state, 4, static_cast<double>(bytes), [&] {
    Must(gpu.device->Copy(*gpu.stream, {&item, 1}));
  });
}
BENCHMARK_CAPTURE(BM_Copy, host_to_device, MemoryKind::kHost, MemoryKind::kDevice)
    ->Arg(256 << 20)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Copy, pinned_to_device, MemoryKind::kPinned, MemoryKind::kDevice)
    ->Arg(4096)
    ->Arg(256 << 20)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Copy, device_to_device, MemoryKind::kDevice, MemoryKind::kDevice)
    ->Arg(1 << 30)
    ->UseRealTime();

// Blocks of KV of `bytes` in one list, every other one, so that none merge.
void BM_CopyBlocks(benchmark::State& state) {
  const Gpu gpu = TheGpu();
  const size_t count = static_cast<size_t>(state.range(0)), bytes = state.range(1);
  const auto source = Must(gpu.device->Allocate(2 * count * bytes, MemoryKind::kDevice));
  const auto target = Must(gpu.device->Allocate(2 * count * bytes, MemoryKind::kDevice));
  std::vector<device::CopyItem> items;
  for (size_t i = 0; i < count; ++i) {
    items.push_back({target.view(), source.view()});
    items.back().destination.data += 2 * i * bytes;
    items.back().source.data += 2 * i * bytes;
    items.back().destination.bytes = items.back().source.bytes = bytes;
  }
  Measure(state, 4, static_cast<double>(count * bytes),
          [&] { Must(gpu.device->Copy(*gpu.stream, items)); });
}
BENCHMARK(BM_CopyBlocks)->Args({64, 4096})->Args({64, 2 << 20})->UseRealTime();

}  // namespace
}  // namespace sluice::cuda
