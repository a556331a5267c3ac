// The numbers that steer how a token is drawn. Each stands here once, with its name, range and
// meaning: the engine's check, the HTTP fields and their schema, the command line, the readers of
// generation_config.json and GGUF, the plan of a step and the sampler's rows all read this list.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/limits.h"

namespace sluice {

struct SamplingField {
  std::string_view name;   // of the JSON field; with dashes, of the flag
  limits::Range range;     // of whole numbers, both ends count
  double otherwise = 0;    // where neither the request nor the model says more: OpenAI's default
  bool in_model = false;   // a model's generation_config.json may set it, by the same name
  std::string_view gguf;   // its key in a GGUF file, or none
  std::string_view alias;  // another JSON name, as llama.cpp spells it, or none; a flag's, too
  std::string_view flag_alias;             // another name of the flag alone, likewise
  std::string_view flag_help;              // without it the terminal's commands have no such flag
  std::optional<double> terminal_default;  // what those take instead of `otherwise`
  std::optional<double> neutral_to;        // values up to this one change no draw by lot, either
  bool in_response = false;                // OpenAI's Response object repeats what was asked for
};

// Whether a value leaves the lot as the softmax of the logits has it, or draws none.
constexpr bool IsNeutral(const SamplingField& field, double value) {
  return value == field.otherwise || (field.neutral_to && value <= *field.neutral_to);
}

// What a request asks for, what a model itself says, or what a command was given. Unset values take
// the model's generation_config, then OpenAI's defaults.
struct Sampling {
  std::optional<double> temperature;  // 0: greedy
  std::optional<int> top_k;           // <= 0: off
  std::optional<double> top_p, min_p, repetition_penalty;
  std::optional<double> presence_penalty, frequency_penalty;
  std::optional<int> no_repeat_ngram;
  std::optional<uint64_t> seed;  // one is drawn and returned where there is none
  std::vector<std::pair<int32_t, double>> logit_bias;
};

// Which of a token's distributions is told whole, as log-probs.
enum class Distribution : uint8_t {
  kNone,
  kRaw,       // the softmax of the logits, before all that steers the answer
  kFiltered,  // what the token is drawn from: behind bias, penalties, masks, temperature, top-k,
              // top-p and min-p, renormalised; of a greedy one all lies on one id
};

namespace sampling_fields {

// No wider than an int, which is what files and requests give.
inline constexpr limits::Range kAnyInt = {-2147483648.0, 2147483647.0};

inline constexpr SamplingField kTemperature = {.name = "temperature",
                                               .range = {0, 100},
                                               .otherwise = 1,
                                               .in_model = true,
                                               .gguf = "general.sampling.temp",
                                               .flag_alias = "temp",
                                               .flag_help = "0: greedy",
                                               .terminal_default = 0.7,
                                               .neutral_to = 0,
                                               .in_response = true};
inline constexpr SamplingField kTopP = {.name = "top_p",
                                        .range = {0, 1, /*above_low=*/true},
                                        .otherwise = 1,
                                        .in_model = true,
                                        .gguf = "general.sampling.top_p",
                                        .flag_help = "draw from the likeliest tokens of this sum",
                                        .terminal_default = 0.95,
                                        .in_response = true};
inline constexpr SamplingField kTopK = {.name = "top_k",
                                        .range = kAnyInt,
                                        .otherwise = 0,
                                        .in_model = true,
                                        .gguf = "general.sampling.top_k",
                                        .flag_help = "draw from so many tokens; 0: from all",
                                        .terminal_default = 40,
                                        .neutral_to = 0};
inline constexpr SamplingField kMinP = {
    .name = "min_p",
    .range = {0, 1},
    .otherwise = 0,
    .in_model = true,
    .gguf = "general.sampling.min_p",
    .flag_help = "leave out what is below this part of the best",
    .terminal_default = 0.05};
inline constexpr SamplingField kRepetitionPenalty = {.name = "repetition_penalty",
                                                     .range = {0.01, 100},
                                                     .otherwise = 1,
                                                     .in_model = true,
                                                     .gguf = "general.sampling.penalty_repeat",
                                                     .alias = "repeat_penalty",
                                                     .flag_help = "above 1: repeats less"};
inline constexpr SamplingField kPresencePenalty = {.name = "presence_penalty", .range = {-2, 2}};
inline constexpr SamplingField kFrequencyPenalty = {.name = "frequency_penalty", .range = {-2, 2}};
inline constexpr SamplingField kNoRepeatNgram = {.name = "no_repeat_ngram_size",
                                                 .range = {0, 1024}};
// Any of 64 bits. It steers no distribution: it is which of its draws comes.
inline constexpr SamplingField kSeed = {
    .name = "seed", .range = {0, 18446744073709551615.0}, .flag_help = "for the same answer again"};

}  // namespace sampling_fields

namespace internal {

// What shapes a draw within the kernels.
template <class Visitor, class... Structs>
void ForEachShape(Visitor&& visit, Structs&&... structs) {
  visit(sampling_fields::kTemperature, structs.temperature...);
  visit(sampling_fields::kTopP, structs.top_p...);
  visit(sampling_fields::kTopK, structs.top_k...);
  visit(sampling_fields::kMinP, structs.min_p...);
  visit(sampling_fields::kRepetitionPenalty, structs.repetition_penalty...);
  visit(sampling_fields::kPresencePenalty, structs.presence_penalty...);
  visit(sampling_fields::kFrequencyPenalty, structs.frequency_penalty...);
}

}  // namespace internal

// Calls visit(field, value of that field in each struct...) for those that the kernels read in a
// row. The structs are Sampling, batch::SamplingParams and ops::SampleRow.
template <class Visitor, class... Structs>
void ForEachRowField(Visitor&& visit, Structs&&... structs) {
  internal::ForEachShape(visit, structs...);
  visit(sampling_fields::kSeed, structs.seed...);
}

// The same for all that shape a draw; those that are no row's reach the kernels as edits of logits.
template <class Visitor, class... Structs>
void ForEachSamplingField(Visitor&& visit, Structs&&... structs) {
  internal::ForEachShape(visit, structs...);
  visit(sampling_fields::kNoRepeatNgram, structs.no_repeat_ngram...);
}

// The same for all that a request says by one number.
template <class Visitor, class... Structs>
void ForEachRequestField(Visitor&& visit, Structs&&... structs) {
  ForEachSamplingField(visit, structs...);
  visit(sampling_fields::kSeed, structs.seed...);
}

// One of the structs of ForEachRowField, made to draw the likeliest tokens.
template <class Struct>
[[nodiscard]] Struct Greedy(Struct made) {
  made.temperature = 0;
  return made;
}

}  // namespace sluice
