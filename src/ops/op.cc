#include "ops/op.h"

namespace sluice::ops {

Status OpTable::ForceAll(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view item = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    const size_t equals = item.find('=');
    const std::string_view op = item.substr(0, equals);
    if (equals == std::string_view::npos || lists_.find(op) == lists_.end()) {
      std::string known;
      for (const auto& [name, unused] : lists_) known += (known.empty() ? "" : ", ") + name;
      return InvalidArgument(
          StrCat("--force-op \"", item, "\" is not op=implementation; the ops are ", known),
          "force-op");
    }
    Force(std::string(op), std::string(item.substr(equals + 1)));
  }
  return OkStatus();
}

}  // namespace sluice::ops
