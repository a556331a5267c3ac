#include "text/output/answer_parts.h"

#include <random>
#include <utility>

#include "text/output/white_space.h"

namespace sluice::text {
namespace {

ToolCallDelta* CallOf(int index, TextDelta* delta) {
  if (delta->tool_calls.empty() || delta->tool_calls.back().index != index) {
    delta->tool_calls.emplace_back().index = index;
  }
  return &delta->tool_calls.back();
}

}  // namespace

std::string DrawCallId(std::string_view prefix, size_t length) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    return std::mt19937_64((static_cast<uint64_t>(device()) << 32) ^ device());
  }();
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string id(prefix);
  for (size_t i = 0; i < length; ++i) id += kLetters[letter(generator)];
  return id;
}

std::string AnswerParts::Held::Add(std::string_view piece) {
  if (at_start) {
    const size_t first = piece.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return {};
    piece.remove_prefix(first);
    at_start = false;
  }
  std::string all = std::exchange(space, {});
  all += piece;
  const size_t last = all.find_last_not_of(kSpace);
  size_t certain = last == std::string::npos ? 0 : last + 1;
  if (all.size() - certain > kHeldSpaceMax) certain = all.size() - kHeldSpaceMax;
  space = all.substr(certain);
  all.resize(certain);
  return all;
}

void AnswerParts::Text(std::string_view piece, TextDelta* delta) {
  if (piece.empty()) return;
  delta->text += text_.Add(piece);
  texted_ = texted_ || !text_.at_start;
  if (wanted_.tools) return;
  // No call can follow, so that all of it is text.
  delta->text += std::exchange(text_.space, {});
}

void AnswerParts::Reasoning(std::string_view piece, TextDelta* delta) {
  const std::string certain = reasoning_.Add(piece);
  if (certain.empty()) return;
  // What was thought in several parts reads as paragraphs.
  if (std::exchange(new_thought_, false)) delta->reasoning += '\n';
  thought_ = true;
  delta->reasoning += certain;
}

void AnswerParts::EndReasoning() {
  reasoning_ = {{}, true};
  new_thought_ = thought_;
  text_.at_start = text_.at_start || !texted_;
}

void AnswerParts::BeginCall(std::string_view name, std::string id, TextDelta* delta) {
  in_call_ = true;
  has_arguments_ = false;
  dropped_ = wanted_.one_call && calls_ > 0;
  text_ = {{}, true};
  if (dropped_) return;
  ToolCallDelta* const call = CallOf(calls_++, delta);
  if (id.empty()) id = short_ids_ ? DrawCallId("", 9) : DrawCallId("call_", 24);
  call->id = std::move(id);
  call->name = name;
}

void AnswerParts::Arguments(std::string_view piece, TextDelta* delta) {
  if (piece.empty()) return;
  has_arguments_ = true;
  if (!dropped_) CallOf(calls_ - 1, delta)->arguments += piece;
}

void AnswerParts::EndCall(TextDelta* delta) {
  if (!has_arguments_) Arguments("{}", delta);
  in_call_ = false;
}

void AnswerParts::Finish(TextDelta* delta) {
  if (!text_.at_start) delta->text += std::exchange(text_.space, {});
}

}  // namespace sluice::text
