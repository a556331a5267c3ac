#include "ops/op.h"

#include <algorithm>
#include <set>

#include "base/visible.h"

namespace sluice::ops {
namespace {

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Arithmetic ArithmeticInName(std::string_view name) {
  constexpr std::pair<std::string_view, Arithmetic> kParts[] = {{"_f32_", Arithmetic::kF32},
                                                                {"_f16_", Arithmetic::kF16},
                                                                {"_bf16_", Arithmetic::kBf16},
                                                                {"_int8_", Arithmetic::kInt8}};
  for (const auto& [part, arithmetic] : kParts) {
    if (name.find(part) != std::string_view::npos) return arithmetic;
  }
  return Arithmetic::kAsReference;
}

std::vector<std::string> SlowFallbacks(std::span<const BindRecord> bindings) {
  std::vector<std::string> warnings;
  std::set<std::string_view> told;
  for (const BindRecord& binding : bindings) {
    if (binding.declined.empty() || binding.slow.empty()) continue;
    if (!told.insert(binding.op).second) continue;
    std::string reasons;
    for (const std::string& reason : binding.declined) {
      reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    warnings.push_back(StrCat(binding.op, " runs on ", binding.chosen,
                              ", which is slow: ", binding.slow, "; for ", binding.shape, " (",
                              reasons, "); --explain-kernels shows all"));
  }
  return warnings;
}

size_t ScratchBytes(std::span<const BindRecord> bindings, const StepLimits& limits) {
  size_t most = 0;
  for (const BindRecord& binding : bindings) {
    if (binding.scratch_bytes) most = std::max(most, binding.scratch_bytes(limits));
  }
  return most;
}

std::vector<std::string> OpTable::Ops() const {
  std::vector<std::string> names;
  for (const auto& [name, list] : lists_) names.push_back(name);
  return names;
}

Status OpTable::ForceAll(std::string_view list) {
  std::set<std::string_view> given;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view item = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    const size_t equals = item.find('=');
    const std::string_view op = item.substr(0, equals);
    const auto refuse = [&](const auto&... what) {
      return InvalidArgument(StrCat("--force-op ", Quote(item), " ", what...), "force-op");
    };
    if (equals == std::string_view::npos || lists_.find(op) == lists_.end()) {
      return refuse("is not op=implementation; the ops are ", Joined(Ops()));
    }
    if (!given.insert(op).second) return refuse("is a second choice for ", op, "; give one");
    const std::string name(item.substr(equals + 1));
    const std::vector<std::string>& names = names_.find(op)->second;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return refuse("names no implementation of ", op, " on ", device::ToString(facts_->id),
                    "; there are ", Joined(names));
    }
    Force(std::string(op), name);
  }
  return OkStatus();
}

}  // namespace sluice::ops
