// Opens the device that an engine's options name: the one call of the resolver on the way to a
// running engine, once per engine. Any thread.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice::exec {

struct OpenedDevice {
  std::unique_ptr<device::Device> device;
  std::string reason;  // one line for people: which device and why
};

// Where devices of several backends are present and nothing chose, that is logged once per process.
Result<OpenedDevice> OpenDevice(const EngineOptions& options);

}  // namespace sluice::exec
