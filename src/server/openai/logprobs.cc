#include "server/openai/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/str_cat.h"
#include "base/utf8.h"

namespace sluice::server {
namespace {

// OpenAI's figure for a token that cannot come; JSON has no infinity.
constexpr double kImpossible = -9999.0;

double Finite(double logprob) { return std::isfinite(logprob) ? logprob : kImpossible; }

// Length of the UTF-8 character that starts at `at`; 0 if there is no whole valid one.
size_t CharacterAt(const std::string& bytes, size_t at) {
  const Utf8Front front = ReadUtf8Front(std::string_view(bytes).substr(at));
  return front.kind == Utf8Front::Kind::kValid ? front.length : 0;
}

OrderedJson ByteList(const std::string& bytes) {
  OrderedJson list = OrderedJson::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

std::string NameOf(int32_t id, const std::string& bytes, TokenNames names) {
  return names == TokenNames::kIds ? StrCat("token_id:", id) : TokenText(bytes);
}

OrderedJson ChatEntry(int32_t id, const std::string& bytes, double logprob, TokenNames names) {
  OrderedJson entry;
  entry["token"] = NameOf(id, bytes, names);
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

OrderedJson ChatLogprobs(const std::vector<TokenInfo>& tokens, int top, TokenNames names) {
  OrderedJson content = OrderedJson::array();
  for (const TokenInfo& token : tokens) {
    OrderedJson entry =
        ChatEntry(token.id, token.bytes, token.logprob.value_or(kImpossible), names);
    OrderedJson best = OrderedJson::array();
    // The engine adds the chosen token behind the best where it is not one of them.
    for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(top); ++i) {
      const TopToken& one = token.top[i];
      best.push_back(ChatEntry(one.id, one.bytes, one.logprob, names));
    }
    entry["top_logprobs"] = std::move(best);
    content.push_back(std::move(entry));
  }
  OrderedJson json;
  json["content"] = std::move(content);
  json["refusal"] = nullptr;
  return json;
}

OrderedJson CompletionLogprobs(const std::vector<TokenInfo>& tokens, int64_t* offset,
                               TokenNames names) {
  OrderedJson texts = OrderedJson::array(), logprobs = OrderedJson::array(),
              tops = OrderedJson::array(), offsets = OrderedJson::array();
  for (const TokenInfo& token : tokens) {
    texts.push_back(NameOf(token.id, token.bytes, names));
    offsets.push_back(*offset);
    *offset += static_cast<int64_t>(CountUtf8(token.bytes));
    if (!token.logprob) {  // the first token of a prompt
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(Finite(*token.logprob));
    OrderedJson top = OrderedJson::object();
    // Tokens may share a text; the best one is kept.
    for (const TopToken& entry : token.top) {
      top.emplace(NameOf(entry.id, entry.bytes, names), Finite(entry.logprob));
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
