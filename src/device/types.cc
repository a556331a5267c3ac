#include "device/types.h"

#include "base/str_cat.h"

namespace sluice::device {

std::string_view ToString(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kXpu:
      return "xpu";
  }
  return "unknown";
}

std::string ToString(DeviceId id) {
  if (id.kind == DeviceKind::kCpu) return std::string(ToString(id.kind));
  return StrCat(ToString(id.kind), ":", id.index);
}

}  // namespace sluice::device
