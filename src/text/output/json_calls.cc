#include "text/output/json_calls.h"

#include <utility>

namespace sluice::text {
namespace {

// Of a list, and what models put between objects without one.
constexpr std::string_view kBetweenObjects = " \t\r\n,;[]";
constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

void JsonCalls::Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) {
  pending_.Add(piece);
  while (!pending_.rest().empty() && Step(parts, delta)) {
  }
}

void JsonCalls::Finish(AnswerParts* parts, TextDelta* delta) {
  if (parts->in_call()) {
    parts->EndCall(delta);
  } else {
    GiveBack(parts, delta);
  }
  parts->Text(pending_.rest(), delta);
}

bool JsonCalls::Step(AnswerParts* parts, TextDelta* delta) {
  switch (state_) {
    case State::kStart:
      return StepStart(parts, delta);
    case State::kProse:
      return StepProse(parts, delta);
    case State::kBetween:
      return StepBetween(parts, delta);
    case State::kObject:
      return StepObject(parts, delta);
  }
  return false;
}

void JsonCalls::Hold(size_t bytes) {
  held_ += pending_.rest().substr(0, bytes);
  pending_.Drop(bytes);
}

// What was held is no call.
void JsonCalls::GiveBack(AnswerParts* parts, TextDelta* delta) {
  const bool layout = called_ && held_.find_first_not_of(kBetweenObjects) == std::string::npos;
  if (!layout) parts->Text(held_, delta);
  held_.clear();
  state_ = State::kProse;
}

bool JsonCalls::StepStart(AnswerParts* parts, TextDelta* delta) {
  const char c = pending_.rest()[0];
  if (kSpace.find(c) != std::string_view::npos && held_.size() < kHeldSpaceMax) {
    Hold(1);
  } else if (c == '{' || c == '[') {
    marked_ = called_ = false;
    state_ = State::kBetween;
  } else {
    GiveBack(parts, delta);
  }
  return true;
}

bool JsonCalls::StepProse(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const MarkerHit hit = FindMarker(rest, form_.begins);
  parts->Text(rest.substr(0, hit.at), delta);
  pending_.Drop(hit.at);
  if (hit.marker < 0) return false;
  Hold(form_.begins[static_cast<size_t>(hit.marker)].size());
  marked_ = true;
  called_ = false;
  state_ = State::kBetween;
  return true;
}

bool JsonCalls::StepBetween(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (rest[0] == '{') {
    Hold(1);
    object_.emplace(marked_ ? nullptr : &schemas_);
    state_ = State::kObject;
    return true;
  }
  if (kBetweenObjects.find(rest[0]) != std::string_view::npos && held_.size() < kLookAheadMax) {
    Hold(1);
    return true;
  }
  for (const std::string_view end : form_.ends) {
    const Match match = MatchFront(rest, end);
    if (match == Match::kPerhaps) return false;
    if (match == Match::kNo) continue;
    if (called_) {
      pending_.Drop(end.size());
    } else {
      Hold(end.size());
    }
    break;
  }
  GiveBack(parts, delta);
  return true;
}

bool JsonCalls::StepObject(AnswerParts* parts, TextDelta* delta) {
  while (!pending_.rest().empty()) {
    const CallObject::State state = object_->Add(pending_.rest()[0], parts, delta);
    const bool begun = parts->in_call();
    const bool broken =
        state == CallObject::State::kBroken || (!begun && held_.size() >= kLookAheadMax);
    if (!broken) Hold(1);
    if (begun) {
      called_ = true;
      held_.clear();
    }
    if (!broken && state == CallObject::State::kMore) continue;
    if (begun) parts->EndCall(delta);
    state_ = State::kBetween;
    if (broken) GiveBack(parts, delta);
    return true;
  }
  return false;
}

}  // namespace sluice::text
