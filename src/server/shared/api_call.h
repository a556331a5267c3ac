// What a body of one of the APIs that generate asks for, checked. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/errors.h"
#include "server/shared/fields.h"
#include "sluice/engine.h"
#include "sluice/limits.h"

namespace sluice::server {

// Beside those of sluice/limits.h, which hold for every embedder.
inline constexpr int kPromptsMax = 64;
inline constexpr int kAnswersMax = 128;  // prompts x n, or x best_of
inline constexpr int kMessagesMax = 2048;
inline constexpr size_t kPartsMax = 1024;
inline constexpr size_t kToolsMax = 128;
inline constexpr size_t kContextEditsMax = 16;  // of Anthropic's context_management
inline constexpr size_t kToolBytesMax = 256u << 10;
inline constexpr size_t kToolCallsMax = 128;
inline constexpr size_t kKwargsBytesMax = 16u << 10;
inline constexpr int kPriorityMax = 100;
inline constexpr double kTimeoutSecondsMax = 86'400;
inline constexpr size_t kSaltBytesMax = 256;

struct ModelFacts {
  std::string name;
  int vocab_size = 0;
  std::vector<std::string> labels;  // of a model that classifies
  bool ids_alone = false;           // it has no tokenizer: answers are token ids, whoever asks
};

struct ApiCall {
  bool chat = false;
  ErrorForm errors = ErrorForm::kOpenAi;
  // That an error of the grammar names: the one that set it, or that of the tools which the answer
  // has to call.
  std::string grammar_field = "tools";
  std::vector<Request> requests;  // one per prompt; equal but for the prompt
  std::string model;              // as it is served
  bool stream = false;
  bool include_usage = false;       // in a stream
  bool echo = false;                // of the prompt before the answer
  std::optional<int> best_n;        // answers told of each prompt, the likeliest; absent: all
  std::optional<int> logprobs;      // best tokens shown beside each chosen one
  bool prompt_logprobs = false;     // asked for by that name
  bool shows_ids = false;           // of the answer's tokens
  bool names_ids = false;           // log-probs name a token by its id: "token_id:7"
  bool shows_reasoning = true;      // of what the model thinks before it answers
  std::optional<double> timeout_s;  // after which it ends with what has come
  std::optional<int> resume_s;      // that a stream goes on without its client
  bool background = false;          // it goes on to its end without its client; streamed
  std::string stream_id;            // of that stream; empty: it gets one of its own
  // That the model stays loaded for when nobody asks for it; below 0: for ever.
  std::optional<double> keep_alive_s;
};

// Errors are kInvalidArgument with the field's name, or kNotFound for the model.
Result<ApiCall> ParseChatCall(std::string_view body, const ModelFacts& model);
Result<ApiCall> ParseCompletionCall(std::string_view body, const ModelFacts& model);
Result<ApiCall> ParseMessagesCall(std::string_view body, const ModelFacts& model);

// The fields that a conversation has wherever it stands: messages, tools, tool_choice,
// parallel_tool_calls, chat_template_kwargs and the fields that set one of them, include_reasoning,
// add_generation_prompt, continue_final_message.
struct ChatFields {
  ChatPrompt prompt;
  OutputParsing parsing;  // of the answer
  ToolChoice tool_choice;
  bool shows_reasoning = true;
};
ChatFields ReadChatFields(Fields* fields);

// OpenAI's tool_choice: "none" (false then), "auto", "required", or a function by its name, as chat
// has it or as the responses have it.
bool ReadToolChoice(Fields* fields, ToolChoice* choice);

// The same of Anthropic's /v1/messages: messages, system, tools, tool_choice, thinking,
// output_config and context_management. Sets the prompt, the parsing and the grammar, and whether
// the answer tells what the model thinks.
void ReadAnthropicFields(Fields* fields, Request* request, bool* shows_thinking);

// The field `model`: absent, or the name that is served.
void ReadModel(Fields* fields, const ModelFacts& model);

// The fields that both kinds of call share, all but the prompt and log-probs. `default_max_tokens`:
// of a call that does not say.
void ReadShared(Fields* fields, const ModelFacts& model, std::optional<int> default_max_tokens,
                ApiCall* call, Request* request);

// use_beam_search, beam_width, length_penalty and early_stopping. REQUIRES: n is read.
void ReadBeams(Fields* fields, Request* request);

// resume_seconds. REQUIRES: the call's stream is read.
void ReadResume(Fields* fields, ApiCall* call);

// How long a request may take, by the field `timeout`, in seconds.
std::optional<double> ReadTimeout(Fields* fields);

// All that sluice/sampling.h lists.
void ReadSampling(Fields* fields, Sampling* sampling);
// llama.cpp's and Ollama's repeat_last_n, the tokens that penalties look at: 0 switches them off,
// any other number changes nothing, as penalties here look at the whole text. REQUIRES: behind
// ReadSampling.
void ReadPenaltySpan(Fields* fields, Sampling* sampling);
// The strings that end an answer, as one string or a list of them.
void ReadStops(Fields* fields, std::string_view name, Request* request);

// A list of token ids within the vocabulary.
std::vector<int32_t> ReadTokenIds(Fields* fields, std::string_view name, const OrderedJson& list,
                                  int vocab_size);

}  // namespace sluice::server
