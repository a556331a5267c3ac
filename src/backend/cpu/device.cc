#include "backend/cpu/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "backend/cpu/ceilings/meter.h"
#include "backend/cpu/host.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/stream.h"
#include "device/alignment.h"
#include "device/copy_list.h"

namespace sluice::cpu {
namespace {

using device::Buffer;
using device::CopyItem;
using device::MemoryKind;
using device::View;

// From here on memory comes straight from the kernel: zeroed, and absent until touched.
constexpr size_t kLazyBytes = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

class HeapDeleter : public Buffer::Deleter {
 public:
  void Free(const View& view) override { std::free(view.data); }
};

class MapDeleter : public Buffer::Deleter {
 public:
  void Free(const View& view) override { munmap(view.data, view.bytes); }
};

// One shared deleter of each kind: a buffer's life does not depend on the device's.
std::shared_ptr<Buffer::Deleter> SharedDeleter(bool lazy) {
  static const auto heap = std::make_shared<HeapDeleter>();
  static const auto map = std::make_shared<MapDeleter>();
  return lazy ? std::shared_ptr<Buffer::Deleter>(map) : heap;
}

std::string Describe(const CpuFacts& cpu, Isa isa) {
  return isa == Isa::kRef ? cpu.brand : StrCat(cpu.brand, ", ", Name(isa));
}

device::DeviceFacts MakeFacts(const CpuFacts& cpu, Isa isa, int threads) {
  device::DeviceFacts facts;
  facts.id = {device::DeviceKind::kCpu, 0};
  facts.name = Describe(cpu, isa);
  facts.architecture = Name(isa);
  facts.capabilities = cpu.capabilities;
  facts.compute_units = facts.host_threads = threads;
  facts.shares_host_memory = facts.reference_order = true;
  // The tiles of AMX are bf16 numbers.
  if (isa == Isa::kAmx) facts.kv_dtype = DType::kBF16;
  facts.memory_bytes = HostMemory().total_bytes;
  facts.cache_bytes = cpu.cache_bytes;
  return facts;
}

}  // namespace

CpuDevice::CpuDevice(const CpuFacts& cpu, Isa isa, int threads)
    : facts_(MakeFacts(cpu, isa, threads)), pool_({.threads = threads}), ops_(&facts_) {
  RegisterCpuOps(ops_);
}

Result<device::MemoryInfo> CpuDevice::Memory() const {
  const device::MemoryInfo info = HostMemory();
  if (info.total_bytes == 0) {
    return Status(StatusCode::kDevice, "the memory of this machine can't be read (/proc/meminfo)");
  }
  return info;
}

Result<Buffer> CpuDevice::Allocate(size_t bytes, MemoryKind) {
  const bool lazy = bytes >= kLazyBytes;
  if (facts_.memory_bytes != 0 && bytes > facts_.memory_bytes) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("an allocation of ", bytes, " bytes is more than the ",
                         facts_.memory_bytes, " bytes of memory that this process may use"));
  }
  View view;
  view.bytes = bytes;
  view.device = facts_.id;
  if (lazy) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    view.data = data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
    // Fewer TLB misses while weights and KV stream by; a refusal changes nothing else.
    if (view.data != nullptr && bytes >= 4 * kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  } else {
    const size_t rounded = device::AlignUp(bytes == 0 ? 1 : bytes);
    view.data = static_cast<std::byte*>(std::aligned_alloc(device::kAlignment, rounded));
    if (view.data != nullptr) std::memset(view.data, 0, rounded);
  }
  if (view.data == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("the operating system refused an allocation of ", bytes, " bytes"));
  }
  return Buffer(view, SharedDeleter(lazy));
}

void CpuDevice::GiveBack(const View& view) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(view.data);
  const uintptr_t first = (begin + page - 1) / page * page,
                  end = (begin + view.bytes) / page * page;
  // Where the system refuses, the pages stay.
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

Result<std::unique_ptr<device::Stream>> CpuDevice::CreateStream() {
  return std::unique_ptr<device::Stream>(std::make_unique<CpuStream>(&pool_, &facts_));
}

Result<std::unique_ptr<device::Event>> CpuDevice::CreateEvent() {
  return std::unique_ptr<device::Event>(std::make_unique<CpuEvent>());
}

Status CpuDevice::Copy(device::Stream&, std::span<const CopyItem> items) {
  thread_local std::vector<device::CopyRun> runs;  // kept, so that a step allocates nothing
  SLUICE_RETURN_IF_ERROR(device::PlanCopies(facts_.id, items, &runs));
  for (const device::CopyRun& run : runs) {
    for (size_t row = 0; row < run.rows; ++row) {
      std::memcpy(run.destination + row * run.destination_stride,
                  run.source + row * run.source_stride, run.row_bytes);
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<device::Graph>> CpuDevice::Capture(device::Stream&, device::Communicator*,
                                                          const device::CaptureBody&) {
  return Status(StatusCode::kUnimplemented,
                "the CPU device has no graph capture; run without graphs");
}

Result<std::unique_ptr<device::CeilingMeter>> CpuDevice::MakeCeilingMeter(
    const device::MeterOptions& options) {
  return MakeCpuMeter(*this, pool_, options);
}

std::vector<device::DeviceFacts> CpuBackend::Probe(const device::VisibleDevices&) const {
  const CpuFacts cpu = DetectCpu();
  return {MakeFacts(cpu, cpu.best, UsableCores())};
}

Result<std::unique_ptr<device::Device>> CpuBackend::Open(const device::VisibleDevices&, int index,
                                                         const device::OpenOptions& options) const {
  if (index != 0) {
    return Status(StatusCode::kDevice,
                  StrCat("CPU device ", index, " does not exist; the CPU is device 0"), "device");
  }
  const int allowed = AllowedCpus();
  if (options.threads < 0 || options.threads > allowed) {
    return InvalidArgument(StrCat("threads is ", options.threads, ", but this process may use ",
                                  allowed, allowed == 1 ? " processor" : " processors",
                                  "; choose 0 (one per physical core) to ", allowed),
                           "threads");
  }
  const CpuFacts cpu = DetectCpu();
  SLUICE_ASSIGN_OR_RETURN(const Isa isa, ChooseIsa(options.instruction_set, cpu));
  const int threads = options.threads == 0 ? UsableCores() : options.threads;
  auto device = std::make_unique<CpuDevice>(cpu, isa, threads);
  SLUICE_RETURN_IF_ERROR(device->mutable_ops().ForceAll(options.force_ops));
  return std::unique_ptr<device::Device>(std::move(device));
}

const device::Backend* BackendInstance() {
  static const CpuBackend backend;
  return &backend;
}

}  // namespace sluice::cpu
