// The backends linked into this program, and the one place that decides which device is used.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace sluice::device {

struct OpenOptions {
  int threads = 0;  // CPU: worker threads; 0: one per physical core this process may use
  std::string instruction_set;  // CPU: "ref", "avx2", "avx512", "amx"; empty: the best
  std::string force_ops;        // "op=implementation,...": Bind uses these or fails
  bool check_each_op = false;   // synchronize after every op, so that an error names it
};

// What the environment lets a backend see. Parsed by the resolver alone, so that a mask is read
// once, for the backend that is used.
struct VisibleDevices {
  struct Entry {
    int device = -1;   // as the driver counts without a mask; -1: `name` says which
    int tile = -1;     // of an Intel GPU; -1: all of it
    std::string name;  // "GPU-8932f937-..." or "MIG-...", as CUDA_VISIBLE_DEVICES may have it
  };
  bool restricted = false;      // false: all are seen
  std::vector<Entry> entries;   // in the order in which they are numbered from 0
  bool accelerators = true;     // ONEAPI_DEVICE_SELECTOR may leave out GPUs
  bool host_processors = true;  // ... or OpenCL devices of type CPU
  std::string variable, value;  // where this comes from, for messages; empty: nothing is set
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  // The devices it sees; empty when driver or hardware is absent. Never fails, never throws.
  virtual std::vector<DeviceFacts> Probe(const VisibleDevices& visible) const = 0;
  // Why Probe gives nothing, in one sentence for people: "libcuda.so.1 was not found". Empty when
  // it gives something.
  virtual std::string AbsentReason() const { return ""; }
  // `index`: as Probe numbers what `visible` lets it see.
  virtual Result<std::unique_ptr<Device>> Open(const VisibleDevices& visible, int index,
                                               const OpenOptions& options) const = 0;
};

// Defined by backend/list.cc, which the apps link.
std::span<const Backend* const> LinkedBackends();

struct Resolution {
  const Backend* backend = nullptr;
  int index = 0;
  std::string reason;  // one line for people: which device and why
  VisibleDevices visible;

  Result<std::unique_ptr<Device>> Open(const OpenOptions& options) const {
    return backend->Open(visible, index, options);
  }
};

// `wanted`: "", "auto", "cpu", "cuda", "cuda:1", "xpu", ...; trimmed, any case. An absent device or
// an unknown name is an error that lists what is legal.
Result<Resolution> ResolveDevice(std::string_view wanted, std::span<const Backend* const> backends);

}  // namespace sluice::device
