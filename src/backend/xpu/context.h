// An open OpenCL device and what all that it made needs: held by everybody who uses it, so that a
// buffer or a graph may outlive the Device. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

#include "backend/xpu/opencl.h"
#include "backend/xpu/probe.h"
#include "backend/xpu/programs/programs.h"
#include "device/device.h"

namespace sluice::xpu {

class Context {
 public:
  static Result<std::shared_ptr<Context>> Open(const FoundDevice& device, std::string cache_folder);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const FoundDevice& device() const { return device_; }
  const device::DeviceFacts& facts() const { return device_.facts; }
  cl_context handle() const { return context_; }
  Programs& programs() { return *programs_; }
  const CommandBufferApi& command_buffers() const { return command_buffers_; }
  // For tests: instead of the driver's, before a graph is captured.
  void UseCommandBuffers(const CommandBufferApi& api) { command_buffers_ = api; }
  // True once: whoever finds that the driver refuses them says so.
  bool TellOfNoCommandBuffers() { return !told_of_no_command_buffers_.exchange(true); }

  // Shared virtual memory of at least `bytes`, aligned to 256, not zeroed.
  struct Memory {
    void* base = nullptr;  // what is freed
    std::byte* data = nullptr;
  };
  Result<Memory> Allocate(size_t bytes);
  // Waits for all work of the device first: a kernel may still use the memory.
  void Free(void* base, size_t bytes);
  size_t allocated_bytes() const { return allocated_.load(); }

  Result<cl_command_queue> CreateQueue();
  void ReleaseQueue(cl_command_queue queue);

 private:
  explicit Context(const FoundDevice& device) : device_(device) {}

  const FoundDevice device_;
  cl_context context_ = nullptr;
  std::unique_ptr<Programs> programs_;
  CommandBufferApi command_buffers_;
  std::atomic<size_t> allocated_{0};
  std::atomic<bool> told_of_no_command_buffers_{false};
  std::mutex mutex_;
  std::set<cl_command_queue> queues_;  // guarded by mutex_
};

// A piece of device memory for this backend's own use.
class OwnedMemory {
 public:
  OwnedMemory(std::shared_ptr<Context> context, Context::Memory memory, size_t bytes)
      : context_(std::move(context)), memory_(memory), bytes_(bytes) {}
  ~OwnedMemory() { context_->Free(memory_.base, bytes_); }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  std::byte* data() const { return memory_.data; }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Context> context_;
  const Context::Memory memory_;
  const size_t bytes_;
};

}  // namespace sluice::xpu
