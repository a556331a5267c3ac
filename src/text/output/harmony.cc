#include "text/output/harmony.h"

#include <algorithm>
#include <array>

#include "text/output/white_space.h"

namespace sluice::text {
namespace {

constexpr std::string_view kMessage = "<|message|>", kChannel = "<|channel|>";
constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                                   kChannel};
// What a header begins with, behind white space.
constexpr std::array<std::string_view, 4> kHeaderBegins = {kChannel, "<|start|>", "to=", kMessage};
constexpr size_t kHarmonyHeaderBytesMax = 256;

// The word of `header` behind `mark`, up to white space or another mark.
std::string_view WordBehind(std::string_view header, std::string_view mark) {
  const size_t at = header.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + mark.size());
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

Match MatchAny(std::string_view text) {
  Match best = Match::kNo;
  for (const std::string_view begin : kHeaderBegins) {
    const Match match = MatchFront(text, begin);
    if (match == Match::kYes) return match;
    if (match == Match::kPerhaps) best = match;
  }
  return best;
}

}  // namespace

void Harmony::Add(std::string_view piece, AnswerParts* parts, TextDelta* delta) {
  pending_.Add(piece);
  while (!pending_.rest().empty() &&
         (state_ == State::kHeader ? StepHeader(parts, delta) : StepBody(parts, delta))) {
  }
}

void Harmony::Finish(AnswerParts* parts, TextDelta* delta) {
  // A header that was cut has no message.
  if (state_ != State::kBody) return;
  Put(pending_.rest(), parts, delta);
  EndBody(parts, delta);
}

bool Harmony::StepHeader(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const size_t space = std::min(rest.find_first_not_of(kSpace), rest.size());
  const Match match = MatchAny(rest.substr(space));
  if (match == Match::kPerhaps && space <= kHeldSpaceMax) return false;
  const MarkerHit hit = FindMarker(rest, std::span(&kMessage, 1));
  const bool fits = hit.at <= kHarmonyHeaderBytesMax && space <= kHeldSpaceMax;
  if (match == Match::kYes && fits) {
    if (hit.marker < 0) return false;
    BeginBody(rest.substr(0, hit.at), parts, delta);
    pending_.Drop(hit.at + kMessage.size());
  } else {
    // A message without a header is text; at least what might begin one goes on.
    BeginBody("", parts, delta);
    const size_t shown = space + (match == Match::kYes ? 1 : 0);
    Put(rest.substr(0, shown), parts, delta);
    pending_.Drop(shown);
  }
  return true;
}

void Harmony::BeginBody(std::string_view header, AnswerParts* parts, TextDelta* delta) {
  state_ = State::kBody;
  const std::string_view channel = WordBehind(header, kChannel);
  std::string_view recipient = WordBehind(header, "to=");
  constexpr std::string_view kFunctions = "functions.";
  kind_ = Kind::kText;
  if (recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size() &&
      parts->wanted().tools) {
    recipient.remove_prefix(kFunctions.size());
    kind_ = Kind::kCall;
    parts->BeginCall(recipient, "", delta);
  } else if ((channel == "analysis" || !recipient.empty()) && parts->wanted().reasoning) {
    kind_ = Kind::kThinking;
  } else if (wrote_) {
    parts->Text("\n\n", delta);
  }
}

void Harmony::Put(std::string_view piece, AnswerParts* parts, TextDelta* delta) {
  if (kind_ == Kind::kThinking) {
    parts->Reasoning(piece, delta);
  } else if (kind_ == Kind::kCall) {
    parts->Arguments(piece, delta);
  } else {
    parts->Text(piece, delta);
  }
}

void Harmony::EndBody(AnswerParts* parts, TextDelta* delta) {
  if (kind_ == Kind::kThinking) parts->EndReasoning();
  if (kind_ == Kind::kCall) parts->EndCall(delta);
  if (kind_ == Kind::kText) wrote_ = true;
  state_ = State::kHeader;
}

bool Harmony::StepBody(AnswerParts* parts, TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  const MarkerHit hit = FindMarker(rest, kEnds);
  Put(rest.substr(0, hit.at), parts, delta);
  pending_.Drop(hit.at);
  if (hit.marker < 0) return false;
  const std::string_view mark = kEnds[static_cast<size_t>(hit.marker)];
  // The last two are a part of the next header.
  if (mark != kChannel && mark != "<|start|>") pending_.Drop(mark.size());
  EndBody(parts, delta);
  return true;
}

}  // namespace sluice::text
