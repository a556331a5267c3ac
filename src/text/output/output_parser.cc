#include "text/output/output_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::text {

OutputParser::OutputParser(AnswerParts parts, std::unique_ptr<CallParser> calls,
                           const ThinkTags* tags, bool thinking, std::string_view cut)
    : calls_(std::move(calls)),
      tags_(tags),
      cut_(cut),
      parts_(std::move(parts)),
      state_(tags == nullptr ? State::kAnswer
             : thinking      ? State::kThinking
                             : State::kStart) {}

namespace {

// What comes behind `begun` in `all`, of which it is the beginning.
std::string Behind(const std::string& all, const std::string& begun) {
  return all.substr(std::min(all.size(), begun.size()));
}

// Takes away what stands in `text` from `at` on and is the beginning of `known`, or all of it. Once
// something else stands there nothing more is known.
void DropKnown(size_t at, std::string* known, std::string* text) {
  const std::string_view added = std::string_view(*text).substr(at);
  if (known->empty() || added.empty()) return;
  const size_t common = std::min(added.size(), known->size());
  if (added.substr(0, common) != std::string_view(*known).substr(0, common)) return known->clear();
  known->erase(0, common);
  text->erase(at, common);
}

}  // namespace

void OutputParser::Begin(std::string_view text, const TextDelta& alone) {
  TextDelta told;
  Take(text, &told);
  known_text_ = Behind(alone.text, told.text);
  known_reasoning_ = Behind(alone.reasoning, told.reasoning);
  if (parts_.CountAnew() && !told.tool_calls.empty()) {
    open_ = std::move(told.tool_calls.back());
    open_->index = 0;
    known_text_.clear();  // its arguments go on
  }
}

template <class Work>
void OutputParser::Tell(TextDelta* delta, const Work& work) {
  const size_t text = delta->text.size(), reasoning = delta->reasoning.size();
  const size_t calls = delta->tool_calls.size();
  if (open_) delta->tool_calls.push_back(*std::exchange(open_, std::nullopt));
  work();
  DropKnown(text, &known_text_, &delta->text);
  if (delta->tool_calls.size() > calls) known_text_.clear();  // it was a call's beginning
  DropKnown(reasoning, &known_reasoning_, &delta->reasoning);
}

void OutputParser::Add(std::string_view piece, TextDelta* delta) {
  Tell(delta, [&] { Take(piece, delta); });
}

void OutputParser::Finish(TextDelta* delta) {
  Tell(delta, [&] { End(delta); });
}

void OutputParser::Take(std::string_view piece, TextDelta* delta) {
  if (state_ == State::kAnswer) return Answer(piece, delta);
  pending_.Add(piece);
  while (!pending_.rest().empty() && Step(delta)) {
  }
}

void OutputParser::Answer(std::string_view piece, TextDelta* delta) {
  if (calls_ == nullptr) return parts_.Text(piece, delta);
  calls_->Add(piece, &parts_, delta);
}

bool OutputParser::Step(TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (state_ == State::kThinking) {
    const std::array<std::string_view, 2> ends = {tags_->end, cut_};
    const MarkerHit hit = FindMarker(rest, std::span(ends).first(cut_.empty() ? 1 : 2));
    parts_.Reasoning(rest.substr(0, hit.at), delta);
    pending_.Drop(hit.at);
    if (hit.marker < 0) return false;
    if (hit.marker == 0) pending_.Drop(tags_->end.size());
    parts_.EndReasoning();
    state_ = State::kAnswer;
    return true;
  }
  if (state_ == State::kStart) {
    // Only what an answer begins with is a tag: it may well speak of one.
    const size_t space = rest.find_first_not_of(" \t\r\n");
    if (space == std::string_view::npos && rest.size() < kHeldSpaceMax) return false;
    const std::string_view behind = rest.substr(std::min(space, rest.size()));
    const Match match = space == std::string_view::npos || space >= kHeldSpaceMax
                            ? Match::kNo
                            : MatchFront(behind, tags_->begin);
    if (match == Match::kPerhaps) return false;
    if (match == Match::kYes) pending_.Drop(space + tags_->begin.size());
    state_ = match == Match::kYes ? State::kThinking : State::kAnswer;
    return true;
  }
  Answer(rest, delta);
  pending_.Drop(rest.size());
  return false;
}

void OutputParser::End(TextDelta* delta) {
  const std::string_view rest = pending_.rest();
  if (state_ == State::kThinking) parts_.Reasoning(rest, delta);
  if (state_ == State::kStart) Answer(rest, delta);
  if (calls_ != nullptr) calls_->Finish(&parts_, delta);
  parts_.Finish(delta);
}

}  // namespace sluice::text
