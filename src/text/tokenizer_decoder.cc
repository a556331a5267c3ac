#include "text/tokenizer_decoder.h"

#include <algorithm>
#include <optional>

#include "base/byte_alphabet.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

constexpr size_t kDecodedBytesMax = 1u << 30;
// Of one decoded piece. Published ones have a few hundred.
constexpr size_t kDecodedPieceBytesMax = 1u << 20;
constexpr size_t kDecoderStepsMax = 32;

// What WordPiece's clean-up joins to the word before it.
constexpr std::pair<std::string_view, std::string_view> kCleanUp[] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

// Ends when the text has grown past the limit of a piece.
void ReplaceAll(std::string_view from, std::string_view to, std::string* text) {
  size_t at = from.empty() ? std::string::npos : text->find(from);
  if (at == std::string::npos) return;
  std::string made;
  size_t done = 0;
  for (; at != std::string::npos && made.size() <= kDecodedPieceBytesMax;
       at = text->find(from, done)) {
    made.append(*text, done, at - done);
    made += to;
    done = at + from.size();
  }
  made.append(*text, done);
  *text = std::move(made);
}

// The byte of "<0xNN>".
std::optional<unsigned char> FallbackByte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  int value = 0;
  for (char c : piece.substr(3, 2)) {
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<unsigned char>(value);
}

}  // namespace

Result<TokenDecoder> TokenDecoder::Make(const files::TokenizerData& data) {
  Rules rules;
  if (data.decoders.size() > kDecoderStepsMax) {
    return BadModel(StrCat("the tokenizer has ", data.decoders.size(), " decoders; the limit is ",
                           kDecoderStepsMax));
  }
  for (const files::TextStep& step : data.decoders) SLUICE_RETURN_IF_ERROR(AddStep(step, &rules));
  if (data.decoders.empty()) rules = DefaultRules(data);
  std::vector<const files::AddedToken*> added(data.pieces.size(), nullptr);
  for (const files::AddedToken& token : data.added_tokens) {
    added[static_cast<size_t>(token.id)] = &token;
  }
  TokenDecoder made;
  made.start_ = rules.start;
  made.special_.resize(data.pieces.size());
  made.ends_.reserve(data.pieces.size());
  for (size_t id = 0; id < data.pieces.size(); ++id) {
    if (added[id] != nullptr) {
      made.special_[id] = added[id]->special;
      if (rules.word_piece) made.bytes_ += ' ';
      made.bytes_ += added[id]->text;
    } else {
      const std::string text = Decode(rules, data.pieces[id]);
      if (text.size() > kDecodedPieceBytesMax) {
        return BadModel(StrCat("piece ", id, " of the tokenizer is decoded to more than ",
                               kDecodedPieceBytesMax, " bytes"));
      }
      made.bytes_ += text;
    }
    if (made.bytes_.size() > kDecodedBytesMax) {
      return BadModel(StrCat("the tokenizer's pieces have more than ", kDecodedBytesMax, " bytes"));
    }
    made.ends_.push_back(static_cast<uint32_t>(made.bytes_.size()));
  }
  return made;
}

Status TokenDecoder::AddStep(const files::TextStep& step, Rules* rules) {
  if (step.type == "ByteLevel") {
    rules->bytes = true;
  } else if (step.type == "ByteFallback") {
    rules->fallback = true;
  } else if (step.type == "Replace" && !step.pattern_is_regex) {
    rules->replacements.emplace_back(step.pattern, step.content);
  } else if (step.type == "Metaspace") {
    rules->replacements.emplace_back(step.content.empty() ? std::string(kSpaceMark) : step.content,
                                     " ");
    if (step.behavior != "never") rules->start = Start::kDropSpaces;
  } else if (step.type == "Strip") {
    if (step.content == " " && step.Option("start", false)) rules->start = Start::kDropOneSpace;
  } else if (step.type == "WordPiece") {
    rules->word_piece = true;
    rules->prefix = step.content;
    rules->clean_up = step.Option("cleanup", true);
    rules->start = Start::kDropOneSpace;
  } else if (step.type == "BPEDecoder") {
    rules->suffix = step.content;
  } else if (step.type != "Fuse") {
    return BadModel(StrCat("the decoder ", Quote(step.type), " is not known"));
  }
  return OkStatus();
}

TokenDecoder::Rules TokenDecoder::DefaultRules(const files::TokenizerData& data) {
  Rules rules;
  switch (data.model) {
    case files::TokenizerModel::kByteBpe:
      rules.bytes = true;
      break;
    case files::TokenizerModel::kWordPiece:
      rules.word_piece = true;
      rules.clean_up = true;
      rules.prefix = data.continuing_prefix;
      rules.start = Start::kDropOneSpace;
      break;
    case files::TokenizerModel::kSentencePieceBpe:
    case files::TokenizerModel::kUnigram:
      rules.replacements.emplace_back(kSpaceMark, " ");
      rules.fallback = true;
      break;
    case files::TokenizerModel::kNone:
      break;
  }
  return rules;
}

std::string TokenDecoder::Decode(const Rules& rules, std::string_view piece) {
  std::string text;
  if (rules.bytes && BytesOfAlphabet(piece, &text)) return text;
  if (rules.fallback) {
    if (auto byte = FallbackByte(piece)) return std::string(1, static_cast<char>(*byte));
  }
  text = piece;
  for (const auto& [from, to] : rules.replacements) {
    if (text.size() > kDecodedPieceBytesMax) return text;
    ReplaceAll(from, to, &text);
  }
  if (!rules.suffix.empty()) ReplaceAll(rules.suffix, " ", &text);
  if (!rules.word_piece) return text;
  if (!rules.prefix.empty() && text.starts_with(rules.prefix)) {
    text.erase(0, rules.prefix.size());
  } else {
    text.insert(0, " ");
  }
  if (rules.clean_up) {
    for (const auto& [from, to] : kCleanUp) ReplaceAll(from, to, &text);
  }
  return text;
}

std::string_view TokenDecoder::Bytes(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= ends_.size()) return {};
  auto index = static_cast<size_t>(id);
  size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(bytes_).substr(begin, ends_[index] - begin);
}

std::string_view TokenDecoder::FirstBytes(int32_t id) const {
  std::string_view bytes = Bytes(id);
  if (start_ == Start::kDropOneSpace && bytes.starts_with(' ')) bytes.remove_prefix(1);
  while (start_ == Start::kDropSpaces && bytes.starts_with(' ')) bytes.remove_prefix(1);
  return bytes;
}

bool TokenDecoder::IsSpecial(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < special_.size() && special_[static_cast<size_t>(id)];
}

}  // namespace sluice::text
