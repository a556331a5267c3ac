#include "backend/xpu/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "backend/xpu/copy/copy.h"
#include "backend/xpu/free_memory.h"
#include "backend/xpu/ops.h"
#include "backend/xpu/programs/binary_cache.h"
#include "base/str_cat.h"

namespace sluice::xpu {
namespace {

using device::Buffer;
using device::MemoryKind;
using device::View;

class HostDeleter : public Buffer::Deleter {
 public:
  void Free(const View& view) override { std::free(view.data); }
};

class DeviceDeleter : public Buffer::Deleter {
 public:
  DeviceDeleter(std::shared_ptr<Context> context, void* base, size_t bytes)
      : context_(std::move(context)), base_(base), bytes_(bytes) {}
  void Free(const View&) override { context_->Free(base_, bytes_); }

 private:
  std::shared_ptr<Context> context_;
  void* base_;
  size_t bytes_;  // as they were allocated
};

Result<Buffer> AllocateHost(size_t bytes, MemoryKind kind, device::DeviceId id) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  View view;
  view.bytes = bytes;
  view.memory = kind;
  view.device = id;
  view.data =
      rounded < bytes ? nullptr : static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (view.data == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("the operating system refused an allocation of ", bytes, " bytes"));
  }
  std::memset(view.data, 0, rounded);
  static const auto deleter = std::make_shared<HostDeleter>();
  return Buffer(view, deleter);
}

// What Linux would give without swapping; 0 where it does not say.
size_t AvailableHostBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  size_t kib = 0;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return 0;
}

// From here on a C library takes memory straight from the kernel.
constexpr size_t kFreshBytes = size_t{64} << 20;

// Whether no page that lies wholly inside the range is there yet: then all of them are zeros, and
// to write zeros would only take the memory before it is needed.
bool IsUntouched(std::byte* begin, size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + page - 1) / page * page;
  const size_t pages = (address + bytes - first) / page;
  std::vector<unsigned char> resident(pages);
  if (mincore(reinterpret_cast<void*>(first), pages * page, resident.data()) != 0) return false;
  return std::none_of(resident.begin(), resident.end(), [](unsigned char p) { return p & 1; });
}

// The parts of a range that must be written to make it zeros.
std::vector<std::span<std::byte>> PartsToZero(std::byte* begin, size_t bytes, bool on_host) {
  if (!on_host || bytes < kFreshBytes || !IsUntouched(begin, bytes)) return {{begin, bytes}};
  constexpr size_t kEdge = size_t{1} << 16;  // more than a page
  return {{begin, kEdge}, {begin + bytes - kEdge, kEdge}};
}

// Whether a graph is captured on this thread.
thread_local bool capturing = false;

}  // namespace

Result<std::unique_ptr<XpuDevice>> XpuDevice::Open(FoundDevice found, const XpuOptions& options) {
  // Ops that a graph replays are not waited for.
  if (options.check_each_op) found.facts.graphs = device::GraphSupport::kNone;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Context> context,
                          Context::Open(found, options.cache_folder));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<device::Stream> own, XpuStream::Create(context, false));
  return std::unique_ptr<XpuDevice>(new XpuDevice(std::move(context), std::move(own), options));
}

XpuDevice::XpuDevice(std::shared_ptr<Context> context, std::unique_ptr<device::Stream> own,
                     const XpuOptions& options)
    : context_(std::move(context)),
      check_each_op_(options.check_each_op),
      mechanism_(context_->command_buffers() ? options.graphs : GraphMechanism::kLaunchList),
      own_stream_(std::move(own)),
      ops_(&context_->facts()) {
  RegisterXpuOps(ops_);
}

Result<device::MemoryInfo> XpuDevice::Memory() const {
  const size_t total = facts().memory_bytes;
  const size_t ours = context_->allocated_bytes();
  return device::MemoryInfo{total, facts().shares_host_memory
                                       ? FreeOfHost(total, ours, AvailableHostBytes())
                                       : FreeOfDevice(total, ours)};
}

