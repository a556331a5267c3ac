#include "text/output/header_calls.h"

#include <utility>

#include "text/output/white_space.h"

namespace sluice::text {
namespace {

constexpr size_t kHeaderBytesMax = 256;

}  // namespace

void HeaderCalls::Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) {
  if (list_ != nullptr) return list_->Add(piece, parts, delta);
  SteppedCalls::Add(piece, parts, delta);
}

void HeaderCalls::Finish(AnswerParts* parts, TextDelta* delta) {
  if (list_ != nullptr) return list_->Finish(parts, delta);
  if (parts->in_call()) return parts->EndCall(delta);
  if (state_ == State::kBehind) return;
  GiveBack(parts, delta);
  parts->Text(pending_.rest(), delta);
}

bool HeaderCalls::Step(AnswerParts* parts, TextDelta* delta) {
  switch (state_) {
    case State::kProse:
      return StepProse(parts, delta);
    case State::kSection:
      return StepSection(parts, delta);
    case State::kHeader:
      return StepHeader(parts, delta);
    case State::kArguments:
      return StepArguments(parts, delta);
    case State::kBehind:
      return StepBehind();
  }
  return false;
}

void HeaderCalls::GiveBack(AnswerParts* parts, TextDelta* delta) {
  parts->Text(std::exchange(held_, {}), delta);
  state_ = State::kProse;
}

bool HeaderCalls::StepProse(AnswerParts* parts, TextDelta* delta) {
  if (TakeMark(form_.begins, parts, delta).empty()) return false;
  state_ = State::kSection;
  return true;
}

bool HeaderCalls::StepSection(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (IsSpace(rest[0]) && held_.size() < kHeaderBytesMax) {
    Hold(1);
    return true;
  }
  if (form_.list != nullptr && (rest[0] == '[' || rest[0] == '{')) {
    list_ = std::make_unique<JsonCalls>(*form_.list, schemas_);
    list_->Add(std::exchange(held_, {}), parts, delta);
    list_->Add(rest, parts, delta);
    pending_.Drop(rest.size());
    return false;
  }
  const Match match = form_.call.empty() ? Match::kYes : MatchFront(rest, form_.call);
  if (match == Match::kPerhaps) return false;
  if (match == Match::kNo) {
    GiveBack(parts, delta);
  } else {
    Hold(form_.call.size());
    state_ = State::kHeader;
  }
  return true;
}

bool HeaderCalls::StepHeader(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const MarkerHit hit = FindMarker(rest, std::span(&form_.arguments, 1));
  const std::string_view header = rest.substr(0, hit.at);
  // Names have no white space, and few letters.
  const size_t first = std::min(header.find_first_not_of(kSpace), header.size());
  const bool is_name = header.substr(first).find_first_of(kSpace) == std::string_view::npos &&
                       header.size() <= kHeaderBytesMax;
  if (is_name && hit.marker < 0) return false;
  const bool begun = is_name && BeginCall(header.substr(first), parts, delta);
  if (!begun) {
    GiveBack(parts, delta);
    return true;
  }
  pending_.Drop(hit.at + form_.arguments.size());
  held_.clear();
  value_ = JsonValueEnd();
  value_begun_ = false;
  state_ = State::kArguments;
  return true;
}

bool HeaderCalls::BeginCall(std::string_view header, AnswerParts* parts, TextDelta* delta) {
  std::string_view name = header;
  std::string id;
  if (form_.header == HeaderKind::kAfterMark) {
    const size_t mark = header.rfind(form_.header_mark);
    if (mark != std::string_view::npos) name.remove_prefix(mark + form_.header_mark.size());
  } else if (form_.header == HeaderKind::kBeforeMark) {
    name = header.substr(0, header.find(form_.header_mark));
  } else if (form_.header == HeaderKind::kIndexed) {
    id = header;
    constexpr std::string_view kFunctions = "functions.";
    if (name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
    name = name.substr(0, name.rfind(':'));
  }
  if (name.empty()) return false;
  parts->BeginCall(name, std::move(id), delta);
  return true;
}

bool HeaderCalls::StepArguments(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  size_t end = 0;
  bool ended = false;
  if (!value_begun_) {
    while (end < rest.size() && IsSpace(rest[end])) ++end;
    value_begun_ = end < rest.size();
    // Nothing that could be an argument: the call has none.
    ended = value_begun_ && rest[end] != '{' && rest[end] != '[' && rest[end] != '"';
    pending_.Drop(end);
    if (!value_begun_) return false;
    if (!ended) return true;
    end = 0;
  }
  while (!ended && end < rest.size()) ended = value_.Add(rest[end++]) == JsonValueEnd::Step::kEnds;
  parts->Arguments(rest.substr(0, end), delta);
  pending_.Drop(end);
  if (!ended) return false;
  parts->EndCall(delta);
  state_ = State::kBehind;
  return true;
}

// White space and the marks that end things are nobody's; what else comes is text, or begins again.
bool HeaderCalls::StepBehind() {
  const std::string_view rest = pending_.rest();
  if (IsSpace(rest[0])) {
    pending_.Drop(1);
    return true;
  }
  if (!form_.call.empty()) {
    const Match match = MatchFront(rest, form_.call);
    if (match == Match::kPerhaps) return false;
    if (match == Match::kYes) {
      Hold(form_.call.size());
      state_ = State::kHeader;
      return true;
    }
  }
  for (const auto ends : {form_.ends, form_.section_ends}) {
    for (const std::string_view end : ends) {
      const Match match = MatchFront(rest, end);
      if (match == Match::kPerhaps) return false;
      if (match == Match::kNo) continue;
      pending_.Drop(end.size());
      if (ends.data() == form_.section_ends.data()) state_ = State::kProse;
      return true;
    }
  }
  state_ = State::kProse;
  return true;
}

}  // namespace sluice::text
