// What the environment lets a backend see: CUDA_VISIBLE_DEVICES for CUDA; ZE_AFFINITY_MASK,
// ONEAPI_DEVICE_SELECTOR and two switches of tests for XPU. Read and parsed here and nowhere else,
// and only for the backend that is asked about. docs/devices.md says what each may hold. Plain
// values; any thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/types.h"
#include "sluice/status.h"

namespace sluice::device {

// Looks up a variable; nullopt where it is not set. The process's is what the user set, also after
// ExportToDriver.
using Environment = std::function<std::optional<std::string>(const char* variable)>;
Environment ProcessEnvironment();

// Numbers count without a mask. Drivers read variables too (CUDA's its own, Intel's the affinity
// mask), so a backend does one of two things: it gives its driver the list (ExportToDriver) and
// numbers what that shows, or it keeps the variable from it (HiddenFromDriver) and asks
// SelectVisible.
struct VisibleDevices {
  // Of CUDA_VISIBLE_DEVICES or ZE_AFFINITY_MASK.
  struct Entry {
    int device = -1;   // as the driver counts without a mask; -1: `name` says which
    int tile = -1;     // of an Intel GPU; -1: all of it
    std::string name;  // "GPU-8932f937-..." or "MIG-...", as CUDA_VISIBLE_DEVICES may have it
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  // Of ONEAPI_DEVICE_SELECTOR: a device is seen when a term takes it and none drops it. Terms
  // number what the entries leave.
  struct Term {
    bool drops = false;                                // "!..."
    bool accelerators = true, host_processors = true;  // what kinds of device it speaks of
    int device = -1;                                   // -1: all of them
    int tile = -1;                                     // -1: all of it
    bool each_tile = false;                            // every tile is a device
  };
  bool restricted = false;      // false: all are seen
  std::vector<Entry> entries;   // in the order in which they are numbered from 0
  std::vector<Term> terms;      // none: all are seen
  bool accelerators = true;     // whether the terms can take a GPU
  bool host_processors = true;  // ... or an OpenCL device of type CPU
  std::string variable, value;  // where the entries come from, for messages; empty: nothing is set
  std::string selector;         // the value of ONEAPI_DEVICE_SELECTOR; empty: it is not set
  bool any_vendor = false;      // SLUICE_XPU_ANY_VENDOR: GPUs of other makers than Intel, too; then
                                // a device is taken by its number alone
  bool gpu_kernels = false;     // SLUICE_XPU_GPU_KERNELS: an OpenCL device of type CPU that is
                                // opened runs the kernels as a GPU does
};

// Reads the variables of `kind` and no others. Empty and blank values are no restriction. A
// malformed one is kInvalidArgument with one sentence: variable, value, the entry at fault and what
// is legal.
Result<VisibleDevices> ReadVisibleDevices(DeviceKind kind, const Environment& environment);

// The variables as set, for messages: `CUDA_VISIBLE_DEVICES="7"`, `neither ZE_AFFINITY_MASK nor
// ONEAPI_DEVICE_SELECTOR is set`. Empty for a kind without variables.
std::string Describe(DeviceKind kind, const VisibleDevices& visible);

// Gives a driver that reads CUDA_VISIBLE_DEVICES or ZE_AFFINITY_MASK itself the list as we read it:
// without blanks and trailing commas, and no variable where it was blank, which CUDA's driver would
// take for "none". Call it before the driver is opened, while no other thread reads the
// environment.
void ExportToDriver(DeviceKind kind, const VisibleDevices& visible);

// Keeps CUDA_VISIBLE_DEVICES or ZE_AFFINITY_MASK out of the environment for as long as it lives, so
// that a driver that is opened meanwhile shows all it has. No other thread may read the environment
// meanwhile.
class HiddenFromDriver {
 public:
  explicit HiddenFromDriver(DeviceKind kind);
  ~HiddenFromDriver();
  HiddenFromDriver(const HiddenFromDriver&) = delete;
  HiddenFromDriver& operator=(const HiddenFromDriver&) = delete;

 private:
  const char* const variable_;  // null for a kind without one
  std::optional<std::string> value_;
};

// A device as its driver lists it.
struct FoundDevice {
  bool on_host_processor = false;
  int tiles = 1;
};
struct SeenDevice {
  int found = 0;  // index into `found`
  int tile = -1;  // -1: all of it
  friend bool operator==(const SeenDevice&, const SeenDevice&) = default;
};
// What the masks leave, in the order of its numbers: accelerators first, then host processors, each
// as the driver lists them. Entries count accelerators, as Level Zero does, and leave host
// processors alone; those that name no device are passed over.
std::vector<SeenDevice> SelectVisible(const VisibleDevices& visible,
                                      std::span<const FoundDevice> found);

}  // namespace sluice::device
