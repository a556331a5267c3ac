#include "device/types.h"

#include "base/str_cat.h"
#include "device/kinds.h"

namespace sluice::device {

std::string_view ToString(DeviceKind kind) {
  for (const KindName& known : kKinds) {
    if (known.kind == kind) return known.name;
  }
  return "unknown";
}

std::string ToString(DeviceId id) {
  if (id.kind == DeviceKind::kCpu) return std::string(ToString(id.kind));
  return StrCat(ToString(id.kind), ":", id.index);
}

}  // namespace sluice::device
