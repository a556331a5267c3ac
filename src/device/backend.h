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
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  // The devices it sees; empty when driver or hardware is absent. Never fails, never throws.
  virtual std::vector<DeviceFacts> Probe() const = 0;
  virtual Result<std::unique_ptr<Device>> Open(int index, const OpenOptions& options) const = 0;
};

// Defined by backend/list.cc, which the apps link.
std::span<const Backend* const> LinkedBackends();

struct Resolution {
  const Backend* backend = nullptr;
  int index = 0;
  std::string reason;  // one line for people: which device and why
};

// `wanted`: "", "auto", "cpu", "cuda", "cuda:1", "xpu", ...; trimmed, any case. An absent device or
// an unknown name is an error that lists what is legal.
Result<Resolution> ResolveDevice(std::string_view wanted, std::span<const Backend* const> backends);

}  // namespace sluice::device
