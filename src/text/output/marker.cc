#include "text/output/marker.h"

namespace sluice::text {

Match MatchFront(std::string_view text, std::string_view marker) {
  if (text.substr(0, marker.size()) == marker) return Match::kYes;
  return marker.substr(0, text.size()) == text ? Match::kPerhaps : Match::kNo;
}

MarkerHit FindMarker(std::string_view text, std::span<const std::string_view> markers) {
  std::string firsts;
  for (const std::string_view marker : markers) {
    if (firsts.find(marker[0]) == std::string::npos) firsts += marker[0];
  }
  // Most lists begin with one letter, and that is found many times faster.
  const auto next = [&](size_t from) {
    return firsts.size() == 1 ? text.find(firsts[0], from) : text.find_first_of(firsts, from);
  };
  for (size_t at = next(0); at != std::string_view::npos; at = next(at + 1)) {
    for (size_t i = 0; i < markers.size(); ++i) {
      const Match match = MatchFront(text.substr(at), markers[i]);
      if (match == Match::kYes) return {at, static_cast<int>(i)};
      if (match == Match::kPerhaps) return {at, -1};
    }
  }
  return {text.size(), -1};
}

}  // namespace sluice::text
