#include "server/llama/llama_answer.h"

#include "server/http/errors.h"
#include "server/http/sse.h"
#include "server/openai/logprobs.h"

namespace sluice::server {
namespace {

// Their entries have the ids as well.
OrderedJson Probabilities(const std::vector<TokenInfo>& tokens, int top, bool names_ids) {
  const TokenNames names = names_ids ? TokenNames::kIds : TokenNames::kTexts;
  OrderedJson entries = ChatLogprobs(tokens, top, names)["content"];
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i]["id"] = tokens[i].id;
    OrderedJson& best = entries[i]["top_logprobs"];
    for (size_t k = 0; k < best.size(); ++k) best[k]["id"] = tokens[i].top[k].id;
  }
  return entries;
}

void AddSpeed(const char* kind, int tokens, double ms, OrderedJson* json) {
  const std::string name(kind);
  (*json)[name + "_n"] = tokens;
  (*json)[name + "_ms"] = ms;
  (*json)[name + "_per_token_ms"] = tokens > 0 ? ms / tokens : 0.0;
  (*json)[name + "_per_second"] = ms > 0 ? tokens * 1e3 / ms : 0.0;
}

}  // namespace

LlamaAnswer::LlamaAnswer(const ApiCall& call, AnswerHead) : call_(call) {}

OrderedJson LlamaAnswer::Piece(const std::string& text, const std::vector<TokenInfo>& tokens,
                               const Usage& usage, bool stop) const {
  OrderedJson json;
  json["index"] = 0;
  json["content"] = text;
  json["tokens"] = OrderedJson::array();
  if (call_.shows_ids) {
    for (const TokenInfo& token : tokens) json["tokens"].push_back(token.id);
  }
  json["id_slot"] = -1;  // no request has a place of its own
  json["stop"] = stop;
  json["tokens_predicted"] = usage.completion_tokens;
  json["tokens_evaluated"] = usage.prompt_tokens;
  if (call_.logprobs && !tokens.empty()) {
    json["completion_probabilities"] = Probabilities(tokens, *call_.logprobs, call_.names_ids);
  }
  return json;
}

void LlamaAnswer::AddEnd(const Choice& choice, const Usage& usage, OrderedJson* json) const {
  OrderedJson& end = *json;
  const std::string word = StopStringOf(call_, choice.stop_match);
  end["model"] = call_.model;
  end["truncated"] = false;
  end["stop_type"] = IsCut(choice.finish) ? "limit" : word.empty() ? "eos" : "word";
  end["stopping_word"] = word;
  end["tokens_cached"] = usage.cached_tokens;
  OrderedJson timings{{"cache_n", usage.cached_tokens}};
  AddSpeed("prompt", usage.prompt_tokens - usage.cached_tokens, usage.prefill_ms, &timings);
  AddSpeed("predicted", usage.completion_tokens, usage.decode_ms, &timings);
  if (const int drafts = usage.accepted_tokens + usage.rejected_tokens; drafts > 0) {
    timings["draft_n"] = drafts;
    timings["draft_n_accepted"] = usage.accepted_tokens;
  }
  AddDraftNotes(usage, &timings);
  end["timings"] = std::move(timings);
}

std::string LlamaAnswer::Whole(const std::vector<Choice>& choices, const Usage& usage) {
  const Choice& choice = choices.front();
  OrderedJson json = Piece(choice.text, choice.tokens, usage, true);
  json["has_new_line"] = choice.text.find('\n') != std::string::npos;
  AddEnd(choice, usage, &json);
  return DumpJson(json);
}

std::string LlamaAnswer::Event(int, const TextDelta& delta, Choice*) {
  const bool shows_tokens = (call_.logprobs || call_.shows_ids) && !delta.tokens.empty();
  if (delta.text.empty() && !shows_tokens) return "";
  new_line_ = new_line_ || delta.text.find('\n') != std::string::npos;
  return SseEvent(DumpJson(Piece(delta.text, delta.tokens, delta.usage, false)));
}

std::string LlamaAnswer::End(const std::vector<Choice>& choices, const Usage& usage) {
  OrderedJson json = Piece("", {}, usage, true);
  json["has_new_line"] = new_line_;
  AddEnd(choices.front(), usage, &json);
  return SseEvent(DumpJson(json));
}

std::string LlamaAnswer::Broken(const Status& status) { return SseEvent(ErrorBody(status)); }

}  // namespace sluice::server
