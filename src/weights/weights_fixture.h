// For tests: a small made-up checkpoint and a device that counts what is asked of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>

#include "weights/manifest.h"
#include "weights/place.h"

namespace sluice::weights {

// A code of four bits at a place of a matrix, and the value that such a code has as a float (E2M1).
inline int CodeAt(int64_t row, int64_t column) {
  return static_cast<int>((row * 5 + column * 3) % 16);
}
inline double ValueOfCode(int code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code < 8 ? kValues[code] : -kValues[code - 8];
}

// A checkpoint in memory.
class FakeSource : public files::TensorSource {
 public:
  FakeSource& Add(std::string name, DType dtype, std::vector<int64_t> shape,
                  std::vector<std::byte> bytes) {
    bytes_.push_back(std::move(bytes));
    tensors_.push_back({std::move(name), dtype, std::move(shape), bytes_.back()});
    return *this;
  }
  FakeSource& AddF32(std::string name, std::vector<int64_t> shape, std::vector<float> values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return Add(std::move(name), DType::kF32, std::move(shape), std::move(bytes));
  }
  FakeSource& AddHalf(std::string name, DType dtype, std::vector<int64_t> shape,
                      std::vector<float> values) {
    std::vector<std::byte> bytes;
    for (float value : values) {
      const uint16_t bits = dtype == DType::kF16 ? F32ToF16(value) : F32ToBF16(value);
      bytes.push_back(static_cast<std::byte>(bits & 0xff));
      bytes.push_back(static_cast<std::byte>(bits >> 8));
    }
    return Add(std::move(name), dtype, std::move(shape), std::move(bytes));
  }

