// The engine as an embedder sees it; our own server uses nothing else. All calls are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/options.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

using RequestId = uint64_t;

// A conversation, as OpenAI's JSON; checked for being JSON of bounded depth, interpreted by the
// model's template.
struct ChatPrompt {
  std::string messages_json;         // an array
  std::string tools_json;            // an array, or empty
  std::string template_kwargs_json;  // an object of extra template variables, or empty
  bool add_generation_prompt = true;
  // Arguments of tool calls and absent contents reach the template as it takes them, rather than as
  // they are written.
  bool adapt_history = false;
};

struct Request {
  std::variant<std::string, std::vector<int32_t>, ChatPrompt> prompt;
  bool add_special_tokens = true;  // BOS and the like, for a text prompt
  Sampling sampling;
  int n = 1;                      // answers to one prompt
  std::optional<int> max_tokens;  // absent: what is left of the context; 0: only score the prompt
  int min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> choice;  // the answer is one of these texts; empty: any. It wins over
                                    // ignore_eos, min_tokens and no_repeat_ngram
  std::vector<std::string> stop;    // the answer ends before the first of these
  std::vector<int32_t> stop_token_ids;
  std::string prediction;           // what the answer may quote, for --speculate; changes no answer
  bool include_stop = false;        // leave the stop string in the text
  bool skip_special_tokens = true;  // in the answer's text
  std::optional<int> logprobs;      // of the k best beside each chosen token; 0: the chosen alone
  std::optional<int> prompt_logprobs;  // the same of the prompt's tokens
  bool prompt_loss = false;            // the mean negative log-prob of the prompt
  int priority = 0;                    // lower runs first
  std::string cache_salt;  // prefixes are shared only among equal salts (one per API key)
  std::string client;      // who sends it; prompts of several are tokenized in turns
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
};

enum class FinishReason { kNone, kStop, kLength, kCancelled, kError };

// "stop", "length", "cancelled", "error"; "" while there is none.
constexpr std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

struct Usage {
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // Drafts that are a part of the answer, and those that were verified in vain. Only the former
  // count as completion tokens.
  int accepted_tokens = 0, rejected_tokens = 0;
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0;
};

// One event of a request. Every choice gets exactly one event with a finish reason; the event with
// `last` ends the request, and nothing follows it.
struct TextDelta {
  int choice = 0;
  std::string text;                      // complete UTF-8 characters
  std::vector<TokenInfo> tokens;         // the tokens behind this event; log-probs if asked for
  std::vector<TokenInfo> prompt_tokens;  // once, before the first text, if prompt_logprobs was set
  FinishReason finish = FinishReason::kNone;
  std::string stop_match;  // the stop string or the text of the stop token that ended the choice
  bool last = false;
  int64_t at_us = 0;  // when the step behind this event had ended, by the steady clock; 0: no step
  Usage usage;        // of the whole request; complete when `last`
  uint64_t seed = 0;  // in use, given or drawn
  std::optional<double> prompt_loss;
  Status error;  // not ok: the request failed (finish is kError)
};

// Runs on a text worker and must never block. Events of one request come one at a time, in order.
using Sink = std::function<void(TextDelta&&)>;

struct EngineInfo {
  std::string model_name, architecture, device, isa, quantization;
  std::string device_id;  // as --device names it: "cuda:0"
  // One line for people each: which device and why, what takes how much of its memory and which
  // share of what was free that is, and the kernels that were chosen.
  std::string device_reason, memory, kernels;
  std::vector<std::string> backends;  // in this program: "cpu", ...
  int max_model_len = 0, vocab_size = 0, threads = 0;
  int64_t parameters = 0, weight_bytes = 0, kv_bytes = 0, kv_blocks = 0, kv_free_blocks = 0;
  int block_size = 0, max_num_seqs = 0;
  int64_t running = 0, waiting = 0, steps = 0;
  double load_ms = 0;
  // By the device's clock, since Open: in steps, and between one step and the next. Zeros unless
  // EngineOptions::time_steps asks for them and the device works while the host goes on.
  double device_busy_s = 0, device_idle_s = 0;
  bool has_chat_template = false;
  Sampling sampling_defaults;  // what the model itself says; unset where it says nothing
};

struct EngineHealth {
  bool ok = false;     // the step loop proves progress
  bool ready = false;  // accepts requests: loaded, not draining, not paused
  std::string reason;  // when not ok or not ready
};

// The parts that need no weights. Work whose `cancelled` is not null ends with kCancelled soon
// after that has become true.
class TextModel {
 public:
  virtual ~TextModel() = default;
  // `path`: a model, a vocabulary-only GGUF, a tokenizer.json, or (to render) a .jinja file.
  static Result<std::unique_ptr<TextModel>> Open(const std::string& path);

  virtual Result<std::vector<int32_t>> Tokenize(
      const std::string& text, bool add_special, bool parse_special,
      const std::atomic<bool>* cancelled = nullptr) const = 0;
  virtual Result<std::string> Detokenize(const std::vector<int32_t>& ids, bool skip_special,
                                         const std::atomic<bool>* cancelled = nullptr) const = 0;
  // kInvalidArgument when the template refuses the conversation. `now`: YYYY-MM-DDTHH:MM:SS or
  // empty.
  virtual Result<std::string> RenderChat(const ChatPrompt& chat, const std::string& now,
                                         const std::atomic<bool>* cancelled = nullptr) const = 0;
};

class Engine : public TextModel {
 public:
  // Loads the model. `progress(done, total)` counts bytes of weights; may be empty.
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options,
                                              std::function<void(int64_t, int64_t)> progress);

  // Checks the request and puts it in the queue. Prompts are tokenized on a text worker, so some
  // errors (kTooLarge: too long for the context; refused by the template) arrive as the only event.
  // After an error here the sink is never called.
  virtual Result<RequestId> Submit(Request request, Sink sink) = 0;
  // Ends it within a step; its last event says kCancelled. Unknown ids are ignored.
  virtual void Cancel(RequestId id) = 0;

  virtual EngineInfo Info() const = 0;
  virtual EngineHealth Health() const = 0;
  // Prometheus text of the engine's metrics.
  virtual std::string Metrics() const = 0;
  // Refuses new requests (kUnavailable) and waits for the rest; cancels what is left at the
  // deadline.
  virtual Status Drain(double seconds_max) = 0;
  virtual Status Pause() = 0;  // running requests keep their place; nothing steps
  virtual Status Resume() = 0;
  // A command of /admin as JSON ({"command": "cache_flush"}), answered as JSON.
  virtual Result<std::string> Admin(const std::string& command_json) = 0;
};

}  // namespace sluice
