#include "files/tokenizer_check.h"

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

Status CheckPieces(const TokenizerData& data) {
  const size_t count = data.pieces.size();
  if (count == 0) return BadModel("the tokenizer has an empty vocabulary");
  if (count > static_cast<size_t>(kVocabRange.max)) {
    return BadModel(StrCat("the tokenizer has ", count, " pieces; the limit is ", kVocabRange.max));
  }
  if (!data.scores.empty() && data.scores.size() != count) {
    return BadModel(
        StrCat("the tokenizer has ", count, " pieces but ", data.scores.size(), " scores"));
  }
  if (!data.kinds.empty() && data.kinds.size() != count) {
    return BadModel(
        StrCat("the tokenizer has ", count, " pieces but ", data.kinds.size(), " kinds"));
  }
  for (size_t id = 0; id < data.scores.size(); ++id) {
    if (!std::isfinite(data.scores[id])) {
      return BadModel(
          StrCat("the score of piece ", id, " of the tokenizer is not a finite number"));
    }
  }
  for (size_t id = 0; id < count; ++id) {
    if (!IsValidUtf8(data.pieces[id])) {
      return BadModel(StrCat("piece ", id, " of the tokenizer is not UTF-8"));
    }
  }
  return OkStatus();
}

Status CheckIds(const TokenizerData& data) {
  const size_t count = data.pieces.size();
  const auto check_id = [&](int32_t id, std::string_view what) {
    if (id >= 0 && static_cast<size_t>(id) < count) return OkStatus();
    return BadModel(
        StrCat("the tokenizer's ", what, " id ", id, " is outside its ", count, " pieces"));
  };
  const std::pair<std::optional<int32_t>, std::string_view> named[] = {{data.bos_id, "BOS"},
                                                                       {data.eos_id, "EOS"},
                                                                       {data.unk_id, "unknown"},
                                                                       {data.pad_id, "padding"}};
  for (const auto& [id, what] : named) {
    if (id) SLUICE_RETURN_IF_ERROR(check_id(*id, what));
  }
  for (int32_t id : data.prefix_ids) SLUICE_RETURN_IF_ERROR(check_id(id, "prefix"));
  for (int32_t id : data.suffix_ids) SLUICE_RETURN_IF_ERROR(check_id(id, "suffix"));
  for (int32_t id : data.end_of_generation_ids) {
    SLUICE_RETURN_IF_ERROR(check_id(id, "end-of-generation"));
  }
  for (const AddedToken& token : data.added_tokens) {
    SLUICE_RETURN_IF_ERROR(check_id(token.id, "added token"));
    if (!IsValidUtf8(token.text)) {
      return BadModel(StrCat("added token ", token.id, " of the tokenizer is not UTF-8"));
    }
  }
  return OkStatus();
}

}  // namespace

Status FinishTokenizer(const TokenizerData& data) {
  SLUICE_RETURN_IF_ERROR(CheckPieces(data));
  return CheckIds(data);
}

}  // namespace sluice::files
