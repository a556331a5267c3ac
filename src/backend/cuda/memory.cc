#include "backend/cuda/memory.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/str_cat.h"
#include "device/alignment.h"

namespace sluice::cuda {
namespace {

using device::Buffer;
using device::MemoryKind;
using device::View;

using device::kAlignment;

CUdeviceptr Address(const std::byte* data) { return reinterpret_cast<CUdeviceptr>(data); }

std::string Gib(size_t bytes) {
  const size_t tenths = bytes / ((size_t{1} << 30) / 10);
  return StrCat(tenths / 10, ".", tenths % 10, " GiB");
}

class HeapDeleter : public Buffer::Deleter {
 public:
  void Free(const View& view) override { std::free(view.data); }
};

}  // namespace

// The cache over the driver's allocations.
class Memory::DevicePool : public Buffer::Deleter, private device::SegmentSource {
 public:
  DevicePool(Context* context, CUstream stream) : context_(context), stream_(stream) {}

  Result<View> Allocate(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    SLUICE_ASSIGN_OR_RETURN(const device::CachingAllocator::Range range,
                            allocator_.Allocate(bytes));
    const View view = {range.data, bytes, MemoryKind::kDevice, context_->facts().id};
    const Status cleared = Clear(range, bytes);
    if (cleared.ok()) return view;
    allocator_.Free(range.data);
    return cleared;
  }

  void Free(const View& view) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    allocator_.Free(view.data);
    freed_since_wait_ = true;
  }

  size_t FreeBytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return allocator_.stats().free_bytes();
  }

 private:
  // Whoever had the memory before may still have work that uses it on some stream.
  Status Clear(const device::CachingAllocator::Range& range, size_t bytes) {
    const Driver& driver = TheDriver();
    if (range.reused && freed_since_wait_) {
      SLUICE_RETURN_IF_ERROR(Check(driver.cuCtxSynchronize(), "waiting for earlier work"));
      freed_since_wait_ = false;
    }
    if (bytes == 0) return OkStatus();
    SLUICE_RETURN_IF_ERROR(
        Check(driver.cuMemsetD8Async(Address(range.data), 0, bytes, stream_), "cuMemsetD8Async"));
    return Check(driver.cuStreamSynchronize(stream_), "clearing new memory");
  }

  Result<std::byte*> Obtain(size_t bytes) override {
    CUdeviceptr address = 0;
    const CUresult result = TheDriver().cuMemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS) return reinterpret_cast<std::byte*>(address);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return ErrorOf(result, "cuMemAlloc");
    size_t free = 0, total = 0;
    TheDriver().cuMemGetInfo(&free, &total);
    return Status(StatusCode::kOutOfMemory,
                  StrCat(device::ToString(context_->facts().id), " has ", Gib(free), " free of ",
                         Gib(total), ", too little for another ", bytes, " bytes (", Gib(bytes),
                         "); lower --kv-memory or choose a smaller model"));
  }

  void Release(std::byte* data, size_t) override {
    if (context_->Enter().ok()) TheDriver().cuMemFree(Address(data));
  }

  Context* const context_;
  const CUstream stream_;
  std::mutex mutex_;
  // Guarded by mutex_.
  device::CachingAllocator allocator_{this};
  bool freed_since_wait_ = false;
};

class Memory::PinnedDeleter : public Buffer::Deleter {
 public:
  explicit PinnedDeleter(Context* context) : context_(context) {}
  void Free(const View& view) override {
    if (context_->Enter().ok()) TheDriver().cuMemFreeHost(view.data);
  }

 private:
  Context* const context_;
};

Result<std::unique_ptr<Memory>> Memory::Create(Context* context) {
  SLUICE_RETURN_IF_ERROR(context->Enter());
  CUstream stream = nullptr;
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return std::unique_ptr<Memory>(new Memory(context, stream));
}

Memory::Memory(Context* context, CUstream stream)
    : context_(context),
      stream_(stream),
      pool_(std::make_shared<DevicePool>(context, stream)),
      pinned_(std::make_shared<PinnedDeleter>(context)) {}

Memory::~Memory() {
  if (context_->Enter().ok()) TheDriver().cuStreamDestroy(stream_);
}

Result<Buffer> Memory::Allocate(size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::kHost) return AllocateHost(bytes);
  if (context_->CapturesOnThisThread()) {
    return Status(StatusCode::kFailedPrecondition,
                  StrCat("an allocation of ", bytes,
                         " bytes while a graph is captured; allocate before the capture"));
  }
  const Context::Exclusive exclusive(context_, false);
  SLUICE_RETURN_IF_ERROR(context_->Enter());
  if (kind == MemoryKind::kPinned) return AllocatePinned(bytes);
  if (kind != MemoryKind::kDevice) {
    return Status(StatusCode::kUnimplemented,
                  "a CUDA device has no shared memory; use device or pinned memory");
  }
  SLUICE_ASSIGN_OR_RETURN(const View view, pool_->Allocate(bytes));
  return Buffer(view, pool_);
}

Result<Buffer> Memory::AllocatePinned(size_t bytes) {
  void* data = nullptr;
  const CUresult result =
      TheDriver().cuMemHostAlloc(&data, bytes == 0 ? 1 : bytes, CU_MEMHOSTALLOC_PORTABLE);
  SLUICE_RETURN_IF_ERROR(Check(result, StrCat("pinning ", bytes, " bytes of host memory")));
  std::memset(data, 0, bytes);
  return Buffer({static_cast<std::byte*>(data), bytes, MemoryKind::kPinned, context_->facts().id},
                pinned_);
}

Result<Buffer> Memory::AllocateHost(size_t bytes) {
  static const auto deleter = std::make_shared<HeapDeleter>();
  const size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void* data = bytes > std::numeric_limits<size_t>::max() / 2
                   ? nullptr
                   : std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("the operating system refused an allocation of ", bytes, " bytes"));
  }
  std::memset(data, 0, rounded);
  return Buffer({static_cast<std::byte*>(data), bytes, MemoryKind::kHost, context_->facts().id},
                deleter);
}

Result<device::MemoryInfo> Memory::Info() const {
  SLUICE_RETURN_IF_ERROR(context_->Enter());
  device::MemoryInfo info;
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuMemGetInfo(&info.free_bytes, &info.total_bytes), "cuMemGetInfo"));
  info.free_bytes += pool_->FreeBytes();
  return info;
}

}  // namespace sluice::cuda
