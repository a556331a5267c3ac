#include "cli/load/server_facts.h"

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/load/answer_reader.h"
#include "cli/load/lengths.h"

namespace sluice::load {
namespace {

// A number of `json` within 1 and `most`, else 0.
int NumberOf(const Json& json, const char* name, int most) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_number_integer()) return 0;
  return *found >= 1 && *found <= most ? found->get<int>() : 0;
}

Status NoServer(const Target& target, std::string_view why) {
  return Status(
      StatusCode::kUnavailable,
      StrCat("no server of OpenAI's API answers at http://", target.url.HostField(),
             target.url.prefix, "/v1/models: ", Visible(why), "; start it, or correct --url"),
      "url");
}

std::string StatusOf(const Reply& reply) {
  const std::string said = ErrorSentence(reply.body);
  return StrCat("HTTP ", reply.status, said.empty() ? "" : ": ", said);
}

}  // namespace

Result<ServerFacts> AskForFacts(const Target& target) {
  const auto reply = Exchange(target, "/v1/models", "");
  if (!reply.ok()) {
    return reply.status().code() == StatusCode::kUnavailable
               ? NoServer(target, reply.status().message())
               : reply.status();
  }
  if (reply->status != 200) return NoServer(target, StatusOf(*reply));
  const auto json = ParseJson(reply->body, "the answer");
  if (!json.ok()) return NoServer(target, json.status().message());
  const auto list = json->is_object() ? json->find("data") : json->end();
  if (!json->is_object() || list == json->end() || !list->is_array() || list->empty() ||
      !list->front().is_object() || !list->front().contains("id") ||
      !list->front()["id"].is_string()) {
    return NoServer(target, "it names no model");
  }
  const Json& model = list->front();
  ServerFacts facts;
  facts.model = model["id"].get<std::string>();
  constexpr int kTokensMax = 1 << 30;
  facts.max_model_len = NumberOf(model, "max_model_len", kTokensMax);
  if (const auto meta = model.find("meta"); meta != model.end()) {
    facts.vocab_size = NumberOf(*meta, "n_vocab", kTokensMax);
  }
  return facts;
}

Result<int> CountTokens(const Target& target, const ServerFacts& facts, const std::string& text) {
  std::string why;
  // The second form is llama-server's.
  for (const Json& body :
       {Json{{"model", facts.model}, {"prompt", text}}, Json{{"content", text}}}) {
    SLUICE_ASSIGN_OR_RETURN(const Reply reply, Exchange(target, "/tokenize", DumpJson(body)));
    const auto json = ParseJson(reply.body, "the answer");
    if (reply.status != 200 || !json.ok() || !json->is_object()) {
      why = StatusOf(reply);
      continue;
    }
    const auto tokens = json->find("tokens");
    if (tokens != json->end() && tokens->is_array() && !tokens->empty()) {
      return static_cast<int>(std::min<size_t>(tokens->size(), kLengthMax));
    }
    why = "it gives no tokens";
  }
  return Status(StatusCode::kUnavailable,
                StrCat("the server does not count tokens by /tokenize (", Visible(why),
                       "), so the lengths of the answers of --dataset are not known; give "
                       "--output-tokens"),
                "output-tokens");
}

}  // namespace sluice::load
