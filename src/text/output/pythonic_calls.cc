#include "text/output/pythonic_calls.h"

#include "base/ascii.h"
#include "text/output/call_grammar.h"
#include "text/output/json_text.h"
#include "text/output/white_space.h"

namespace sluice::text {
namespace {

constexpr std::string_view kBetweenCalls = " \t\r\n,;[]";
constexpr int kPythonicDepthMax = 64;

}  // namespace

void PythonLiteral::AddInText(char c, std::string* json) {
  if (!escaped_) {
    escaped_ = c == '\\';
    if (c == quote_) {
      quote_ = 0;
      *json += '"';
    } else if (!escaped_) {
      AppendJsonText(std::string_view(&c, 1), json);
    }
    return;
  }
  escaped_ = false;
  if (c == '\n') return;  // the line goes on
  constexpr std::string_view kSame = "ntrbf\\/\"u";
  if (kSame.find(c) != std::string_view::npos) {
    *json += '\\';
  } else if (c != '\'') {
    *json += "\\\\";
  }
  *json += c;
}

void PythonLiteral::EndWord(std::string* json) {
  number_ = false;
  *json += word_ == "True" ? "true" : word_ == "False" ? "false" : word_ == "None" ? "null" : word_;
  word_.clear();
}

PythonLiteral::Step PythonLiteral::Add(char c, std::string* json) {
  if (quote_ != 0) {
    AddInText(c, json);
    return Step::kTaken;
  }
  if (IsWordByte(c) || c == '+') {
    // A number may have any number of digits.
    number_ = number_ || (word_.empty() && ((c >= '0' && c <= '9') || c == '-'));
    if (number_) {
      *json += c;
      return Step::kTaken;
    }
    word_ += c;
    return word_.size() > kBareWordBytesMax ? Step::kBroken : Step::kTaken;
  }
  EndWord(json);
  const bool opens = c == '[' || c == '{' || c == '(', closes = c == ']' || c == '}' || c == ')';
  if (depth_ == 0 && (closes || c == ',')) return Step::kEnded;
  if (c == '\'' || c == '"') {
    quote_ = c;
    *json += '"';
    return Step::kTaken;
  }
  depth_ += opens ? 1 : closes ? -1 : 0;
  *json += c == '(' ? '[' : c == ')' ? ']' : c;
  return depth_ > kPythonicDepthMax ? Step::kBroken : Step::kTaken;
}

void PythonicCalls::Finish(AnswerParts* parts, TextDelta* delta) {
  if (parts->in_call()) return parts->EndCall(delta);
  GiveBack(parts, delta);
  parts->Text(pending_.rest(), delta);
}

bool PythonicCalls::Step(AnswerParts* parts, TextDelta* delta) {
  switch (state_) {
    case State::kStart:
      return StepStart(parts, delta);
    case State::kProse:
      return StepProse(parts, delta);
    case State::kBetween:
      return StepBetween(parts, delta);
    case State::kName:
      StepName(parts, delta);
      return true;
    case State::kKey:
      StepKey(parts, delta);
      return true;
    case State::kValue:
      StepValue(parts, delta);
      return true;
  }
  return false;
}

void PythonicCalls::GiveBack(AnswerParts* parts, TextDelta* delta) {
  GiveHeld(called_, kBetweenCalls, parts, delta);
  state_ = State::kProse;
}

bool PythonicCalls::StepStart(AnswerParts* parts, TextDelta* delta) {
  const char c = pending_.rest()[0];
  if (c == '[' || (IsSpace(c) && held_.size() < kHeldSpaceMax)) {
    Hold(1);
    if (c == '[') state_ = State::kBetween;
    return true;
  }
  GiveBack(parts, delta);
  return true;
}

bool PythonicCalls::StepProse(AnswerParts* parts, TextDelta* delta) {
  if (TakeMark(form_.begins, parts, delta).empty()) return false;
  marked_ = true;
  called_ = false;
  state_ = State::kBetween;
  return true;
}

bool PythonicCalls::StepBetween(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (kBetweenCalls.find(rest[0]) != std::string_view::npos && held_.size() < kLookAheadMax) {
    const bool closes = rest[0] == ']' && !marked_;
    Hold(1);
    if (closes) GiveBack(parts, delta);
    return true;
  }
  const Match end = TakeEnd(form_.ends, called_);
  if (end == Match::kPerhaps) return false;
  if (end == Match::kYes || !IsWordByte(rest[0])) {
    GiveBack(parts, delta);
    return true;
  }
  name_.clear();
  state_ = State::kName;
  return true;
}

void PythonicCalls::StepName(AnswerParts* parts, TextDelta* delta) {
  const char c = pending_.rest()[0];
  const bool ends = c == '(' && !name_.empty() && (marked_ || schemas_.Has(name_));
  const bool goes_on = IsWordByte(c) || (!name_.empty() && (c == ':' || c == '/'));
  if (!ends && (!goes_on || name_.size() >= kBareWordBytesMax)) return GiveBack(parts, delta);
  Hold(1);
  if (!ends) {
    name_ += c;
    return;
  }
  key_.clear();
  argued_ = false;
  state_ = State::kKey;
}

void PythonicCalls::StepKey(AnswerParts* parts, TextDelta* delta) {
  const char c = pending_.rest()[0];
  const bool begun = parts->in_call();
  if (c == ')' && key_.empty()) {
    if (!begun) Begin(parts, delta);
    pending_.Drop(1);
    return EndCall(parts, delta);
  }
  if (c == '=' && !key_.empty()) {
    if (!begun) Begin(parts, delta);
    pending_.Drop(1);
    std::string piece = argued_ ? ", \"" : "{\"";
    AppendJsonText(key_, &piece);
    parts->Arguments(piece + "\": ", delta);
    argued_ = true;
    key_.clear();
    value_ = PythonLiteral();
    state_ = State::kValue;
    return;
  }
  const bool space = IsSpace(c) && held_.size() < kLookAheadMax;
  if (!space && (!IsWordByte(c) || key_.size() >= kBareWordBytesMax)) {
    if (!begun) return GiveBack(parts, delta);
    EndCall(parts, delta);
    state_ = State::kProse;
    return;
  }
  if (!space) key_ += c;
  if (begun) {
    pending_.Drop(1);
  } else {
    Hold(1);
  }
}

void PythonicCalls::StepValue(AnswerParts* parts, TextDelta* delta) {
  std::string json;
  auto step = PythonLiteral::Step::kTaken;
  while (!pending_.rest().empty() && step == PythonLiteral::Step::kTaken) {
    step = value_.Add(pending_.rest()[0], &json);
    if (step == PythonLiteral::Step::kTaken) pending_.Drop(1);
  }
  parts->Arguments(json, delta);
  if (step == PythonLiteral::Step::kTaken) return;
  const char c = pending_.rest()[0];
  if (step == PythonLiteral::Step::kEnded && (c == ',' || c == ')')) {
    state_ = State::kKey;
    if (c == ',') pending_.Drop(1);
    return;
  }
  EndCall(parts, delta);
  state_ = State::kProse;
}

void PythonicCalls::Begin(AnswerParts* parts, TextDelta* delta) {
  parts->BeginCall(name_, "", delta);
  held_.clear();
  called_ = true;
}

void PythonicCalls::EndCall(AnswerParts* parts, TextDelta* delta) {
  if (argued_) parts->Arguments("}", delta);
  parts->EndCall(delta);
  state_ = State::kBetween;
}

}  // namespace sluice::text
