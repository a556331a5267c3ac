#include "ops/op.h"

#include <set>

namespace sluice::ops {

std::vector<std::string> SlowFallbacks(std::span<const BindRecord> bindings) {
  std::vector<std::string> warnings;
  std::set<std::string_view> told;
  for (const BindRecord& binding : bindings) {
    if (binding.declined.empty() || !binding.chosen.starts_with("ref_")) continue;
    if (!told.insert(binding.op).second) continue;
    std::string reasons;
    for (const std::string& reason : binding.declined) {
      reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    warnings.push_back(StrCat(binding.op, " runs on ", binding.chosen, ", which is slow, for ",
                              binding.shape, " (", reasons, "); --explain-kernels shows all"));
  }
  return warnings;
}

std::vector<std::string> OpTable::Ops() const {
  std::vector<std::string> names;
  for (const auto& [name, list] : lists_) names.push_back(name);
  return names;
}

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
