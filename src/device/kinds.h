// Every kind of device, in the order in which "auto" looks for one. What lists kinds or names them
// reads this table.
#pragma once

#include <string_view>

#include "device/types.h"

namespace sluice::device {

struct KindName {
  DeviceKind kind;
  std::string_view name;  // of the backend's folder, too
};

inline constexpr KindName kKinds[] = {
    {DeviceKind::kCuda, "cuda"}, {DeviceKind::kXpu, "xpu"}, {DeviceKind::kCpu, "cpu"}};

}  // namespace sluice::device
