// What a backend is, and those linked into this program. resolver.h decides which one is used.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "device/visible_devices.h"

namespace sluice::device {

struct OpenOptions {
  int threads = 0;  // CPU: worker threads; 0: one per physical core this process may use
  std::string instruction_set;  // CPU: "ref", "avx2", "avx512", "amx"; empty: the best
  std::string force_ops;        // "op=implementation,...": Bind uses these or fails
  // Synchronize after every op, so that an error names it. A graph would hide its ops: the device's
  // facts().graphs is kNone then. Without effect where ops are done when they return.
  bool check_each_op = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  // The devices it sees, numbered from 0; empty when driver or hardware is absent or `visible`
  // leaves none. Never fails, never throws. See device/visible_devices.h for who applies a mask.
  virtual std::vector<DeviceFacts> Probe(const VisibleDevices& visible) const = 0;
  // Why there can be no GPU, from a look that loads no driver: "/dev/dri shows no GPU". Empty where
  // only the driver could tell. "auto" asks it first, because drivers take time and memory.
  virtual std::string WhyNoGpu() const { return ""; }
  // Why Probe gives nothing, in one sentence for people: "libcuda.so.1 was not found". Empty when
  // it gives something.
  virtual std::string AbsentReason() const { return ""; }
  // What it opens at run time beside the driver, or why that is not there: one line each, for
  // people. Opens them.
  virtual std::vector<std::string> Libraries() const { return {}; }
  // `index`: as Probe numbers what `visible` lets it see.
  virtual Result<std::unique_ptr<Device>> Open(const VisibleDevices& visible, int index,
                                               const OpenOptions& options) const = 0;
};

// Defined by backend/list.cc, which the apps link.
std::span<const Backend* const> LinkedBackends();

}  // namespace sluice::device
