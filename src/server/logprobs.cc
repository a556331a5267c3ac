#include "server/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "server/answer.h"

namespace sluice::server {
namespace {

// OpenAI's figure for a token that cannot come; JSON has no infinity.
constexpr double kImpossible = -9999.0;

double Finite(double logprob) { return std::isfinite(logprob) ? logprob : kImpossible; }

// Length of the UTF-8 character that starts at `at`; 0 if there is no whole valid one.
size_t CharacterAt(const std::string& bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(at);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || at + length > bytes.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies past U+10FFFF.
  if (length == 3 && lead == 0xE0 && byte(at + 1) < 0xA0) return 0;
  if (length == 3 && lead == 0xED && byte(at + 1) > 0x9F) return 0;
  if (length == 4 && lead == 0xF0 && byte(at + 1) < 0x90) return 0;
  if (length == 4 && lead == 0xF4 && byte(at + 1) > 0x8F) return 0;
  return length;
}

// Characters that begin in these bytes, whole or not.
int64_t CharacterCount(const std::string& bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

OrderedJson ByteList(const std::string& bytes) {
  OrderedJson list = OrderedJson::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

OrderedJson ChatEntry(const std::string& bytes, double logprob) {
  OrderedJson entry;
  entry["token"] = TokenText(bytes);
  entry["logprob"] = Finite(logprob);
  entry["bytes"] = ByteList(bytes);
  return entry;
}

}  // namespace

std::string TokenText(const std::string& bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t length = CharacterAt(bytes, at);
    if (length == 0) break;
    at += length;
  }
  if (at == bytes.size()) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
    text += escape;
  }
  return text;
}

OrderedJson ChatLogprobs(const std::vector<TokenInfo>& tokens, int top) {
  OrderedJson content = OrderedJson::array();
  for (const TokenInfo& token : tokens) {
    OrderedJson entry = ChatEntry(token.bytes, token.logprob.value_or(kImpossible));
    OrderedJson best = OrderedJson::array();
    // The engine adds the chosen token behind the best where it is not one of them.
    for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(top); ++i) {
      best.push_back(ChatEntry(token.top[i].bytes, token.top[i].logprob));
    }
    entry["top_logprobs"] = std::move(best);
    content.push_back(std::move(entry));
  }
  OrderedJson json;
  json["content"] = std::move(content);
  json["refusal"] = nullptr;
  return json;
}

OrderedJson CompletionLogprobs(const std::vector<TokenInfo>& tokens, int64_t* offset) {
  OrderedJson texts = OrderedJson::array(), logprobs = OrderedJson::array(),
              tops = OrderedJson::array(), offsets = OrderedJson::array();
  for (const TokenInfo& token : tokens) {
    texts.push_back(TokenText(token.bytes));
    offsets.push_back(*offset);
    *offset += CharacterCount(token.bytes);
    if (!token.logprob) {  // the first token of a prompt
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(Finite(*token.logprob));
    OrderedJson top = OrderedJson::object();
    // Tokens may share a text; the best one is kept.
    for (const TopToken& entry : token.top) {
      top.emplace(TokenText(entry.bytes), Finite(entry.logprob));
    }
    tops.push_back(std::move(top));
  }
  OrderedJson json;
  json["tokens"] = std::move(texts);
  json["token_logprobs"] = std::move(logprobs);
  json["top_logprobs"] = std::move(tops);
  json["text_offset"] = std::move(offsets);
  return json;
}

OrderedJson PromptLogprobs(const std::vector<TokenInfo>& tokens) {
  OrderedJson list = OrderedJson::array();
  for (const TokenInfo& token : tokens) {
    if (!token.logprob) {
      list.push_back(nullptr);
      continue;
    }
    OrderedJson entry = OrderedJson::object();
    const auto add = [&entry](int32_t id, double logprob, const std::string& bytes) {
      OrderedJson value;
      value["logprob"] = Finite(logprob);
      value["decoded_token"] = TokenText(bytes);
      entry.emplace(std::to_string(id), std::move(value));
    };
    for (const TopToken& top : token.top) add(top.id, top.logprob, top.bytes);
    add(token.id, *token.logprob, token.bytes);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace sluice::server
