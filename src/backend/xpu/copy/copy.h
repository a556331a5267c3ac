// Device::Copy on a stream of this backend.
#pragma once

#include <span>

#include "backend/xpu/stream.h"
#include "device/device.h"

namespace sluice::xpu {

Status CopyItems(device::DeviceId id, XpuStream& stream, std::span<const device::CopyItem> items);

}  // namespace sluice::xpu
