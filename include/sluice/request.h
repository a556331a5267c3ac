// A request and the events that answer it, as an embedder sees them. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sluice/sampling.h"
#include "sluice/status.h"
#include "sluice/timeline.h"

namespace sluice {

using RequestId = uint64_t;

class LogitsProcessor;  // sluice/logits_processor.h

// A conversation, as OpenAI's JSON; checked for being JSON of bounded depth, interpreted by the
// model's template.
struct ChatPrompt {
  std::string messages_json;         // an array
  std::string tools_json;            // an array, or empty
  std::string template_kwargs_json;  // an object of extra template variables, or empty
  bool add_generation_prompt = true;
  // The last message, which is the assistant's, stays open, and the answer goes on with its text;
  // add_generation_prompt has no effect then.
  bool continue_final_message = false;
  // Arguments of tool calls and absent contents reach the template as it takes them, rather than as
  // they are written.
  bool adapt_history = false;
};

// What an answer is held to, but for where it is cut off.
struct Grammar {
  enum class Kind {
    kNone,        // nothing
    kJsonSchema,  // the answer is JSON without whitespace, in the order of the schema's properties
    kRegex,       // of the whole answer
    kRules,       // EBNF, as XGrammar's or llama.cpp's GBNF; the first rule is `root`
    kStructuralTag,  // XGrammar's JSON: free text whose tagged parts have grammars
  };
  Kind kind = Kind::kNone;
  std::string text;
  // Objects may hold properties that the JSON schema permits without naming any of them, too.
  bool open = false;
};

// What an answer's text is taken apart into, by the conventions of the model's family
// (EngineOptions::tool_parser and reasoning_parser). Without any of them all of it is text.
struct OutputParsing {
  bool reasoning = false;  // what the model thinks before it answers is TextDelta::reasoning
  bool tools = false;      // calls of the prompt's tools are TextDelta::tool_calls
  bool one_call = false;   // the first of these calls alone
};

// Answers are the likeliest continuations that a search finds which follows several of them (beams)
// at once, instead of one that is drawn. The search is that of transformers' generate: no lot is
// drawn, and of `sampling` nothing has an effect. What answers are held to leaves out the tokens
// that don't fit; the log-probs of those that do are the model's own, as ever.
struct BeamSearch {
  static constexpr int kWidthMax = 8;
  static constexpr int kWidthsMax = 1024;
  static constexpr int kTokensMax = 32'768;  // of an answer
  static constexpr double kLengthPenaltyMax = 10.0;
  // When to stop, of an answer's score being the sum of its log-probs over its length in tokens to
  // the power of length_penalty: once as many answers as beams have ended (`early_stopping` true);
  // once no beam is better than the worst of these by its score so far (false), or by the best one
  // that it could ever have ("never").
  enum class Stop { kEarly, kLikely, kNever };

  std::vector<int> widths;  // beams behind each token; the last one goes on. Empty: no search
  double length_penalty = 1.0;
  Stop stop = Stop::kLikely;

