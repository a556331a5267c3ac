// What the device, its streams, its memory and its kernels share: the primary context of one GPU.
// Made by CudaDevice, which outlives all that it made. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/cuda/driver.h"
#include "device/types.h"
#include "sluice/status.h"

namespace sluice::cuda {

class Context {
 public:
  // `ordinal`: as the driver counts.
  static Result<std::unique_ptr<Context>> Retain(int ordinal, const device::DeviceFacts& facts);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const device::DeviceFacts& facts() const { return facts_; }
  CUdevice device() const { return device_; }
  // Each thread does this before it calls the driver.
  Status Enter() const { return MakeCurrent(context_); }
  bool CapturesOnThisThread() const {
    return capturing_thread_.load() == std::this_thread::get_id();
  }

  // Held while a stream of this context captures, and while memory is taken or waited for in a way
  // that would spoil a capture. REQUIRES: not CapturesOnThisThread().
  class Exclusive {
   public:
    Exclusive(Context* context, bool captures);
    ~Exclusive();

   private:
    Context* const context_;
    std::lock_guard<std::mutex> lock_;
  };

 private:
  Context(CUdevice device, CUcontext context, const device::DeviceFacts& facts)
      : device_(device), context_(context), facts_(facts) {}

  const CUdevice device_;
  const CUcontext context_;
  const device::DeviceFacts facts_;
  std::mutex exclusive_;
  std::atomic<std::thread::id> capturing_thread_{};
};

}  // namespace sluice::cuda
