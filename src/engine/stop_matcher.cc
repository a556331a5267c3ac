#include "engine/stop_matcher.h"

#include <algorithm>

namespace sluice::engine {
namespace {

// Length of the longest end of `text` that begins `stop` without being all of it.
size_t BegunLength(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
  }
  return 0;
}

}  // namespace

std::string StopMatcher::Add(std::string_view piece, bool may_end) {
  if (matched()) return {};
  held_ += piece;
  if (!may_end) passed_ = held_.size();
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t from = passed_ < stop.size() ? 0 : passed_ - stop.size() + 1;
    const size_t found = held_.find(stop, from);
    // At one place the longer string wins, so that the result does not depend on their order.
    if (found < first ||
        (found != std::string::npos && found == first && stop.size() > match_.size())) {
      first = found;
      match_ = stop;
    }
  }
  size_t certain = held_.size();
  if (matched()) {
    certain = first + (keep_match_ ? match_.size() : 0);
    std::string text = held_.substr(0, certain);
    held_.clear();
    return text;
  }
  for (const std::string& stop : stops_) {
    certain = std::min(certain, held_.size() - BegunLength(held_, stop));
  }
  std::string text = held_.substr(0, certain);
  held_.erase(0, certain);
  passed_ -= std::min(passed_, certain);
  return text;
}

std::string StopMatcher::Finish() { return std::move(held_); }

}  // namespace sluice::engine