  bool on() const { return !widths.empty(); }
  // The most beams; as many answers are kept.
  int width() const {
    int most = 0;
    for (const int width : widths) most = width > most ? width : most;
    return most;
  }
};

// Whether the answer has to call tools of the prompt, behind what the model thinks.
struct ToolChoice {
  bool required = false;  // it is calls and nothing else
  std::string tool;       // of this one, once; empty: of any
};

struct Request {
  std::variant<std::string, std::vector<int32_t>, ChatPrompt> prompt;
  bool add_special_tokens = true;  // BOS and the like, for a text prompt
  Sampling sampling;
  int n = 1;                      // answers to one prompt
  BeamSearch beams;               // its n best answers are given, the best one first
  std::optional<int> max_tokens;  // absent: what is left of the context; 0: only score the prompt
  int min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> choice;  // the answer is one of these texts; empty: any. It wins over
                                    // ignore_eos, min_tokens and no_repeat_ngram
  Grammar grammar;                  // as `choice`, and not beside it
  std::vector<std::string> stop;    // the answer ends before the first of these
  std::vector<int32_t> stop_token_ids;
  std::string prediction;           // what the answer may quote, for --speculate; changes no answer
  bool include_stop = false;        // leave the stop string in the text
  bool skip_special_tokens = true;  // in the answer's text
  OutputParsing parsing;
  ToolChoice tool_choice;
  // Tokens that the model may think, if OutputParsing tells its thinking apart: behind these the
  // tag that ends it is drawn. Below 0 or absent: no limit but Engine::EndThinking.
  std::optional<int> thinking_budget;
  std::optional<int> logprobs;  // of the k best beside each chosen token; 0: the chosen alone
  std::optional<int> prompt_logprobs;  // the same of the prompt's tokens
  bool prompt_ids = false;             // TextDelta::prompt_ids
  // The whole distribution behind each generated token: TokenInfo::all_logprobs. It changes no
  // answer, but these are drawn without drafts. The vocabulary times max_tokens times n has a
  // limit, and so have such answers that are open at once (limits::kAllLogprobsBytesMax and
  // kAllLogprobsRowBytesMax).
  Distribution all_logprobs = Distribution::kNone;
  bool prompt_loss = false;  // the mean negative log-prob of the prompt
  bool embed = false;        // asks for a vector: TextDelta::embedding
  // Read behind a text prompt, as a pair, by a model that classifies.
  std::optional<std::string> second_text;
  std::optional<int> dimensions;  // of the vector, its first ones; absent: all
  bool truncate = false;          // to embed a text that is too long, leave its end out
  // Tokens of the text that is embedded, of a pair of its second one, behind which its end is left
  // out whether or not the model would take it; absent: no limit of its own.
  std::optional<int> text_tokens_max;
  // Changes the logits of each next token; null: nothing does.
  std::shared_ptr<LogitsProcessor> logits_processor;
  int priority = 0;        // lower runs first
  std::string cache_salt;  // prefixes are shared only among equal salts (one per API key)
  // Who sends it: prompts of several are tokenized in turns, and several that wait share the steps
  // by their weights.
  std::string client;
  int client_weight = 1;
  std::shared_ptr<Timeline> timeline;  // where to note what happens to it; null: nowhere
  // Let go of as soon as the engine keeps prompt and choice no more, which is when their ids exist.
  std::shared_ptr<void> held;
};

struct TopToken {
  int32_t id = 0;
  double logprob = 0;
  std::string bytes;  // of the token alone; may be a part of a UTF-8 character
};

struct TokenInfo {
  int32_t id = 0;
  std::string bytes;
  std::optional<double> logprob;  // of the raw logits; absent for the first prompt token
  std::vector<TopToken> top;      // best first; holds the chosen token too
  // [EngineInfo::vocab_size], by id, if Request::all_logprobs asks for them; -9999 where the
  // probability is zero.
  std::vector<float> all_logprobs;
};

// kToolCalls: a stop behind calls of tools. kTimeout: the engine never says it; who cancels a
// request at its deadline may. kAbsent: there is no such answer, since a beam search has found
// fewer that fit what they are held to than were asked for.
enum class FinishReason {
  kNone,
  kStop,
  kLength,
  kToolCalls,
  kTimeout,
  kCancelled,
  kError,
  kAbsent
};

// "stop", "length", "tool_calls", "timeout", "cancelled", "error", "absent"; "" while there is
// none.
constexpr std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
    case FinishReason::kTimeout:
      return "timeout";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
    case FinishReason::kAbsent:
      return "absent";
  }
  return "";
}

struct Usage {
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // Drafts that are a part of the answer, and those that were verified in vain. Only the former
  // count as completion tokens.
  int accepted_tokens = 0, rejected_tokens = 0;
  // EngineOptions::speculate_synthetic: above 0 drafts were taken by lot, and the text makes no
  // sense.
  double synthetic_acceptance = 0.0;
  // EngineOptions::speculate_verify: drafts counted by rejection sampling, so that the answer has
  // the right distribution, but other drafts would have given another one.
  bool verified_by_rejection = false;
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0;
};

// A piece of a call of a tool. The pieces of a call come in order, the calls one after the other.
struct ToolCallDelta {
  int index = 0;          // of the call in the answer
  std::string id, name;   // in the call's first piece alone
  std::string arguments;  // the next part of a JSON text; as the model wrote it, valid or not
};

// One event of a request. Every choice gets exactly one event with a finish reason; the event with
// `last` ends the request, and nothing follows it.
struct TextDelta {
  int choice = 0;
  std::string text;       // complete UTF-8 characters
  std::string reasoning;  // likewise, if OutputParsing asks for it
  std::vector<ToolCallDelta> tool_calls;
  std::vector<TokenInfo> tokens;         // the tokens behind this event; log-probs if asked for
  std::vector<TokenInfo> prompt_tokens;  // once, before the first text, if prompt_logprobs was set
  std::vector<int32_t> prompt_ids;       // likewise, if Request::prompt_ids asks for them
  FinishReason finish = FinishReason::kNone;
  std::string stop_match;  // the stop string or the text of the stop token that ended the choice
  bool last = false;
  int64_t at_us = 0;  // when the step behind this event had ended, by the steady clock; 0: no step
  Usage usage;        // of the whole request; complete when `last`
  uint64_t seed = 0;  // in use, given or drawn
  std::optional<double> prompt_loss;
  // With the finish of an answer that a beam search has found: the sum of its tokens' log-probs.
  std::optional<double> cumulative_logprob;
  std::vector<float> embedding;  // of a request that asks for it, with its last event
  Status error;                  // not ok: the request failed (finish is kError)
};

// Runs on a text worker and must never block. Events of one request come one at a time, in order.
using Sink = std::function<void(TextDelta&&)>;

}  // namespace sluice
