#include "text/output/stepped_calls.h"

namespace sluice::text {

void SteppedCalls::Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) {
  pending_.Add(piece);
  while (!pending_.rest().empty() && Step(parts, delta)) {
  }
}

std::string_view SteppedCalls::TakeMark(std::span<const std::string_view> marks, AnswerParts* parts,
                                        TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const MarkerHit hit = FindMarker(rest, marks);
  parts->Text(rest.substr(0, hit.at), delta);
  pending_.Drop(hit.at);
  if (hit.marker < 0) return {};
  const std::string_view mark = marks[static_cast<size_t>(hit.marker)];
  Hold(mark.size());
  return mark;
}

Match SteppedCalls::TakeEnd(std::span<const std::string_view> ends, bool called) {
  for (const std::string_view end : ends) {
    const Match match = MatchFront(pending_.rest(), end);
    if (match == Match::kNo) continue;
    if (match == Match::kPerhaps) return match;
    if (called) {
      pending_.Drop(end.size());
    } else {
      Hold(end.size());
    }
    return match;
  }
  return Match::kNo;
}

void SteppedCalls::Hold(size_t bytes) {
  held_ += pending_.rest().substr(0, bytes);
  pending_.Drop(bytes);
}

void SteppedCalls::GiveHeld(bool called, std::string_view layout, AnswerParts* parts,
                            TextDelta* delta) {
  if (!called || held_.find_first_not_of(layout) != std::string::npos) parts->Text(held_, delta);
  held_.clear();
}

}  // namespace sluice::text
