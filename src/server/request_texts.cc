#include "server/request_texts.h"

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::server {
namespace {

// All but the prompt itself. Whoever gives Request another long text names it here, too.
auto Texts(auto& request) {
  return std::tie(request.second_text, request.choice, request.grammar.text, request.prediction);
}

size_t BytesOf(const std::string& text) { return text.size(); }
size_t BytesOf(const std::optional<std::string>& text) { return text ? text->size() : 0; }
size_t BytesOf(const std::vector<std::string>& texts) {
  size_t bytes = texts.size() * sizeof(std::string);
  for (const std::string& text : texts) bytes += text.size();
  return bytes;
}
size_t BytesOf(const std::vector<int32_t>& ids) { return ids.size() * sizeof(int32_t); }
size_t BytesOf(const ChatPrompt& chat) {
  return chat.messages_json.size() + chat.tools_json.size() + chat.template_kwargs_json.size();
}

}  // namespace

int64_t TextBytes(const Request& request, bool echo) {
  const bool twice = echo && std::holds_alternative<std::string>(request.prompt);
  size_t bytes = std::visit([](const auto& prompt) { return BytesOf(prompt); }, request.prompt);
  bytes *= twice ? 2 : 1;
  std::apply([&](const auto&... texts) { ((bytes += BytesOf(texts)), ...); }, Texts(request));
  return static_cast<int64_t>(bytes);
}

Request WithoutTexts(Request* request) {
  Request texts;
  std::swap(texts.prompt, request->prompt);
  std::swap(texts.held, request->held);
  auto taken = Texts(texts), given = Texts(*request);
  taken.swap(given);
  Request told = *request;
  std::swap(texts.prompt, request->prompt);
  std::swap(texts.held, request->held);
  taken.swap(given);
  return told;
}

}  // namespace sluice::server
