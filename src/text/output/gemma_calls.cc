#include "text/output/gemma_calls.h"

#include "text/output/call_grammar.h"
#include "text/output/json_text.h"
#include "text/output/white_space.h"

namespace sluice::text {
namespace {

constexpr size_t kGemmaDepthMax = 64;

}  // namespace

void GemmaCalls::Finish(AnswerParts* parts, TextDelta* delta) {
  if (parts->in_call()) return parts->EndCall(delta);
  if (state_ == State::kName) parts->Text(form_.begin, delta);
  if (state_ != State::kBehind) parts->Text(pending_.rest(), delta);
}

bool GemmaCalls::Step(AnswerParts* parts, TextDelta* delta) {
  switch (state_) {
    case State::kProse:
      return StepProse(parts, delta);
    case State::kName:
      return StepName(parts, delta);
    case State::kKey:
      return StepKey(parts, delta);
    case State::kValue:
      return StepValue(parts, delta);
    case State::kText:
      return StepText(parts, delta);
    case State::kBehind:
      return StepBehind();
  }
  return false;
}

bool GemmaCalls::StepProse(AnswerParts* parts, TextDelta* delta) {
  if (TakeMark(std::span(&form_.begin, 1), parts, delta).empty()) return false;
  held_.clear();  // StepName gives it back
  state_ = State::kName;
  return true;
}

bool GemmaCalls::StepName(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const size_t end = rest.find_first_of(" \t\r\n<>()\"{");
  const bool longer = end == std::string_view::npos;
  if (longer && rest.size() <= kBareWordBytesMax) return false;
  if (longer || end == 0 || end > kBareWordBytesMax || rest[end] != '{') {
    parts->Text(form_.begin, delta);
    state_ = State::kProse;
    return true;
  }
  parts->BeginCall(rest.substr(0, end), "", delta);
  pending_.Drop(end + 1);
  open_.clear();
  Open('{', parts, delta);
  return true;
}

void GemmaCalls::Open(char bracket, AnswerParts* parts, TextDelta* delta) {
  open_ += bracket;
  parts->Arguments(std::string_view(&bracket, 1), delta);
  state_ = bracket == '{' ? State::kKey : State::kValue;
}

void GemmaCalls::Close(char bracket, AnswerParts* parts, TextDelta* delta) {
  parts->Arguments(std::string_view(&bracket, 1), delta);
  open_.pop_back();
  state_ = State::kValue;
  if (!open_.empty()) return;
  parts->EndCall(delta);
  state_ = State::kBehind;
}

bool GemmaCalls::StepKey(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (kSpace.find(rest[0]) != std::string_view::npos) {
    pending_.Drop(1);
    return true;
  }
  if (rest[0] == '}') {
    pending_.Drop(1);
    Close('}', parts, delta);
    return true;
  }
  const size_t end = rest.find(':');
  if (end == std::string_view::npos && rest.size() <= kLookAheadMax) return false;
  if (end == std::string_view::npos || end > kLookAheadMax) {
    parts->EndCall(delta);
    state_ = State::kProse;
    return true;
  }
  std::string_view key = rest.substr(0, end);
  // Inner keys may stand between the marks of texts.
  if (key.starts_with(form_.quote)) key.remove_prefix(form_.quote.size());
  if (key.ends_with(form_.quote)) key.remove_suffix(form_.quote.size());
  std::string piece = "\"";
  AppendJsonText(key, &piece);
  parts->Arguments(piece + "\":", delta);
  pending_.Drop(end + 1);
  state_ = State::kValue;
  return true;
}

bool GemmaCalls::StepValue(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const Match match = MatchFront(rest, form_.quote);
  if (match == Match::kPerhaps) return false;
  if (match == Match::kYes) {
    pending_.Drop(form_.quote.size());
    parts->Arguments("\"", delta);
    state_ = State::kText;
    return true;
  }
  const Match ends = MatchFront(rest, form_.end);
  if (ends == Match::kPerhaps) return false;
  const char c = rest[0];
  const bool opens = c == '{' || c == '[';
  // A call in which a mark stands where none can, or that is nested too deeply, ends here.
  if (ends == Match::kYes || (opens && open_.size() >= kGemmaDepthMax)) {
    parts->EndCall(delta);
    state_ = State::kProse;
    return true;
  }
  pending_.Drop(1);
  if (opens) {
    Open(c, parts, delta);
  } else if (c == '}' || c == ']') {
    Close(c, parts, delta);
  } else {
    parts->Arguments(std::string_view(&c, 1), delta);
    if (c == ',' && open_.back() == '{') state_ = State::kKey;
  }
  return true;
}

bool GemmaCalls::StepText(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const MarkerHit hit = FindMarker(rest, std::span(&form_.quote, 1));
  std::string text;
  AppendJsonText(rest.substr(0, hit.at), &text);
  if (hit.marker >= 0) text += '"';
  parts->Arguments(text, delta);
  pending_.Drop(hit.at + (hit.marker < 0 ? 0 : form_.quote.size()));
  if (hit.marker < 0) return false;
  state_ = State::kValue;
  return true;
}

bool GemmaCalls::StepBehind() {
  const std::string_view rest = pending_.rest();
  const Match match = MatchFront(rest, form_.end);
  if (match == Match::kPerhaps) return false;
  if (match == Match::kYes) pending_.Drop(form_.end.size());
  state_ = State::kProse;
  return true;
}

}  // namespace sluice::text
