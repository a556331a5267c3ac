#include "text/output/call_object.h"

#include "base/json.h"
#include "text/output/white_space.h"

namespace sluice::text {
namespace {

constexpr size_t kKeyBytesMax = 64;

}  // namespace

JsonValueEnd::Step JsonValueEnd::Add(char c) {
  const bool begins = !begun_;
  begun_ = true;
  if (string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      string_ = false;
      if (depth_ == 0) return Step::kEnds;
    }
    return Step::kTaken;
  }
  // A number or a word has no end of its own.
  if (depth_ == 0 && !begins && (IsSpace(c) || c == ',' || c == '}' || c == ']')) {
    return Step::kEnded;
  }
  if (c == '"') string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if ((c == '}' || c == ']') && --depth_ == 0) return Step::kEnds;
  return Step::kTaken;
}

CallObject::State CallObject::Add(char c, AnswerParts* parts, TextDelta* delta) {
  if (at_ == At::kKey) {
    if (c == '"') {
      at_ = At::kColon;
      return State::kMore;
    }
    key_ += c;
    return c == '\\' || key_.size() > kKeyBytesMax ? State::kBroken : State::kMore;
  }
  if (at_ == At::kValue) return AddToValue(c, parts, delta);
  if (IsSpace(c)) return State::kMore;
  if (at_ == At::kColon) {
    if (c == ':' && !key_.empty()) {
      member_ = key_ == "name" || key_ == "tool_name"         ? Member::kName
                : key_ == "arguments" || key_ == "parameters" ? Member::kArguments
                                                              : Member::kOther;
      key_.clear();
      return State::kMore;
    }
    return key_.empty() ? BeginValue(c, parts, delta) : State::kBroken;
  }
  if (c == '}') return Close(parts, delta);
  if (at_ == At::kKeyOrEnd && c == '"') {
    at_ = At::kKey;
    return State::kMore;
  }
  if (at_ == At::kAfterValue && c == ',') {
    at_ = At::kKeyOrEnd;
    return State::kMore;
  }
  return State::kBroken;
}

CallObject::State CallObject::BeginValue(char c, AnswerParts* parts, TextDelta* delta) {
  if (c == ',' || c == '}' || c == ']' || c == ':') return State::kBroken;
  // A second one of either could not be told from the first by whom it is sent to.
  if (member_ == Member::kName && !name_.empty()) member_ = Member::kOther;
  if (member_ == Member::kArguments && has_arguments_) member_ = Member::kOther;
  value_ = JsonValueEnd();
  at_ = At::kValue;
  if (member_ == Member::kArguments && !name_.empty() && !begun_) Begin(parts, delta);
  return AddToValue(c, parts, delta);
}

CallObject::State CallObject::AddToValue(char c, AnswerParts* parts, TextDelta* delta) {
  const JsonValueEnd::Step step = value_.Add(c);
  if (step != JsonValueEnd::Step::kEnded) {
    const std::string_view byte(&c, 1);
    if (member_ == Member::kName) name_json_ += c;
    if (member_ == Member::kArguments && begun_) parts->Arguments(byte, delta);
    if (member_ == Member::kArguments && !begun_) held_arguments_ += c;
    if (step == JsonValueEnd::Step::kTaken) return State::kMore;
  }
  at_ = At::kAfterValue;
  if (!EndValue()) return State::kBroken;
  return step == JsonValueEnd::Step::kEnds ? State::kMore : Add(c, parts, delta);
}

bool CallObject::EndValue() {
  if (member_ == Member::kArguments) has_arguments_ = true;
  if (member_ != Member::kName) return true;
  const auto name = ParseJson(name_json_, "name");
  if (!name.ok() || !name->is_string()) return false;
  name_ = name->get<std::string>();
  return !name_.empty() && (known_ == nullptr || known_->Has(name_));
}

CallObject::State CallObject::Close(AnswerParts* parts, TextDelta* delta) {
  if (begun_) return State::kDone;
  if (name_.empty() || (known_ != nullptr && !has_arguments_)) return State::kBroken;
  Begin(parts, delta);
  return State::kDone;
}

void CallObject::Begin(AnswerParts* parts, TextDelta* delta) {
  begun_ = true;
  parts->BeginCall(name_, "", delta);
  parts->Arguments(held_arguments_, delta);
}

}  // namespace sluice::text
