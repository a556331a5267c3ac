#include "text/output/json_calls.h"

#include <utility>

#include "text/output/white_space.h"

namespace sluice::text {
namespace {

// Of a list, and what models put between objects without one.
constexpr std::string_view kBetweenObjects = " \t\r\n,;[]";

}  // namespace

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

// What was held is no call.
void JsonCalls::GiveBack(AnswerParts* parts, TextDelta* delta) {
  GiveHeld(called_, kBetweenObjects, parts, delta);
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
  if (TakeMark(form_.begins, parts, delta).empty()) return false;
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
  if (TakeEnd(form_.ends, called_) == Match::kPerhaps) return false;
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
