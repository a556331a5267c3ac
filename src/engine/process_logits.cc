#include "engine/process_logits.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Status CheckLeft(std::span<const float> logits) {
  const auto wrong = std::find_if(logits.begin(), logits.end(),
                                  [](float x) { return std::isnan(x) || x == kInf; });
  if (wrong != logits.end()) {
    return InvalidArgument(
        StrCat("the logits processor left ", std::isnan(*wrong) ? "NaN" : "+inf", " for the id ",
               wrong - logits.begin(),
               "; it may leave finite numbers, and -inf for ids that must not be drawn"),
        "logits_processor");
  }
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return x == -kInf; })) {
    return InvalidArgument(
        "the logits processor left -inf for every id; it must leave one that can be drawn",
        "logits_processor");
  }
  return OkStatus();
}

}  // namespace

Status ProcessLogits(LogitsProcessor& processor, const LogitsProcessor::Row& row,
                     std::span<float> logits) {
  try {
    processor.Process(row, logits);
  } catch (const std::exception& error) {
    return InvalidArgument(StrCat("the logits processor threw: ", Quote(error.what())),
                           "logits_processor");
  } catch (...) {
    return InvalidArgument("the logits processor threw what is no std::exception",
                           "logits_processor");
  }
  return CheckLeft(logits);
}

}  // namespace sluice::engine
