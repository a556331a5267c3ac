#include "sluice/status.h"

namespace sluice {

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_, field_);
}

}  // namespace sluice
