// The engine as an embedder sees it; our own server uses nothing else. All calls are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/request.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

struct EngineInfo {
  std::string model_name, architecture, device, isa, quantization;
  std::string device_id;  // as --device names it: "cuda:0"
  // One line for people each: which device and why, what takes how much of its memory and which
  // share of what was free that is, and the kernels that were chosen.
  std::string device_reason, memory, kernels;
  std::vector<std::string> backends;  // in this program: "cpu", ...
  int max_model_len = 0, vocab_size = 0, threads = 0;
  std::vector<std::string>
      labels;              // of a model that classifies: an embedding has a number for each
  int embedding_size = 0;  // of a model that embeds texts; 0: it generates them
  int64_t parameters = 0, weight_bytes = 0, kv_bytes = 0, kv_blocks = 0, kv_free_blocks = 0;
  int block_size = 0, max_num_seqs = 0;
  int max_queue = 0;             // requests that may wait: EngineOptions::max_queue
  int64_t max_queue_tokens = 0;  // tokens of prompts that may: EngineOptions::max_queue_tokens
  int64_t running = 0, waiting = 0, steps = 0;
  // Tokens of prompts that steps have computed since Open, those of requests that still run and
  // what was computed again included.
  int64_t prefill_tokens = 0;
  double load_ms = 0;
  // By the device's clock, since Open: in steps, and between one step and the next. Zeros unless
  // EngineOptions::time_steps asks for them and the device works while the host goes on.
  double device_busy_s = 0, device_idle_s = 0;
  bool has_chat_template = false;
  bool ids_alone = false;             // the model has no tokenizer: it takes and gives token ids
  bool fake_balance_experts = false;  // answers mean nothing
  // How answers are taken apart (OutputParsing): a family's name or "none".
  std::string tool_parser, reasoning_parser;
  Sampling sampling_defaults;  // what the model itself says; unset where it says nothing
};

struct EngineHealth {
  bool ok = false;     // the step loop proves progress
  bool ready = false;  // accepts requests: loaded, not draining, not paused
  std::string reason;  // when not ok or not ready
};

// What a model's texts are made with; empty: it has none.
struct TokenizerInfo {
  std::string bos_token, eos_token, unk_token, pad_token;
  std::string chat_template;
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
  virtual TokenizerInfo DescribeTokenizer() const = 0;
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
  // What its answers think ends soon, as if a thinking_budget were used up. Unknown ids and answers
  // that do not think are ignored.
  virtual void EndThinking(RequestId id) = 0;

  virtual EngineInfo Info() const = 0;
  virtual EngineHealth Health() const = 0;
  // Prometheus text of the engine's metrics.
  virtual std::string Metrics() const = 0;
  // Refuses new requests (kUnavailable) and waits for the rest; cancels what is left at the
  // deadline.
  virtual Status Drain(double seconds_max) = 0;
  // A command of /admin as JSON ({"command": "cache_flush"}), answered as JSON. Between "pause" and
  // "resume" requests keep their place, and nothing steps.
  virtual Result<std::string> Admin(const std::string& command_json) = 0;
};

}  // namespace sluice
