#include "schedule/sequence.h"

#include <array>

namespace sluice::schedule {

std::string_view FinishReasonName(FinishReason reason) {
  constexpr std::array<std::string_view, kFinishReasons> kNames = {"none",   "end",       "stop",
                                                                   "length", "cancelled", "error"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace sluice::schedule