Result<Buffer> XpuDevice::Allocate(size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::kHost || kind == MemoryKind::kPinned)
    return AllocateHost(bytes, kind, facts().id);
  if (kind == MemoryKind::kShared) {
    return Status(StatusCode::kUnimplemented,
                  StrCat(device::ToString(facts().id), " has no memory that the host shares"));
  }
  if (capturing) {
    return Status(StatusCode::kFailedPrecondition,
                  StrCat("an allocation of ", bytes,
                         " bytes while a graph is captured; allocate before the capture"));
  }
  const size_t rounded =
      bytes > SIZE_MAX - kAlignment
          ? bytes
          : (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  SLUICE_ASSIGN_OR_RETURN(const Context::Memory memory, context_->Allocate(rounded));
  View view;
  view.data = memory.data;
  view.bytes = bytes;
  view.memory = MemoryKind::kDevice;
  view.device = facts().id;
  Buffer buffer(view, std::make_shared<DeviceDeleter>(context_, memory.base, rounded));
  const std::lock_guard lock(own_mutex_);
  XpuStream& stream = AsXpu(*own_stream_);
  const uint32_t zero = 0;
  for (const auto& part : PartsToZero(memory.data, rounded, facts().on_host_processor)) {
    SLUICE_RETURN_IF_ERROR(
        Check(Cl().EnqueueSVMMemFill(stream.queue(), part.data(), &zero, sizeof zero, part.size(),
                                     0, nullptr, nullptr),
              "clEnqueueSVMMemFill"));
  }
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  return buffer;
}

Result<std::unique_ptr<device::Stream>> XpuDevice::CreateStream() {
  return XpuStream::Create(context_, check_each_op_);
}

Result<std::unique_ptr<device::Event>> XpuDevice::CreateEvent() {
  return std::unique_ptr<device::Event>(std::make_unique<XpuEvent>(context_));
}

Result<std::unique_ptr<device::Event>> XpuDevice::CreateTimer() {
  return std::unique_ptr<device::Event>(std::make_unique<XpuEvent>(context_, /*timed=*/true));
}

Status XpuDevice::Copy(device::Stream& stream, std::span<const device::CopyItem> items) {
  return CopyItems(facts().id, AsXpu(stream), items);
}

Result<std::unique_ptr<device::Graph>> XpuDevice::Capture(device::Stream& stream,
                                                          device::Communicator* communicator,
                                                          const device::CaptureBody& body) {
  if (communicator != nullptr) {
    return Status(StatusCode::kUnimplemented,
                  "an OpenCL device captures no collectives; run without graphs");
  }
  if (facts().graphs == device::GraphSupport::kNone) {
    return Status(StatusCode::kUnimplemented, "no graph is captured while each op is checked");
  }
  if (capturing) {
    return Status(StatusCode::kFailedPrecondition, "a graph is captured inside another");
  }
  capturing = true;
  auto graph = CaptureGraph(*this, AsXpu(stream), mechanism_, body);
  capturing = false;
  return graph;
}

std::vector<device::DeviceFacts> XpuBackend::Probe(const device::VisibleDevices& visible) const {
  std::vector<device::DeviceFacts> facts;
  for (const FoundDevice& found : SelectDevices(AllDevices(), visible))
    facts.push_back(found.facts);
  return facts;
}

Result<std::unique_ptr<device::Device>> XpuBackend::Open(const device::VisibleDevices& visible,
                                                         int index,
                                                         const device::OpenOptions& options) const {
  SLUICE_ASSIGN_OR_RETURN(FoundDevice found, ChooseDevice(visible, index));
  SLUICE_ASSIGN_OR_RETURN(
      std::unique_ptr<XpuDevice> device,
      XpuDevice::Open(std::move(found), {.check_each_op = options.check_each_op,
                                         .cache_folder = BinaryCache::DefaultFolder()}));
  SLUICE_RETURN_IF_ERROR(device->mutable_ops().ForceAll(options.force_ops));
  return std::unique_ptr<device::Device>(std::move(device));
}

const device::Backend* BackendInstance() {
  static const XpuBackend backend;
  return &backend;
}

}  // namespace sluice::xpu
