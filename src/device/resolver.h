// The one place that decides which device is used. Any thread; touches the drivers it asks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"

namespace sluice::device {

struct Resolution {
  const Backend* backend = nullptr;
  int index = 0;
  std::string reason;  // one line for people: which device and why
  // One line for people where devices of several backends are present and nothing chose; else
  // empty.
  std::string notice;
  VisibleDevices visible;

  Result<std::unique_ptr<Device>> Open(const OpenOptions& options) const {
    return backend->Open(visible, index, options);
  }
};

// What a device may be called: "auto, cpu, cuda, cuda:N, xpu, xpu:N".
std::string LegalDevices();

// The kinds that this program was built without, as LegalDevices spells them and in its order.
std::vector<std::string_view> KindsNotBuilt(std::span<const Backend* const> backends);

// `wanted`: "", "auto", "cpu", "cuda", "cuda:1", "xpu", ...; trimmed, any case. An unknown name is
// kInvalidArgument with the legal ones. An absent device or a malformed list of visible devices is
// kDevice and names the variable, its value and what was found. A backend that is named is the only
// one whose variables are read and whose driver is touched.
Result<Resolution> ResolveDevice(std::string_view wanted, std::span<const Backend* const> backends,
                                 const Environment& environment = ProcessEnvironment());

// Logs the notice, the first time in this process that there is one.
void LogNoticeOnce(const Resolution& resolution);

// What one backend sees, for people.
struct Survey {
  const Backend* backend = nullptr;
  Result<VisibleDevices> visible;    // an error where its list is malformed
  std::vector<DeviceFacts> devices;  // none there
  std::string absent_reason;         // why there are none, in words; empty where there are some
};
std::vector<Survey> SurveyBackends(std::span<const Backend* const> backends,
                                   const Environment& environment = ProcessEnvironment());

}  // namespace sluice::device
