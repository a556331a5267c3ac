// The fields that chat and plain completions share: sampling, stops, lengths, streaming.
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/shared/accepted_fields.h"
#include "server/shared/api_call.h"
#include "server/shared/constraint_fields.h"
#include "server/shared/models.h"
#include "server/shared/resumable_streams.h"

namespace sluice::server {
namespace {

constexpr int kIntMax = std::numeric_limits<int>::max();
// For a share of 0, which clients send for the likeliest token alone: less than that token has in
// any vocabulary.
constexpr double kLeastShare = 1e-9;

// The value of a field that has several spellings; they may not disagree.
std::optional<int> IntOfAny(Fields* fields, std::initializer_list<std::string_view> names,
                            int low) {
  std::optional<int> first;
  std::string_view first_name;
  for (const std::string_view name : names) {
    const std::optional<int> value = fields->Int(name, low, kIntMax);
    if (!value) continue;
    if (first && *first != *value) {
      fields->Differ(name, first_name);
    }
    first = value;
    first_name = name;
  }
  return first;
}

void CheckIn(Fields* fields, std::string_view name, double value, limits::Range range) {
  const Status status = CheckRange(name, value, range);
  if (!status.ok()) fields->Fail(name, status.message());
}

// Reads a number of the type that `value` holds, in the field's range.
void ReadNumber(Fields* fields, std::string_view name, limits::Range range,
                std::optional<double>* value) {
  *value = fields->Number(name);
  if (range.above_low && *value == range.low) *value = kLeastShare;
  if (*value) CheckIn(fields, name, **value, range);
}

void ReadNumber(Fields* fields, std::string_view name, limits::Range range,
                std::optional<int>* value) {
  *value = fields->Int(name, static_cast<int>(range.low), static_cast<int>(range.high));
}

// A number of 64 bits, of either sign. -1 is how peers ask for a drawn one; other negative ones are
// taken by their bits.
void ReadNumber(Fields* fields, std::string_view name, limits::Range,
                std::optional<uint64_t>* value) {
  const OrderedJson* json = fields->Any(name);
  if (json == nullptr) return;
  if (json->is_number_unsigned()) {
    *value = json->get<uint64_t>();
    return;
  }
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  if (json->is_number_float() && std::abs(json->get<double>()) >= 0x1p62) {
    fields->Fail(name, StrCat(name, " is ", json->dump(), "; it must be an integer from ", kLow,
                              " to ", std::numeric_limits<uint64_t>::max(), ", written in digits"));
  }
  const auto number = fields->Integer(name, kLow, kHigh);
  if (number && *number != -1) *value = static_cast<uint64_t>(*number);
}

}  // namespace

void ReadSampling(Fields* fields, Sampling* sampling) {
  ForEachRequestField(
      [fields](const SamplingField& field, auto& value) {
        ReadNumber(fields, field.name, field.range, &value);
        if (field.alias.empty()) return;
        std::remove_reference_t<decltype(value)> other;
        ReadNumber(fields, field.alias, field.range, &other);
        if (other && value && *other != *value) {
          fields->Differ(field.alias, field.name);
        }
        if (other) value = other;
      },
      *sampling);
}

void ReadPenaltySpan(Fields* fields, Sampling* sampling) {
  if (fields->Int("repeat_last_n", -1, kIntMax) != 0) return;
  sampling->repetition_penalty = sampling_fields::kRepetitionPenalty.otherwise;
  sampling->presence_penalty = sampling_fields::kPresencePenalty.otherwise;
  sampling->frequency_penalty = sampling_fields::kFrequencyPenalty.otherwise;
}

namespace {

std::optional<int32_t> BiasId(const std::string& key, int vocab_size) {
  if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  // "01" beside "1" would be one id with two biases.
  if (key.size() > 1 && key[0] == '0') return std::nullopt;
  const int id = std::stoi(key);
  return id < vocab_size ? std::optional<int32_t>(id) : std::nullopt;
}

void ReadLogitBias(Fields* fields, const ModelFacts& model, Sampling* sampling) {
  const OrderedJson* biases = fields->Object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > limits::kLogitBiasesMax) {
    fields->Fail("logit_bias", StrCat("logit_bias has ", biases->size(), " entries; the limit is ",
                                      limits::kLogitBiasesMax));
    return;
  }
  for (const auto& [key, value] : biases->items()) {
    const std::optional<int32_t> id = BiasId(key, model.vocab_size);
    if (!id || !value.is_number()) {
      fields->Fail("logit_bias", StrCat("logit_bias has the entry ", Quote(key), " with ",
                                        ShownValue(value), "; each must be a token id from 0 to ",
                                        model.vocab_size - 1, " with a number"));
      return;
    }
    CheckIn(fields, "logit_bias", value.get<double>(), limits::kLogitBias);
    sampling->logit_bias.emplace_back(*id, value.get<double>());
  }
}

}  // namespace

