#include "weights/unused_biases.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/str_cat.h"

namespace sluice::weights {

std::vector<std::string> UnusedBiases(const WeightPlan& plan) {
  constexpr std::string_view kEnding = ".bias";
  std::set<std::string, std::less<>> taken;
  for (const PlannedParam& param : plan.params) {
    for (const ParamSource& source : param.resolved.sources) taken.insert(source.name);
  }
  std::vector<std::string> unused;
  for (const files::FileTensor& tensor : plan.source->tensors()) {
    const std::string_view name = tensor.name;
    if (!name.ends_with(kEnding) || taken.contains(name)) continue;
    const std::string_view base = name.substr(0, name.size() - kEnding.size());
    if (!taken.contains(StrCat(base, ".weight"))) continue;
    // Some tools write zeros for matrices that have no bias.
    const bool zeros = std::all_of(tensor.data.begin(), tensor.data.end(),
                                   [](std::byte byte) { return byte == std::byte{0}; });
    if (!zeros) unused.emplace_back(name);
  }
  return unused;
}

}  // namespace sluice::weights
