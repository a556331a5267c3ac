// StopMatcher: finds stop strings in a text that arrives in pieces. Holds back only what may be the
// beginning of one. One per choice; not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::engine {

class StopMatcher {
 public:
  // `keep_match`: leave the stop string itself in the text.
  StopMatcher(std::vector<std::string> stops, bool keep_match)
      : stops_(std::move(stops)), keep_match_(keep_match) {}

  // Adds a piece and returns the text that is certain now. After a match nothing more comes out.
  // `may_end`: false: no stop string that ends within this piece counts, now or later.
  std::string Add(std::string_view piece, bool may_end = true);
  // What was held back, when the text ends without a match.
  std::string Finish();

  bool matched() const { return !match_.empty(); }
  const std::string& match() const { return match_; }  // the stop string that was found

 private:
  const std::vector<std::string> stops_;
  const bool keep_match_;
  std::string held_;
  size_t passed_ = 0;  // bytes of held_ in which no stop string may end
  std::string match_;
};

}  // namespace sluice::engine
