#include "files/vocabulary_files.h"

#include <string>
#include <utility>
#include <vector>

#include "base/byte_alphabet.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "files/base64.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

constexpr JsonLimits kVocabLimits = {
    .bytes_max = 128u << 20, .depth_max = 2, .values_max = 1u << 23};

// Takes the next line, without its end.
std::string_view TakeLine(std::string_view* text) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Status TooMany() {
  return BadModel(StrCat("the tokenizer has more than ", kVocabRange.max, " pieces"));
}

}  // namespace

Status ReadVocabJson(std::string_view vocab, TokenizerData* data) {
  auto json = ParseJson(vocab, "the file", kVocabLimits);
  if (!json.ok()) return BadModel(json.status().message());
  if (!json->is_object() || json->empty()) {
    return BadModel("the file is not an object with at least one piece and its id");
  }
  std::vector<bool> taken;
  for (const auto& [piece, id] : json->items()) {
    if (!id.is_number_integer() || id < 0 || id >= kVocabRange.max) {
      return BadModel(StrCat("the piece ", Quote(piece), " has the id ", id.dump().substr(0, 40),
                             "; it must be an integer from 0 to ", kVocabRange.max - 1));
    }
    const auto index = id.get<size_t>();
    if (index >= taken.size()) taken.resize(index + 1);
    if (index >= data->pieces.size()) data->pieces.resize(index + 1);
    if (taken[index]) {
      return BadModel(StrCat("the pieces ", Quote(data->pieces[index]), " and ", Quote(piece),
                             " have one id, ", index, "; each needs one of its own"));
    }
    taken[index] = true;
    data->pieces[index] = piece;
  }
  data->model = TokenizerModel::kByteBpe;
  return OkStatus();
}

Status ReadMerges(std::string_view merges, TokenizerData* data) {
  for (size_t number = 1; !merges.empty(); ++number) {
    const std::string_view line = TakeLine(&merges);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string_view::npos) {
      return BadModel(StrCat("line ", number, " is ", Quote(line.substr(0, 80)),
                             "; it must be two pieces with a space between"));
    }
    data->merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return OkStatus();
}

Status ReadVocabText(std::string_view vocab, TokenizerData* data) {
  while (!vocab.empty()) {
    if (data->pieces.size() >= static_cast<size_t>(kVocabRange.max)) return TooMany();
    data->pieces.emplace_back(TakeLine(&vocab));
  }
  if (data->pieces.empty()) return BadModel("the file has no pieces; it needs one a line");
  data->model = TokenizerModel::kWordPiece;
  return OkStatus();
}

Status ReadTiktoken(std::string_view lines, TokenizerData* data) {
  for (size_t number = 1; !lines.empty(); ++number) {
    const std::string_view line = TakeLine(&lines);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    const auto bytes = DecodeBase64(line.substr(0, space));
    const auto id = space == std::string_view::npos ? std::nullopt
                                                    : ParseNumber<size_t>(line.substr(space + 1));
    if (!bytes || bytes->empty() || !id) {
      return BadModel(StrCat("line ", number, " is ", Quote(line.substr(0, 80)),
                             "; it must be a piece in base64, a space and its id"));
    }
    if (*id != data->pieces.size()) {
      return BadModel(StrCat("line ", number, " has the id ", *id, "; it must be ",
                             data->pieces.size(), ", as ids ascend by one"));
    }
    if (*id >= static_cast<size_t>(kVocabRange.max)) return TooMany();
    std::string& piece = data->pieces.emplace_back();
    for (const char byte : *bytes) AppendUtf8(ByteToCharacter(static_cast<uint8_t>(byte)), &piece);
  }
  if (data->pieces.empty()) return BadModel("the file has no pieces; it needs one a line");
  data->model = TokenizerModel::kByteBpe;
  data->derive_merges = data->ignore_merges = true;
  return OkStatus();
}

}  // namespace sluice::files
