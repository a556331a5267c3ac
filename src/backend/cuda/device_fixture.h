// A CUDA device for tests and benches, where the machine has one, and tensors in its memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "ops/conformance.h"
#include "ops/element.h"
#include "ops/host_array.h"

namespace sluice::cuda {

inline bool HasDevice() { return !CudaBackend().Probe({}).empty(); }

// The implementations of one op's folder over many generated cases: what failed, or nothing.
inline std::string Verify(device::Device& device, void (*add)(ops::OpTable&), int cases,
                          uint64_t seed = 11) {
  ops::OpTable table(&device.facts());
  add(table);
  const auto results = ops::RunConformance(device, table, {.seed = seed, .cases = cases});
  if (!results.ok()) return results.status().message();
  const std::string text = ops::FormatConformance(*results);
  std::printf("%s", text.c_str());
  for (const ops::ConformanceResult& result : *results) {
    if (!result.ok() || result.cases == 0) return text;
  }
  return "";
}

// Repeats random numbers: finite codes, or activations in BF16, or scales in F32.
inline Result<device::Buffer> RandomBuffer(device::Device& device, device::Stream& stream,
                                           DType dtype, size_t bytes) {
  const auto size = static_cast<size_t>(Info(dtype).bytes);
  std::vector<std::byte> pattern(std::min<size_t>(bytes, 2880 * 1024));
  ops::TestNoise noise(1);
  for (size_t i = 0; i + size <= pattern.size(); i += size) {
    const float value = noise.Value();
    if (dtype == DType::kF8E4M3) {
      pattern[i] = static_cast<std::byte>((noise.Next() & 0xbf) | 4);
    } else {
      ops::StoreElement(dtype, pattern.data(), static_cast<int64_t>(i / size),
                        dtype == DType::kF32 ? 0.01f + 0.005f * value : value);
    }
  }
  SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                          device.Allocate(bytes, device::MemoryKind::kDevice));
  for (size_t done = 0; done < bytes; done += pattern.size()) {
    device::View to = buffer.view();
    to.data += done;
    to.bytes = std::min(pattern.size(), bytes - done);
    const device::View from = {pattern.data(), to.bytes, device::MemoryKind::kHost,
                               device.facts().id};
    const device::CopyItem item = {to, from};
    SLUICE_RETURN_IF_ERROR(device.Copy(stream, {&item, 1}));
  }
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  return buffer;
}

class DeviceMemory {
 public:
  // For what any test or bench calls, before and after a capture.
  static constexpr size_t kScratchBytes = size_t{512} << 20;

  DeviceMemory() {
    auto device = CudaBackend().Open({}, 0, {});
    CHECK(device.ok(), device.status().message());
    device_ = std::move(*device);
    stream_ = std::move(device_->CreateStream().value());
    CHECK(stream_->ReserveScratch(kScratchBytes).ok());
  }

  device::Device& device() { return *device_; }
  device::Stream& stream() { return *stream_; }

  // A copy of `array` on the device, which lives as long as this.
  ops::Tensor Upload(const ops::Array& array) {
    ops::Tensor t = array.tensor();
    buffers_.push_back(
        std::move(device_->Allocate(array.bytes().size(), device::MemoryKind::kDevice).value()));
    const device::View view = buffers_.back().view();
    t.data = view.data;
    t.memory = view.memory;
    t.device = view.device;
    Write(t, array);
    return t;
  }
  // Replaces what Upload put there.
  void Write(const ops::Tensor& t, const ops::Array& array) {
    const device::CopyItem item = {ViewOf(t, array), HostView(array)};
    CHECK(device_->Copy(*stream_, {&item, 1}).ok());
  }
  // The numbers of a tensor that Upload gave.
  ops::Array Download(const ops::Tensor& t, const ops::Array& like) {
    ops::Array array = like;
    const device::CopyItem item = {HostView(array), ViewOf(t, array)};
    CHECK(device_->Copy(*stream_, {&item, 1}).ok());
    CHECK(stream_->Synchronize().ok());
    return array;
  }
  void FreeAll() { buffers_.clear(); }

 private:
  static device::View ViewOf(const ops::Tensor& t, const ops::Array& array) {
    device::View view;
    view.data = t.data;
    view.bytes = array.bytes().size();
    view.memory = t.memory;
    view.device = t.device;
    return view;
  }
  device::View HostView(const ops::Array& array) const {
    device::View view;
    view.data = const_cast<std::byte*>(array.bytes().data());
    view.bytes = array.bytes().size();
    view.device = device_->facts().id;
    return view;
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::deque<device::Buffer> buffers_;
};

// The one of all benches of a process. REQUIRES: HasDevice(). Never destroyed: libraries that it
// uses clean up at the end of the process before it would.
inline DeviceMemory& BenchMemory() {
  static DeviceMemory& memory = *new DeviceMemory();
  return memory;
}

// The median time of replays of `body` as a graph, behind a first one.
inline Result<double> MedianReplaySeconds(device::Stream& stream, int replays,
                                          const device::CaptureBody& body) {
  SLUICE_RETURN_IF_ERROR(body(stream));
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  SLUICE_ASSIGN_OR_RETURN(const auto graph, BenchMemory().device().Capture(stream, nullptr, body));
  std::vector<double> seconds;
  for (int i = 0; i <= replays; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    SLUICE_RETURN_IF_ERROR(graph->Replay(stream, {}));
    SLUICE_RETURN_IF_ERROR(stream.Synchronize());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(took.count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace sluice::cuda
