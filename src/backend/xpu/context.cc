#include "backend/xpu/context.h"

#include <sys/mman.h>

#include "base/str_cat.h"

namespace sluice::xpu {
namespace {

// Asks for large pages where a device's memory is the host's: weights are read from end to end for
// every token, and a small page costs a miss of the TLB every 4 KiB.
constexpr size_t kHugePage = size_t{2} << 20;
void AskForHugePages(std::byte* data, size_t bytes) {
  if (bytes < 4 * kHugePage) return;
  const uintptr_t begin =
      (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kHugePage * kHugePage;
  // Refused: small pages remain, which are as right.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

Result<std::shared_ptr<Context>> Context::Open(const FoundDevice& device,
                                               std::string cache_folder) {
  std::shared_ptr<Context> context(new Context(device));
  cl_int error = CL_SUCCESS;
  context->context_ = Cl().CreateContext(nullptr, 1, &device.device, nullptr, nullptr, &error);
  SLUICE_RETURN_IF_ERROR(Check(error, "clCreateContext"));
  context->programs_ =
      std::make_unique<Programs>(context->context_, device, std::move(cache_folder));
  if (device.has_command_buffers) context->command_buffers_ = LoadCommandBuffers(device.platform);
  return context;
}

Context::~Context() {
  programs_.reset();
  if (context_ != nullptr) Cl().ReleaseContext(context_);
}

Result<Context::Memory> Context::Allocate(size_t bytes) {
  const size_t limit = std::min(facts().allocation_bytes_max, facts().memory_bytes);
  if (bytes > limit) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("an allocation of ", bytes, " bytes is more than the ", limit,
                         " bytes that ", device::ToString(facts().id), " allows at once"));
  }
  Memory memory;
  memory.base = Cl().SVMAlloc(context_, CL_MEM_READ_WRITE, bytes + kAlignment, 0);
  if (memory.base == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat(device::ToString(facts().id), " refused an allocation of ", bytes,
                         " bytes; ", allocated_bytes(), " are in use"));
  }
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory.base);
  memory.data = static_cast<std::byte*>(memory.base) + (kAlignment - address % kAlignment);
  if (facts().on_host_processor) AskForHugePages(memory.data, bytes);
  allocated_ += bytes;
  return memory;
}

void Context::Free(void* base, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    for (cl_command_queue queue : queues_) Cl().Finish(queue);
  }
  Cl().SVMFree(context_, base);
  allocated_ -= bytes;
}

Result<cl_command_queue> Context::CreateQueue() {
  cl_int error = CL_SUCCESS;
  const cl_command_queue queue =
      Cl().CreateCommandQueueWithProperties(context_, device_.device, nullptr, &error);
  SLUICE_RETURN_IF_ERROR(Check(error, "clCreateCommandQueueWithProperties"));
  const std::lock_guard lock(mutex_);
  queues_.insert(queue);
  return queue;
}

void Context::ReleaseQueue(cl_command_queue queue) {
  {
    const std::lock_guard lock(mutex_);
    queues_.erase(queue);
  }
  Cl().Finish(queue);
  Cl().ReleaseCommandQueue(queue);
}

}  // namespace sluice::xpu