  const std::vector<files::FileTensor>& tensors() const override { return tensors_; }
  const files::FileTensor* Find(std::string_view name) const override {
    for (const files::FileTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  void Release(const files::FileTensor& tensor) const override {
    std::lock_guard lock(mutex_);
    released.push_back(tensor.name);
    released_bytes += static_cast<int64_t>(tensor.data.size());
  }
  std::shared_ptr<std::byte> MapPrivately(const files::FileTensor& tensor) const override {
    if (!maps) return nullptr;
    std::shared_ptr<std::byte> copy(new std::byte[tensor.data.size() + 1],
                                    [](std::byte* bytes) { delete[] bytes; });
    // At an odd address where a test asks for one.
    std::byte* at = copy.get() + (odd ? 1 : 0);
    std::memcpy(at, tensor.data.data(), tensor.data.size());
    return {copy, at};
  }

  mutable std::vector<std::string> released;
  mutable int64_t released_bytes = 0;
  bool maps = false, odd = false;

 private:
  mutable std::mutex mutex_;
  std::vector<files::FileTensor> tensors_;
  std::deque<std::vector<std::byte>> bytes_;
};

inline constexpr int kGroup = 8;
// Rows that begin with this fail to be packed.
inline constexpr std::byte kUnpackable{0xff};

// Stored with every byte inverted, so that a test sees whether pack ran.
inline size_t InvertedBytes(const ops::Linear::Desc& desc) {
  return RowBytes(desc.weight, static_cast<size_t>(desc.k * desc.n));
}
inline Status Invert(const ops::Linear::Desc& desc, int64_t first_row,
                     std::span<const std::byte> rows, std::span<std::byte> packed) {
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  // Calls that share a row group would race; the last rows of a source may end inside one.
  if (rows.size() / row_bytes > kGroup && first_row % kGroup != 0 && first_row > kGroup) {
    return InvalidArgument("a call starts inside a row group");
  }
  if (!rows.empty() && rows[0] == kUnpackable) return InvalidArgument("it cannot be packed");
  const size_t offset = row_bytes * static_cast<size_t>(first_row);
  for (size_t i = 0; i < rows.size(); ++i) packed[offset + i] |= ~rows[i];  // needs zeros
  return OkStatus();
}

// Device memory is host memory. Copies from host memory are made at once, others when the host
// waits for them and not before, so that a buffer that is reused or freed too early is found.
class FakeDevice : public device::Device {
 public:
  FakeDevice() : ops_(&facts_) {
    facts_.host_threads = 1;
    // F16 is packed, all else row-major.
    ops_.Add(ops::Implementation<ops::Linear>{
        "fake_f16_linear",
        [](const ops::Linear::Desc& desc, const device::DeviceFacts&) {
          return desc.weight == DType::kF16 ? ops::Support::Yes() : ops::Support::No("not F16");
        },
        &Run});
    ops_.Attach("fake_f16_linear", ops::LinearPacking{ops::LayoutId::kCpuInterleaved8, kGroup,
                                                      &InvertedBytes, &Invert});
    // Scales where the architecture is "f8", activations in F8, too, where it is "f8f8".
    ops_.Add(ops::Implementation<ops::Linear>{
        "fake_f8_linear",
        [](const ops::Linear::Desc& desc, const device::DeviceFacts& facts) {
          const bool x_in_f8 = desc.x_scales != ops::ActivationScales::kNone;
          return desc.weight_scales != ops::WeightScales::kNone &&
                         facts.architecture.starts_with(x_in_f8 ? "f8f8" : "f8")
                     ? ops::Support::Yes()
                     : ops::Support::No("no scales");
        },
        &Run});
    ops_.Add(ops::Implementation<ops::Linear>{
        "fake_linear",
        [](const ops::Linear::Desc& desc, const device::DeviceFacts&) {
          if (const ops::Support plain = ops::NoWeightScales(desc); !plain.ok) return plain;
          return desc.weight == DType::kQ2_K ? ops::Support::No("no Q2_K") : ops::Support::Yes();
        },
        &Run});
    // Experts as matrices, with scales likewise.
    ops_.Add(ops::Implementation<ops::GroupedLinear>{
        "fake_f16_grouped_linear",
        [](const ops::GroupedLinear::Desc& desc, const device::DeviceFacts&) {
          return desc.each.weight == DType::kF16 ? ops::Support::Yes()
                                                 : ops::Support::No("not F16");
        },
        &RunGrouped});
    ops_.Attach("fake_f16_grouped_linear", ops::LinearPacking{ops::LayoutId::kCpuInterleaved8,
                                                              kGroup, &InvertedBytes, &Invert});
    ops_.Add(ops::Implementation<ops::GroupedLinear>{
        "fake_grouped_linear",
        [](const ops::GroupedLinear::Desc& desc, const device::DeviceFacts& facts) {
          const bool x_in_f8 = desc.each.x_scales != ops::ActivationScales::kNone;
          return facts.architecture.starts_with(x_in_f8 ? "f8f8" : "f8")
                     ? ops::Support::Yes()
                     : ops::NoWeightScales(desc.each);
        },
        &RunGrouped});
  }
  const device::DeviceFacts& facts() const override { return facts_; }
  Result<device::MemoryInfo> Memory() const override {
    return device::MemoryInfo{free_bytes, free_bytes};
  }
  Result<device::Buffer> Allocate(size_t bytes, device::MemoryKind kind) override {
    allocations += 1;
    if (kind == device::MemoryKind::kPinned && bytes > pinned_bytes_max) {
      return Status(StatusCode::kOutOfMemory, "too much to pin");
    }
    auto memory = std::make_shared<Memory_>(this);
    memory->bytes.resize(bytes);
    const device::View view{memory->bytes.data(), bytes, kind, {}};
    if (kind != device::MemoryKind::kDevice) {
      staging_now += bytes;
      staging_most = std::max(staging_most, staging_now);
    }
    return device::Buffer(view, memory);
  }
  Result<std::unique_ptr<device::Stream>> CreateStream() override {
    return std::unique_ptr<device::Stream>(new FakeStream(this));
  }
  Result<std::unique_ptr<device::Event>> CreateEvent() override {
    return std::unique_ptr<device::Event>(new FakeEvent(this));
  }
  Status Copy(device::Stream&, std::span<const device::CopyItem> items) override {
    if (++copy_calls == copy_that_is_refused) return Status(StatusCode::kDevice, "refused");
    for (const device::CopyItem& item : items) {
      copies += 1;
      if (item.destination.bytes < item.source.bytes) return InvalidArgument("too small");
      queue_.push_back(item);
    }
    return items.empty() || items[0].source.memory == device::MemoryKind::kPinned
               ? OkStatus()
               : RunUntil(copies);
  }
  Result<std::unique_ptr<device::Graph>> Capture(device::Stream&, device::Communicator*,
                                                 const device::CaptureBody&) override {
    return Status(StatusCode::kUnimplemented, "no graphs");
  }
  const ops::OpTable& ops() const override { return ops_; }

  size_t free_bytes = 1u << 20;
  size_t pinned_bytes_max = SIZE_MAX;                 // of one allocation
  int copy_that_is_refused = 0, copy_that_fails = 0;  // by Copy; when it runs; from 1
  device::DeviceFacts facts_;

  int allocations = 0, copies = 0, copy_calls = 0;
  int copies_run = 0;
  size_t staging_now = 0, staging_most = 0;
  size_t pending_most = 0;        // copies that were under way at one time
  bool freed_while_read = false;  // by a copy that had not run

 private:
  struct FakeStream : device::Stream {
    explicit FakeStream(FakeDevice* d) : device(d) {}
    Status Synchronize() override { return device->RunUntil(device->copies); }
    Status Record(device::Event& event) override {
      static_cast<FakeEvent&>(event).until = device->copies;
      return OkStatus();
    }
    Status Wait(device::Event&) override { return OkStatus(); }
    Status CallOnHost(std::function<Status()> call) override {
      SLUICE_RETURN_IF_ERROR(Synchronize());
      return call();
    }
    FakeDevice* const device;
  };
  struct FakeEvent : device::Event {
    explicit FakeEvent(FakeDevice* d) : device(d) {}
    Status Synchronize() override { return device->RunUntil(until); }
    bool Done() override { return device->copies_run >= until; }
    FakeDevice* const device;
    int until = 0;
  };
  struct Memory_ : device::Buffer::Deleter {
    explicit Memory_(FakeDevice* d) : device(d) {}
    void Free(const device::View& view) override {
      if (view.memory == device::MemoryKind::kDevice) return;
      device->staging_now -= view.bytes;
      for (const device::CopyItem& item : device->queue_) {
        if (item.source.data >= view.data && item.source.data < view.data + view.bytes) {
          device->freed_while_read = true;
        }
      }
    }
    FakeDevice* const device;
    std::vector<std::byte> bytes;
  };
  Status RunUntil(int count) {
    pending_most = std::max(pending_most, queue_.size());
    while (copies_run < count && !queue_.empty()) {
      const device::CopyItem item = queue_.front();
      queue_.pop_front();
      if (++copies_run == copy_that_fails) failed_ = Status(StatusCode::kDevice, "came to nothing");
      std::memcpy(item.destination.data, item.source.data, item.source.bytes);
    }
    return failed_;
  }
  static Status Run(device::Stream&, const ops::Linear::Desc&, const ops::Linear::Args&) {
    return OkStatus();
  }
  static Status RunGrouped(device::Stream&, const ops::GroupedLinear::Desc&,
                           const ops::GroupedLinear::Args&) {
    return OkStatus();
  }
  ops::OpTable ops_;
  std::deque<device::CopyItem> queue_;
  Status failed_;
};

inline std::vector<float> Ramp(int64_t count, float from) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return values;
}

inline std::vector<float> Values(const ops::Tensor& t) {
  EXPECT_EQ(t.dtype, DType::kF32);
  return {t.ptr<float>(), t.ptr<float>() + t.size()};
}

inline ParamSpec Matrix(std::string name, int64_t columns, SourceList sources) {
  ParamSpec spec;
  spec.name = std::move(name);
  spec.columns = columns;
  for (const ParamSource& source : sources) spec.rows += source.rows;
  spec.hugging_face = spec.gguf = {sources};
  return spec;
}

inline ParamSpec Vector(std::string name, ParamRole role, std::string source, int64_t size) {
  ParamSpec spec;
  spec.name = std::move(name);
  spec.role = role;
  spec.rows = size;
  spec.hugging_face = spec.gguf = {{{std::move(source), size}}};
  return spec;
}

// Planned and placed at once.
inline Result<ParameterMap> Place(const std::vector<ParamSpec>& specs, const FakeSource& source,
                                  FakeDevice& device, const PlanOptions& plan_options = {},
                                  const PlaceOptions& options = {}) {
  SLUICE_ASSIGN_OR_RETURN(WeightPlan plan, PlanWeights(specs, source, device, plan_options));
  return Place(std::move(plan), device, options);
}

}  // namespace sluice::weights
