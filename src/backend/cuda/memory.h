// Memory of one GPU through a cache, and pinned and plain host memory for it. Thread-safe.
#pragma once

#include <memory>
#include <mutex>

#include "backend/cuda/context.h"
#include "device/caching_allocator.h"
#include "device/device.h"

namespace sluice::cuda {

class Memory {
 public:
  // `context` outlives the memory; the buffers it gave keep what they need of it.
  static Result<std::unique_ptr<Memory>> Create(Context* context);
  ~Memory();

  // As device::Device::Allocate. kFailedPrecondition on a thread that captures a graph.
  Result<device::Buffer> Allocate(size_t bytes, device::MemoryKind kind);
  Result<device::MemoryInfo> Info() const;

 private:
  class DevicePool;
  class PinnedDeleter;
  Memory(Context* context, CUstream stream);
  Result<device::Buffer> AllocatePinned(size_t bytes);
  Result<device::Buffer> AllocateHost(size_t bytes);

  Context* const context_;
  const CUstream stream_;  // clears memory
  const std::shared_ptr<DevicePool> pool_;
  const std::shared_ptr<PinnedDeleter> pinned_;
};

}  // namespace sluice::cuda
