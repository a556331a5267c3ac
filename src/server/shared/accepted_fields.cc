#include "server/shared/accepted_fields.h"

#include <algorithm>

#include "base/str_cat.h"

namespace sluice::server {
namespace {

constexpr size_t kAcceptedTextBytesMax = 4096;

struct AcceptedField {
  FieldPlace place;
  const char* name;
  const char* types;  // of a JSON schema, with spaces between
};

constexpr AcceptedField kAccepted[] = {
    // OpenAI's, which name users and shape its own caches and storage.
    {FieldPlace::kRequest, "user", "string"},
    {FieldPlace::kRequest, "service_tier", "string"},
    {FieldPlace::kRequest, "safety_identifier", "string"},
    {FieldPlace::kRequest, "prompt_cache_key", "string"},
    {FieldPlace::kRequest, "prompt_cache_retention", "string"},
    {FieldPlace::kRequest, "store", "boolean"},
    {FieldPlace::kRequest, "metadata", "object"},
    // vLLM's and SGLang's.
    {FieldPlace::kRequest, "request_id", "string"},
    {FieldPlace::kRequest, "session_id", "string"},
    {FieldPlace::kRequest, "guided_decoding_backend", "string"},
    // llama.cpp's: where it computes, what it reports, and the tuning of samplers whose switch
    // below has to be off.
    {FieldPlace::kRequest, "cache_prompt", "boolean"},
    {FieldPlace::kRequest, "id_slot", "integer"},
    {FieldPlace::kRequest, "timings_per_token", "boolean"},
    {FieldPlace::kRequest, "return_progress", "boolean"},
    {FieldPlace::kRequest, "mirostat_tau", "number"},
    {FieldPlace::kRequest, "mirostat_eta", "number"},
    {FieldPlace::kRequest, "dry_base", "number"},
    {FieldPlace::kRequest, "dry_allowed_length", "integer"},
    {FieldPlace::kRequest, "dry_penalty_last_n", "integer"},
    {FieldPlace::kRequest, "dry_sequence_breakers", "array"},
    {FieldPlace::kRequest, "xtc_threshold", "number"},
    {FieldPlace::kRequest, "dynatemp_exponent", "number"},
    {FieldPlace::kLlamaRequest, "n_keep", "integer"},
    // These steer its sampling, and have no counterpart here.
    {FieldPlace::kLlamaRequest, "min_keep", "integer"},
    {FieldPlace::kLlamaRequest, "penalize_nl", "boolean"},
    // Ollama's.
    {FieldPlace::kRequest, "keep_alive", "string number"},
    // A mark for the cache of a service, at which OpenRouter takes it for the whole request.
    {FieldPlace::kRequest, "cache_control", "object"},
    {FieldPlace::kStreamOptions, "include_obfuscation", "boolean"},
    {FieldPlace::kStreamOptions, "continuous_usage_stats", "boolean"},
    // What agents keep in a history: their own names, marks for Anthropic's cache, what OpenAI's
    // answers have beside the text.
    {FieldPlace::kMessage, "id", "string"},
    {FieldPlace::kMessage, "cache_control", "object"},
    {FieldPlace::kMessage, "refusal", "string"},
    {FieldPlace::kMessage, "annotations", "array"},
    {FieldPlace::kPart, "cache_control", "object"},
    {FieldPlace::kTool, "cache_control", "object"},
    // What GLM's and Kimi's own services do with the thinking of earlier turns, which here the
    // template decides.
    {FieldPlace::kThinking, "clear_thinking", "boolean"},
    {FieldPlace::kThinking, "keep", "string"},
    // Anthropic's: what names users, marks its cache, and shapes its own service.
    {FieldPlace::kAnthropicRequest, "betas", "array"},
    {FieldPlace::kAnthropicRequest, "billing_policy", "object"},
    {FieldPlace::kAnthropicRequest, "fallback_credit_token", "string"},
    {FieldPlace::kAnthropicRequest, "fallbacks", "array string"},
    {FieldPlace::kAnthropicRequest, "metadata", "object"},
    {FieldPlace::kAnthropicRequest, "cache_control", "object"},
    {FieldPlace::kAnthropicRequest, "diagnostics", "object"},
    {FieldPlace::kAnthropicRequest, "inference_geo", "string"},
    {FieldPlace::kAnthropicRequest, "service_tier", "string"},
    {FieldPlace::kAnthropicRequest, "speed", "string"},
    {FieldPlace::kAnthropicRequest, "user_profile_id", "string"},
    {FieldPlace::kAnthropicBlock, "cache_control", "object"},
    {FieldPlace::kAnthropicBlock, "citations", "array"},
    {FieldPlace::kAnthropicBlock, "caller", "object"},
    {FieldPlace::kAnthropicTool, "cache_control", "object"},
    {FieldPlace::kAnthropicTool, "allowed_callers", "array"},
    {FieldPlace::kAnthropicTool, "eager_input_streaming", "boolean"},
    {FieldPlace::kAnthropicTool, "input_examples", "array"},
    // Ollama's: how it loads a model, and the tuning of samplers whose switch below has to be off.
    {FieldPlace::kOllamaRequest, "truncate", "boolean"},
    {FieldPlace::kOllamaRequest, "shift", "boolean"},
    {FieldPlace::kOllamaOptions, "num_ctx", "integer"},
    {FieldPlace::kOllamaOptions, "num_batch", "integer"},
    {FieldPlace::kOllamaOptions, "num_gpu", "integer"},
    {FieldPlace::kOllamaOptions, "main_gpu", "integer"},
    {FieldPlace::kOllamaOptions, "num_thread", "integer"},
    {FieldPlace::kOllamaOptions, "num_keep", "integer"},
    {FieldPlace::kOllamaOptions, "numa", "boolean"},
    {FieldPlace::kOllamaOptions, "low_vram", "boolean"},
    {FieldPlace::kOllamaOptions, "f16_kv", "boolean"},
    {FieldPlace::kOllamaOptions, "vocab_only", "boolean"},
    {FieldPlace::kOllamaOptions, "use_mmap", "boolean"},
    {FieldPlace::kOllamaOptions, "use_mlock", "boolean"},
    {FieldPlace::kOllamaOptions, "logits_all", "boolean"},
    {FieldPlace::kOllamaOptions, "embedding_only", "boolean"},
    {FieldPlace::kOllamaOptions, "penalize_newline", "boolean"},  // as penalize_nl above
    {FieldPlace::kOllamaOptions, "mirostat_tau", "number"},
    {FieldPlace::kOllamaOptions, "mirostat_eta", "number"},
    // Those of OpenAI's responses.
    {FieldPlace::kResponsesRequest, "metadata", "object"},
    {FieldPlace::kResponsesRequest, "user", "string"},
    {FieldPlace::kResponsesRequest, "safety_identifier", "string"},
    {FieldPlace::kResponsesRequest, "service_tier", "string"},
    {FieldPlace::kResponsesRequest, "prompt_cache_key", "string"},
    {FieldPlace::kResponsesRequest, "prompt_cache_retention", "string"},
    {FieldPlace::kResponsesRequest, "prompt_cache_options", "object"},
    {FieldPlace::kResponsesRequest, "access_programs", "object"},
    {FieldPlace::kDecisionsRequest, "safety_identifier", "string"},
    {FieldPlace::kDecisionsRequest, "prompt_cache_key", "string"},
    {FieldPlace::kDecisionsRequest, "prompt_cache_options", "object"},
    {FieldPlace::kResponsesItem, "id", "string"},
    {FieldPlace::kResponsesItem, "status", "string"},
    {FieldPlace::kResponsesItem, "phase", "string"},
    {FieldPlace::kResponsesItem, "caller", "object"},
    {FieldPlace::kResponsesPart, "annotations", "array"},
    {FieldPlace::kResponsesPart, "prompt_cache_breakpoint", "object"},
    {FieldPlace::kResponsesPart, "logprobs", "array"},
    {FieldPlace::kResponsesTool, "allowed_callers", "array"},
    {FieldPlace::kResponsesTool, "output_schema", "object"},
    {FieldPlace::kResponsesReasoning, "summary", "string"},
    {FieldPlace::kResponsesReasoning, "generate_summary", "string"},
    {FieldPlace::kResponsesReasoning, "context", "string"},
};

struct NeutralField {
  FieldPlace place;
  const char* name;
  const char* value;  // as JSON, the only one beside null
};

constexpr NeutralField kNeutral[] = {
    {FieldPlace::kRequest, "typical_p", "1"},
    {FieldPlace::kRequest, "tfs_z", "1"},
    {FieldPlace::kRequest, "top_n_sigma", "-1"},
    {FieldPlace::kRequest, "mirostat", "0"},
    {FieldPlace::kRequest, "dry_multiplier", "0"},
    {FieldPlace::kRequest, "xtc_probability", "0"},
    {FieldPlace::kRequest, "dynatemp_range", "0"},
    {FieldPlace::kRequest, "spaces_between_special_tokens", "true"},
    {FieldPlace::kRequest, "bad_words", "[]"},
    {FieldPlace::kRequest, "allowed_token_ids", "null"},
    {FieldPlace::kRequest, "logits_processors", "null"},
    {FieldPlace::kRequest, "truncate_prompt_tokens", "null"},
    {FieldPlace::kRequest, "guided_whitespace_pattern", "null"},
    {FieldPlace::kAnthropicRequest, "container", "null"},
    {FieldPlace::kAnthropicRequest, "compaction", "null"},
    {FieldPlace::kAnthropicRequest, "thread", "null"},
    {FieldPlace::kAnthropicRequest, "mcp_servers", "[]"},
    {FieldPlace::kAnthropicBlock, "toolset_name", "null"},
    {FieldPlace::kAnthropicTool, "defer_loading", "false"},
    {FieldPlace::kResponsesRequest, "background_options", "null"},
    {FieldPlace::kResponsesRequest, "context_management", "null"},
    {FieldPlace::kResponsesRequest, "conversation", "null"},
    {FieldPlace::kResponsesRequest, "image", "null"},
    {FieldPlace::kResponsesRequest, "max_tool_calls", "null"},
    {FieldPlace::kResponsesRequest, "moderation", "null"},
    {FieldPlace::kResponsesRequest, "prompt", "null"},
    {FieldPlace::kResponsesRequest, "top_logprobs", "0"},
    {FieldPlace::kResponsesRequest, "truncation", "\"disabled\""},
    {FieldPlace::kResponsesItem, "namespace", "null"},
    {FieldPlace::kResponsesItem, "async", "false"},
    {FieldPlace::kResponsesTool, "async", "false"},
    {FieldPlace::kResponsesTool, "defer_loading", "false"},
    {FieldPlace::kResponsesReasoning, "mode", "\"standard\""},
    {FieldPlace::kOllamaOptions, "mirostat", "0"},
    {FieldPlace::kOllamaOptions, "tfs_z", "1"},
    {FieldPlace::kOllamaOptions, "typical_p", "1"},
    {FieldPlace::kOllamaMessage, "images", "[]"},
    {FieldPlace::kLlamaRequest, "n_indent", "0"},
    {FieldPlace::kLlamaRequest, "t_max_predict_ms", "0"},
    {FieldPlace::kLlamaRequest, "t_max_prompt_ms", "0"},
    {FieldPlace::kLlamaRequest, "samplers", "null"},
    {FieldPlace::kLlamaRequest, "post_sampling_probs", "false"},
    {FieldPlace::kLlamaRequest, "response_fields", "[]"},
    {FieldPlace::kLlamaRequest, "lora", "[]"},
    {FieldPlace::kMessage, "audio", "null"},
    {FieldPlace::kMessage, "function_call", "null"},
};

bool IsOfType(const OrderedJson& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "array") return value.is_array();
  return value.is_object();
}

template <class Visitor>
void ForEachWord(std::string_view words, Visitor&& visit) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    visit(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

void ReadOne(Fields* fields, const AcceptedField& field) {
  const OrderedJson* value = fields->Any(field.name);
  if (value == nullptr) return;
  bool right = false;
  std::string wanted;
  ForEachWord(field.types, [&](std::string_view type) {
    right = right || IsOfType(*value, type);
    wanted +=
        StrCat(wanted.empty() ? "" : " or ", type.find_first_of("aeiou") == 0 ? "an " : "a ", type);
  });
  if (!right) {
    fields->WrongType(field.name, *value, wanted);
  } else if (value->is_string()) {
    fields->String(field.name, kAcceptedTextBytesMax);
  }
}

}  // namespace

void ReadAccepted(Fields* fields, FieldPlace place) {
  for (const AcceptedField& field : kAccepted) {
    if (field.place == place) ReadOne(fields, field);
  }
  for (const NeutralField& field : kNeutral) {
    if (field.place == place) fields->OnlyValue(field.name, OrderedJson::parse(field.value));
  }
}

std::string AcceptedSchema(FieldPlace place) {
  std::string out;
  const auto add = [&out](const char* name, const std::string& schema) {
    out += StrCat(out.empty() ? "" : ",\n        ", "\"", name, "\": {", schema, "}");
  };
  for (const AcceptedField& field : kAccepted) {
    if (field.place != place) continue;
    std::string types;
    ForEachWord(field.types,
                [&types](std::string_view type) { types += StrCat("\"", type, "\", "); });
    add(field.name, StrCat("\"type\": [", types, R"("null"], "description": "Without effect")"));
  }
  for (const NeutralField& field : kNeutral) {
    const bool null = field.value == std::string_view("null");
    if (field.place == place) {
      add(field.name, StrCat("\"enum\": [", field.value, null ? "]" : ", null]"));
    }
  }
  return out;
}

}  // namespace sluice::server
