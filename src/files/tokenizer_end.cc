#include "files/tokenizer_end.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace sluice::files {
namespace {

constexpr std::string_view kNames[] = {"<|eot_id|>",
                                       "<|im_end|>",
                                       "<|end|>",
                                       "<|return|>",
                                       "<|call|>",
                                       "<|flush|>",
                                       "<|calls|>",
                                       "<end_of_turn>",
                                       "<|endoftext|>",
                                       "<|eom_id|>",
                                       "<EOT>",
                                       "_<EOT>",
                                       "[EOT]",
                                       "[EOS]",
                                       "<|end_of_text|>",
                                       "<end_of_utterance>",
                                       "<turn|>",
                                       "<|tool_response>",
                                       "[e~[",
                                       "<\xEF\xBD\x9C"
                                       "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

}  // namespace

void FindEndOfGeneration(std::initializer_list<std::optional<int32_t>> declared,
                         TokenizerData* data) {
  std::set<int32_t> ends;
  bool has_return = false;
  std::optional<int32_t> end_id;
  for (const AddedToken& token : data->added_tokens) {
    if (std::find(std::begin(kNames), std::end(kNames), token.text) != std::end(kNames)) {
      ends.insert(token.id);
    }
    has_return = has_return || token.text == "<|return|>";
    if (token.text == "<|end|>") end_id = token.id;
  }
  // Where there is <|return|> (Harmony), <|end|> ends a message, not the answer.
  if (has_return && end_id) ends.erase(*end_id);
  for (const auto& id : declared) {
    if (id) ends.insert(*id);
  }
  data->end_of_generation_ids.assign(ends.begin(), ends.end());
}

}  // namespace sluice::files
