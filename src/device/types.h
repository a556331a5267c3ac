// Names of devices and of kinds of memory. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace sluice::device {

enum class DeviceKind : uint8_t { kCpu, kCuda, kXpu };
// kShared: at one address for the host and the device, as integrated GPUs have it; no device gives
// it yet.
enum class MemoryKind : uint8_t { kHost, kPinned, kDevice, kShared };

struct DeviceId {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

std::string_view ToString(DeviceKind kind);  // "cpu", "cuda", "xpu"
std::string ToString(DeviceId id);           // "cpu", "cuda:0", "xpu:1"

// A range of bytes with the memory it lies in. Does not own.
struct View {
  std::byte* data = nullptr;
  size_t bytes = 0;
  MemoryKind memory = MemoryKind::kHost;
  DeviceId device;
  uint64_t buffer = 0;  // that it is a part of, by number (living_buffers.h); 0: not recorded
};

// What graphs may hold. kPiecewise, of a device: all but attention; of an op: the work around it,
// so that it runs between two graphs.
enum class GraphSupport : uint8_t { kNone, kPiecewise, kFull };

// What kernels' choices may depend on; fixed once the device is open.
struct DeviceFacts {
  DeviceId id;
  std::string name;          // "Intel Xeon ..., AVX-512 VNNI", "NVIDIA H200"
  std::string architecture;  // CPU: the instruction set in use: "ref", "avx2", "avx512", "amx"
  std::vector<std::string> capabilities;  // for people: every set or feature found
  std::string driver;                     // its name and version; empty for a CPU
  int compute_units = 1;                  // CPU: threads; GPU: SMs
  DType kv_dtype = DType::kF16;           // that attention reads fastest, of F16 and BF16
  DType activation = DType::kF32;         // BF16: of models not in F32, F16 for those in F16
  size_t memory_bytes = 0;                // total
  size_t allocation_bytes_max = 0;        // of one allocation; 0: as much as there is
  size_t cache_bytes = 0;                 // last level
  // Of what follows each is one question; none tells of what kind the device is.
  bool device_memory = false;       // the host can't read its memory: what goes there is copied
  bool pinned_memory = false;       // host memory can be pinned for it
  bool shares_host_memory = false;  // its memory is the host's, of which others want some, too
  bool runs_beside_host = false;    // what is put on a stream runs while the host goes on
  bool reference_order = false;     // its kernels add in the order of the references
  bool on_host_processor = false;   // an OpenCL device of type CPU: used only when named
  int host_threads = 0;             // that the engine's own work may take at load; 0: any
  GraphSupport graphs = GraphSupport::kNone;
  bool captures_host_calls = false;  // graphs may hold Stream::CallOnHost
  // What the driver takes of the device's memory beside all allocations, for plans: for each launch
  // that a graph holds, and for the code and the stacks of kernels.
  size_t graph_launch_bytes = 0, code_bytes = 0;
};

}  // namespace sluice::device