void ReadStops(Fields* fields, std::string_view name, Request* request) {
  const OrderedJson* stop = fields->Any(name);
  if (stop == nullptr) return;
  const OrderedJson list = stop->is_string() ? OrderedJson::array({*stop}) : *stop;
  if (!list.is_array()) {
    return fields->WrongType(name, list, "a string or an array of strings");
  }
  if (list.size() > limits::kStopsMax) {
    fields->Fail(name,
                 StrCat(name, " has ", list.size(), " strings; the limit is ", limits::kStopsMax));
    return;
  }
  for (const OrderedJson& item : list) {
    const size_t bytes = item.is_string() ? item.get_ref<const std::string&>().size() : 0;
    if (bytes == 0 || bytes > limits::kStopBytesMax) {
      fields->Fail(name,
                   StrCat(name, " has an item that is ", ShownValue(item),
                          bytes == 0 ? "" : StrCat(" of ", bytes, " bytes"),
                          "; each must be a string of 1 to ", limits::kStopBytesMax, " bytes"));
      return;
    }
    request->stop.push_back(item.get<std::string>());
  }
}

namespace {

void ReadEnds(Fields* fields, const ModelFacts& model, Request* request) {
  ReadStops(fields, "stop", request);
  if (const OrderedJson* ids = fields->Array("stop_token_ids", limits::kStopIdsMax)) {
    request->stop_token_ids = ReadTokenIds(fields, "stop_token_ids", *ids, model.vocab_size);
  }
  request->include_stop = fields->Bool("include_stop_str_in_output").value_or(false);
  request->skip_special_tokens = fields->Bool("skip_special_tokens").value_or(true);
  request->ignore_eos = fields->Bool("ignore_eos").value_or(false);
}

void ReadStream(Fields* fields, ApiCall* call) {
  call->stream = fields->Bool("stream").value_or(false);
  ReadResume(fields, call);
  const OrderedJson* object = fields->Object("stream_options");
  if (object == nullptr) return;
  if (!call->stream) {
    fields->Fail("stream_options",
                 "stream_options needs stream to be true; send both, or leave stream_options out");
    return;
  }
  Fields options(*object, "stream_options.");
  call->include_usage = options.Bool("include_usage").value_or(false);
  ReadAccepted(&options, FieldPlace::kStreamOptions);
  fields->Take(options.Finish());
}

}  // namespace

std::vector<int32_t> ReadTokenIds(Fields* fields, std::string_view name, const OrderedJson& list,
                                  int vocab_size) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const OrderedJson& item : list) {
    const bool whole = item.is_number_integer() ||
                       (item.is_number() && item.get<double>() == std::floor(item.get<double>()));
    if (!whole || item.get<double>() < 0 || item.get<double>() >= vocab_size) {
      fields->Fail(name,
                   StrCat(name, " has an item that is ", ShownValue(item),
                          "; each must be a token id, an integer from 0 to ", vocab_size - 1));
      return {};
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

void ReadModel(Fields* fields, const ModelFacts& model) {
  const std::optional<std::string> asked = fields->String("model", kLongNameBytesMax);
  if (!asked || *asked == model.name) return;
  fields->Take(NotServed(*asked, Quote(model.name), "model"));
}

void ReadResume(Fields* fields, ApiCall* call) {
  call->resume_s = fields->Int("resume_seconds", 1, ResumableStreams::kSecondsMax);
  if (call->resume_s && !call->stream) {
    fields->Fail("resume_seconds", StrCat("resume_seconds is ", *call->resume_s,
                                          ", which needs stream to be true; send both"));
  }
}

std::optional<double> ReadTimeout(Fields* fields) {
  const std::optional<double> seconds = fields->Number("timeout");
  if (seconds && !(*seconds > 0 && *seconds <= kTimeoutSecondsMax)) {
    fields->Fail("timeout", StrCat("timeout is ", *seconds, "; it must be above 0 and at most ",
                                   kTimeoutSecondsMax, " seconds"));
  }
  return seconds;
}

void ReadShared(Fields* fields, const ModelFacts& model, std::optional<int> default_max_tokens,
                ApiCall* call, Request* request) {
  call->model = model.name;
  request->n = fields->Int("n", 1, limits::kChoicesMax).value_or(1);
  ReadBeams(fields, request);
  // -1 is no limit, as in llama.cpp and Ollama.
  const std::optional<int> limit =
      IntOfAny(fields, {"max_tokens", "max_completion_tokens", "n_predict"}, -1);
  request->max_tokens = limit == -1 ? std::nullopt : limit ? limit : default_max_tokens;
  request->min_tokens = IntOfAny(fields, {"min_tokens", "min_new_tokens"}, 0).value_or(0);
  request->prompt_logprobs = fields->Int("prompt_logprobs", 0, limits::kTopLogprobsMax);
  call->prompt_logprobs = request->prompt_logprobs.has_value();
  request->priority = fields->Int("priority", -kPriorityMax, kPriorityMax).value_or(0);
  request->cache_salt = fields->String("cache_salt", kSaltBytesMax).value_or("");
  ReadSampling(fields, &request->sampling);
  ReadLogitBias(fields, model, &request->sampling);
  ReadEnds(fields, model, request);
  const std::string set_by = ReadConstraint(fields, request);
  if (!set_by.empty()) call->grammar_field = set_by;
  ReadStream(fields, call);
  call->timeout_s = ReadTimeout(fields);
  request->prompt_ids = fields->Bool("return_token_ids").value_or(false);
  call->shows_ids = request->prompt_ids || model.ids_alone;
  call->names_ids = fields->Bool("return_tokens_as_token_ids").value_or(false) || model.ids_alone;
  ReadAccepted(fields, FieldPlace::kRequest);
  if (call->stream && call->prompt_logprobs) {
    fields->Fail("prompt_logprobs",
                 "prompt_logprobs is not supported while stream is true; send one of them");
  }
}

}  // namespace sluice::server
