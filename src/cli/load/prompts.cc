#include "cli/load/prompts.h"

#include <boost/random/uniform_int_distribution.hpp>

#include <iterator>

#include "base/json.h"
#include "cli/load/random_bits.h"
#include "sluice/sampling.h"

namespace sluice::load {
namespace {

constexpr std::string_view kWords[] = {
    "the",   "of",   "and",   "to",   "in",    "is",    "it",     "that",  "for",  "was",
    "on",    "are",  "as",    "with", "his",   "they",  "be",     "at",    "one",  "have",
    "this",  "from", "or",    "had",  "by",    "word",  "but",    "what",  "some", "we",
    "can",   "out",  "other", "were", "all",   "there", "when",   "up",    "use",  "your",
    "how",   "said", "an",    "each", "she",   "which", "do",     "their", "time", "if",
    "will",  "way",  "about", "many", "then",  "them",  "write",  "would", "like", "so",
    "these", "her",  "long",  "make", "thing", "see",   "him",    "two",   "has",  "look",
    "more",  "day",  "could", "go",   "come",  "did",   "number", "sound",
};

}  // namespace

std::vector<int32_t> RandomIds(int tokens, int vocab, uint64_t seed, uint32_t index) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  RandomBits bits(seed, RandomPurpose::kWords, index);
  boost::random::uniform_int_distribution<int32_t> any(0, vocab - 1);
  for (int32_t& id : ids) id = any(bits);
  return ids;
}

std::string RandomWords(int words, uint64_t seed, uint32_t index) {
  std::string text;
  for (const int32_t word : RandomIds(words, static_cast<int>(std::size(kWords)), seed, index)) {
    if (!text.empty()) text += ' ';
    text += kWords[word];
  }
  return text;
}

std::string CompletionBody(const Prompt& prompt, int output_tokens, std::string_view model) {
  Json body = {{"model", model},
               {"max_tokens", output_tokens},
               {"stream", true},
               {"ignore_eos", true},
               {"stream_options", {{"include_usage", true}}}};
  ForEachSamplingField(
      [&body](const SamplingField& field, const auto& value) {
        if (value) body[std::string(field.name)] = *value;
      },
      Greedy(Sampling{}));
  std::visit([&](const auto& one) { body["prompt"] = one; }, prompt);
  return DumpJson(body);
}

}  // namespace sluice::load
