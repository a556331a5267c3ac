#include "cli/conversation.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/check_range.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"

namespace sluice::cli {
namespace {

// Of the context so large a part, one over this, is kept for an answer that may be as long.
constexpr int kAnswerShare = 4;

template <class Number>
Status Parse(const std::string& name, const std::string& text, Number* number) {
  if (const std::optional<Number> read = ParseNumber<Number>(text)) {
    *number = *read;
    return OkStatus();
  }
  return InvalidArgument(StrCat(name, " is \"", text, "\"; it must be ",
                                std::is_floating_point_v<Number> ? "a number" : "a whole number"));
}

bool IsMessage(const Json& value) {
  if (!value.is_object() || value.size() != 2 || !value.contains("role") ||
      !value.contains("content") || !value["content"].is_string()) {
    return false;
  }
  const Json& role = value["role"];
  return role == "system" || role == "user" || role == "assistant";
}

}  // namespace

Conversation::Conversation(Engine& engine, std::string system, Sampling asked, int max_tokens)
    : engine_(engine),
      asked_(std::move(asked)),
      max_tokens_(max_tokens == kNoLimit ? kMaxTokensMax : max_tokens) {
  if (!system.empty()) SetSystem(system);
}

size_t Conversation::FirstTurn() const {
  return !messages_.empty() && messages_[0]["role"] == "system" ? 1 : 0;
}

Result<RunResult> Conversation::Answer(const std::string& text, const Told& told) {
  Json before = messages_;
  if (told.instead_of_last && !LastQuestion().empty()) {
    messages_.erase(messages_.size() - 1);
    messages_.erase(messages_.size() - 1);
  }
  messages_.push_back({{"role", "user"}, {"content", text}});
  forgotten_ = 0;
  while (!HasRoom() && ForgetTurn()) continue;
  for (;;) {
    Request request;
    request.prompt = Asked();
    request.max_tokens = max_tokens_;
    request.sampling = WithTerminalDefaults(asked_, engine_.Info().sampling_defaults);
    InterruptGuard interrupt;
    auto result = RunRequest(engine_, std::move(request), told.on_delta, told.on_wait);
    if (result.ok()) {
      messages_.push_back({{"role", "assistant"}, {"content", result->text}});
      return result;
    }
    if (result.status().code() != StatusCode::kTooLarge || !ForgetTurn()) {
      messages_ = std::move(before);
      forgotten_ = 0;
      return result;
    }
  }
}

ChatPrompt Conversation::Asked() const {
  ChatPrompt chat;
  chat.messages_json = DumpJson(messages_);
  return chat;
}

bool Conversation::HasRoom() const {
  const auto text = engine_.RenderChat(Asked(), /*now=*/"");
  if (!text.ok()) return true;  // the answer says why
  const auto ids = engine_.Tokenize(*text, /*add_special=*/false, /*parse_special=*/true);
  const int64_t length = engine_.Info().max_model_len;
  return !ids.ok() || static_cast<int64_t>(ids->size()) +
                              std::min<int64_t>(max_tokens_, length / kAnswerShare) <=
                          length;
}

bool Conversation::ForgetTurn() {
  const size_t first = FirstTurn();
  if (messages_.size() < first + 3) return false;
  messages_.erase(first);
  messages_.erase(first);
  ++forgotten_;
  return true;
}

void Conversation::Reset() {
  while (messages_.size() > FirstTurn()) messages_.erase(messages_.size() - 1);
}

void Conversation::SetSystem(const std::string& text) {
  if (FirstTurn() == 1) messages_.erase(size_t{0});
  if (text.empty()) return;
  const Json message = {{"role", "system"}, {"content", text}};
  messages_.insert(messages_.begin(), message);
}

std::string Conversation::LastQuestion() const {
  if (messages_.size() < FirstTurn() + 2) return "";
  return messages_[messages_.size() - 2]["content"];
}

Status Conversation::Set(const std::string& name, const std::string& value) {
  if (name == "max_tokens") {
    int tokens = 0;
    SLUICE_RETURN_IF_ERROR(Parse(name, value, &tokens));
    if (tokens == kNoLimit) tokens = kMaxTokensMax;
    SLUICE_RETURN_IF_ERROR(CheckRange(name, tokens, 1, kMaxTokensMax));
    max_tokens_ = tokens;
    return OkStatus();
  }
  Status status =
      InvalidArgument(StrCat("there is no \"", name, "\" to set; there are ", NamesToSet()));
  ForEachRequestField(
      [&](const SamplingField& field, auto& setting) {
        if (field.name != name) return;
        using Number = typename std::remove_reference_t<decltype(setting)>::value_type;
        if (std::is_same_v<Number, uint64_t> && value == "-1") {  // a seed, which is drawn
          setting.reset();
          status = OkStatus();
          return;
        }
        Number number = 0;
        status = Parse(name, value, &number);
        if (status.ok()) status = CheckRange(name, static_cast<double>(number), field.range);
        if (status.ok()) setting = number;
      },
      asked_);
  return status;
}

std::string Conversation::WhatIsSet() const {
  std::string lines = StrCat("max_tokens ", max_tokens_, "\n");
  ForEachRequestField(
      [&lines](const SamplingField& field, const auto& asked, const auto& of_model) {
        const double otherwise = field.terminal_default.value_or(field.otherwise);
        const std::string value = asked                  ? StrCat(*asked)
                                  : of_model             ? StrCat(*of_model, " (the model's)")
                                  : field.name == "seed" ? "is drawn for each answer"
                                                         : StrCat(otherwise, " (the default)");
        lines += StrCat(field.name, " ", value, "\n");
      },
      asked_, engine_.Info().sampling_defaults);
  return lines;
}

std::string Conversation::NamesToSet() {
  std::string names = "max_tokens";
  ForEachRequestField(
      [&names](const SamplingField& field, const auto&) { names += StrCat(", ", field.name); },
      Sampling{});
  return names;
}

std::string Conversation::Saved() const { return DumpJson(messages_) + "\n"; }

Status Conversation::Load(const std::string& json) {
  SLUICE_ASSIGN_OR_RETURN(Json messages, ParseJson(json, "the file"));
  bool good = messages.is_array();
  for (const Json& message : good ? messages : Json::array()) good = good && IsMessage(message);
  if (!good) {
    return InvalidArgument(
        "the file is no conversation: it must be a JSON array of objects with role and content, as "
        "/save writes it");
  }
  messages_ = std::move(messages);
  return OkStatus();
}

}  // namespace sluice::cli
