#include "text/output/tagged_calls.h"

#include <array>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/str_cat.h"
#include "text/output/json_text.h"
#include "text/output/white_space.h"

namespace sluice::text {
namespace {

constexpr size_t kTagBytesMax = 256;
// Of a value that may be JSON and is judged as a whole; a longer one is a text.
constexpr size_t kJudgedBytesMax = 256u << 10;

// NAME of `NAME`, `NAME"` and `NAME" attribute="..."`.
std::string_view BeforeQuote(std::string_view head) { return head.substr(0, head.find('"')); }

}  // namespace

void TaggedCalls::Finish(AnswerParts* parts, TextDelta* delta) {
  if (parts->in_call()) {
    // What has come of a value that was to be judged; the call is cut, and so are its arguments.
    if (state_ == State::kValue) AddToValue(pending_.rest(), parts, delta);
    if (!value_.empty()) parts->Arguments(value_, delta);
    if (state_ == State::kArguments) return EndCall(parts, delta);
    return parts->EndCall(delta);
  }
  if (!called_ || state_ == State::kName) GiveBack(parts, delta);
  if (state_ == State::kProse) parts->Text(pending_.rest(), delta);
}

bool TaggedCalls::Step(AnswerParts* parts, TextDelta* delta) {
  switch (state_) {
    case State::kProse:
      return StepProse(parts, delta);
    case State::kSection:
      return StepSection(parts, delta);
    case State::kName:
      return StepName(parts, delta);
    case State::kArguments:
      return StepArguments(parts, delta);
    case State::kKey:
      return StepKey(parts, delta);
    case State::kValueMark:
      return StepValueMark();
    case State::kValue:
      return StepValue(parts, delta);
  }
  return false;
}

void TaggedCalls::GiveBack(AnswerParts* parts, TextDelta* delta) {
  GiveHeld(called_, kSpace, parts, delta);
  state_ = State::kProse;
}

bool TaggedCalls::StepProse(AnswerParts* parts, TextDelta* delta) {
  const std::string_view mark = TakeMark(form_.begins, parts, delta);
  if (mark.empty()) return false;
  called_ = false;
  bare_ = mark == form_.call;
  state_ = form_.call.empty() || bare_ ? State::kName : State::kSection;
  return true;
}

bool TaggedCalls::StepSection(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (IsSpace(rest[0]) && held_.size() < kHeldSpaceMax) {
    Hold(1);
    return true;
  }
  for (const std::string_view mark : {form_.call, form_.section_end}) {
    const Match match = MatchFront(rest, mark);
    if (match == Match::kPerhaps) return false;
    if (match == Match::kNo) continue;
    if (mark == form_.section_end && called_) {
      pending_.Drop(mark.size());
      break;
    }
    Hold(mark.size());
    if (mark == form_.section_end) break;
    bare_ = false;
    state_ = State::kName;
    return true;
  }
  GiveBack(parts, delta);
  return true;
}

bool TaggedCalls::StepName(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const bool by_mark = !form_.name_end.empty();
  const std::array<std::string_view, 3> ends = {by_mark ? form_.name_end : "\n",
                                                by_mark ? form_.name_end : form_.key,
                                                by_mark ? form_.name_end : form_.call_end};
  const MarkerHit hit = FindMarker(rest, ends);
  const std::string_view name = BeforeQuote(rest.substr(0, hit.at));
  const bool is_name =
      name.find_first_of(" \t\r\n<>{}") == std::string_view::npos && hit.at <= kTagBytesMax;
  if (is_name && hit.marker < 0) return false;
  if (!is_name || name.empty() || (bare_ && !schemas_.Has(name))) {
    GiveBack(parts, delta);
    return true;
  }
  name_ = name;
  pending_.Drop(hit.at + (by_mark ? form_.name_end.size() : 0));
  held_.clear();
  called_ = true;
  argued_ = false;
  value_.clear();
  parts->BeginCall(name_, "", delta);
  state_ = State::kArguments;
  return true;
}

bool TaggedCalls::StepArguments(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (IsSpace(rest[0])) {
    pending_.Drop(1);
    return true;
  }
  Match match = MatchFront(rest, form_.key);
  if (match == Match::kPerhaps) return false;
  if (match == Match::kYes) {
    pending_.Drop(form_.key.size());
    state_ = State::kKey;
    return true;
  }
  match = MatchFront(rest, form_.call_end);
  if (match == Match::kPerhaps) return false;
  if (match == Match::kYes) pending_.Drop(form_.call_end.size());
  // Something else ends the call, too.
  EndCall(parts, delta);
  state_ = form_.call.empty() ? State::kProse : State::kSection;
  return true;
}

bool TaggedCalls::StepKey(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const MarkerHit hit = FindMarker(rest, std::span(&form_.key_end, 1));
  if (hit.marker < 0 && rest.size() <= kTagBytesMax) return false;
  if (hit.marker < 0 || hit.at > kTagBytesMax) {
    EndCall(parts, delta);
    state_ = State::kProse;
    return true;
  }
  BeginArgument(rest.substr(0, hit.at), parts, delta);
  pending_.Drop(hit.at + form_.key_end.size());
  state_ = form_.value.empty() ? State::kValue : State::kValueMark;
  return true;
}

bool TaggedCalls::StepValueMark() {
  const std::string_view rest = pending_.rest();
  if (IsSpace(rest[0])) {
    pending_.Drop(1);
    return true;
  }
  const Match match = MatchFront(rest, form_.value);
  if (match == Match::kPerhaps) return false;
  if (match == Match::kYes) pending_.Drop(form_.value.size());
  state_ = State::kValue;
  return true;
}

void TaggedCalls::BeginArgument(std::string_view head, AnswerParts* parts, TextDelta* delta) {
  key_ = BeforeQuote(head);
  kind_ = schemas_.KindOf(name_, key_);
  if (head.find("string=\"true\"") != std::string_view::npos) kind_ = ToolSchemas::Kind::kText;
  if (head.find("string=\"false\"") != std::string_view::npos) kind_ = ToolSchemas::Kind::kJson;
  streams_ = kind_ == ToolSchemas::Kind::kText;
  value_begun_ = false;
  value_.clear();
  std::string piece = argued_ ? ", \"" : "{\"";
  AppendJsonText(key_, &piece);
  piece += streams_ ? "\": \"" : "\": ";
  argued_ = true;
  parts->Arguments(piece, delta);
}

bool TaggedCalls::StepValue(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  // The first line's end and the last one are layout.
  if (!value_begun_) {
    value_begun_ = true;
    if (rest[0] == '\n' && form_.value_end_line != form_.value_end) pending_.Drop(1);
    return true;
  }
  const std::array<std::string_view, 2> ends = {form_.value_end_line, form_.value_end};
  const MarkerHit hit = FindMarker(rest, ends);
  AddToValue(rest.substr(0, hit.at), parts, delta);
  pending_.Drop(hit.at);
  if (hit.marker < 0) return false;
  pending_.Drop(ends[static_cast<size_t>(hit.marker)].size());
  EndValue(parts, delta);
  state_ = State::kArguments;
  return true;
}

void TaggedCalls::AddToValue(std::string_view piece, AnswerParts* parts, TextDelta* delta) {
  if (!streams_) {
    const size_t room = kJudgedBytesMax - value_.size();
    value_ += piece.substr(0, room);
    if (piece.size() <= room) return;
    piece.remove_prefix(room);
    std::string text = "\"";
    AppendJsonText(std::exchange(value_, {}), &text);
    parts->Arguments(text, delta);
    streams_ = true;
  }
  std::string text;
  AppendJsonText(piece, &text);
  parts->Arguments(text, delta);
}

void TaggedCalls::EndValue(AnswerParts* parts, TextDelta* delta) {
  if (streams_) return parts->Arguments("\"", delta);
  const std::string value = std::exchange(value_, {});
  std::string json = JsonSpelling(value);
  const std::optional<Json> parsed = ReadWrittenValue(json);
  const bool is_text =
      !parsed || parsed->is_string() ||
      (kind_ == ToolSchemas::Kind::kAny && schemas_.IsText(name_, key_, value, *parsed));
  if (is_text) {
    json = "\"";
    AppendJsonText(value, &json);
    json += '"';
  }
  parts->Arguments(json, delta);
}

void TaggedCalls::EndCall(AnswerParts* parts, TextDelta* delta) {
  if (argued_) parts->Arguments("}", delta);
  parts->EndCall(delta);
}

}  // namespace sluice::text
