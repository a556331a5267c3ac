#include "text/tokenizer_bound.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <unordered_set>

#include "base/byte_alphabet.h"
#include "base/seeded_hash.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

// How much shorter text becomes at most, in bytes: three Hangul letters of 3 bytes are one syllable
// of 3; a mathematical letter of 4 bytes is compatible with one of 1; the sign for kelvin has 3
// bytes, its lower case 1.
constexpr size_t kCanonicalShrink = 3;
constexpr size_t kCompatibleShrink = 4;
constexpr size_t kLowercaseShrink = 3;
// No text is so long that more would refuse it.
constexpr size_t kBoundMax = 1u << 30;

// Of byte-level pieces: the bytes that are one.
std::bitset<256> BytesThatArePieces(const files::TokenizerData& data) {
  std::bitset<256> found;
  std::string bytes;
  for (const std::string& piece : data.pieces) {
    if (BytesOfAlphabet(piece, &bytes) && bytes.size() == 1) {
      found.set(static_cast<unsigned char>(bytes[0]));
    }
  }
  return found;
}

// Whether UTF-8 has such bytes.
bool OccursInText(size_t byte) { return byte != 0xC0 && byte != 0xC1 && byte <= 0xF4; }

bool HasEveryFallback(const files::TokenizerData& data) {
  if (!data.byte_fallback) return false;
  const std::unordered_set<std::string_view, SeededTextHash> pieces(data.pieces.begin(),
                                                                    data.pieces.end());
  for (int byte = 0; byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    if (!pieces.contains(piece)) return false;
  }
  return true;
}

}  // namespace

TokenBound::TokenBound(const files::TokenizerData& data) {
  ReadPieces(data);
  ReadModel(data);
  for (const files::TextStep& step : data.normalizers) ReadNormalizer(step);
  for (const files::TextStep& step : data.pre_tokenizers) ReadPreTokenizer(step);
}

size_t TokenBound::LeastTokens(std::string_view text) const {
  if (bytes_per_token_ == 0 || text.size() < bytes_per_token_ || !IsValidUtf8(text)) return 0;
  size_t bytes = 0;
  for (size_t offset = 0; offset < text.size();) {
    size_t at = offset;
    const bool dropped = IsWhitespace(DecodeUtf8(text, &offset)) && drops_spaces_;
    for (; at < offset && !dropped; ++at) bytes += kept_[static_cast<unsigned char>(text[at])];
  }
  return bytes / bytes_per_token_;
}

void TokenBound::ReadPieces(const files::TokenizerData& data) {
  std::string bytes;
  for (const std::string& piece : data.pieces) {
    const bool spelled =
        data.model == files::TokenizerModel::kByteBpe && BytesOfAlphabet(piece, &bytes);
    bytes_per_token_ = std::max(bytes_per_token_, spelled ? bytes.size() : piece.size());
  }
  for (const files::AddedToken& token : data.added_tokens) {
    bytes_per_token_ = std::max(bytes_per_token_, token.text.size());
    drops_spaces_ = drops_spaces_ || token.left_strip || token.right_strip;
  }
}

void TokenBound::ReadModel(const files::TokenizerData& data) {
  bool keeps_all = false;
  switch (data.model) {
    case files::TokenizerModel::kByteBpe:
      // SmolLM2 lacks some control characters: they vanish.
      kept_ = BytesThatArePieces(data);
      keeps_all = true;
      for (size_t byte = 0; byte < 256 && !data.normalizers.empty(); ++byte) {
        keeps_all = keeps_all && (kept_[byte] || !OccursInText(byte));
      }
      break;
    case files::TokenizerModel::kSentencePieceBpe:
      keeps_all = HasEveryFallback(data);
      if (!keeps_all && data.unk_id && !data.fuse_unknown) {
        keeps_all = true;  // an unknown character is a token
        bytes_per_token_ = std::max(bytes_per_token_, size_t{4});
      }
      break;
    case files::TokenizerModel::kUnigram:
      keeps_all = HasEveryFallback(data);
      break;
    case files::TokenizerModel::kWordPiece:
    case files::TokenizerModel::kNone:
      break;
  }
  // Characters with an affix are looked up with it.
  const bool decorated = !data.continuing_prefix.empty() || !data.word_suffix.empty();
  if (!keeps_all || decorated) bytes_per_token_ = 0;
}

void TokenBound::ReadNormalizer(const files::TextStep& step) {
  size_t shrink = 0;
  if (step.type == "Prepend" || step.type == "ByteLevel") {
    shrink = 1;
  } else if (step.type == "Strip") {
    shrink = 1;
    drops_spaces_ = true;
  } else if (step.type == "NFC" || step.type == "NFD") {
    shrink = kCanonicalShrink;
  } else if (step.type == "NFKC" || step.type == "NFKD") {
    shrink = kCompatibleShrink;
  } else if (step.type == "Lowercase") {
    shrink = kLowercaseShrink;
  } else if (step.type == "Replace" && !step.pattern_is_regex && !step.content.empty()) {
    shrink = (step.pattern.size() + step.content.size() - 1) / step.content.size();
    shrink = std::max(shrink, size_t{1});
  }
  const bool useful = shrink > 0 && bytes_per_token_ <= kBoundMax / shrink;
  bytes_per_token_ = useful ? bytes_per_token_ * shrink : 0;
}

void TokenBound::ReadPreTokenizer(const files::TextStep& step) {
  if (step.type == "WhitespaceSplit" || step.type == "Whitespace" ||
      step.type == "BertPreTokenizer") {
    drops_spaces_ = true;
  } else if (step.type == "CharDelimiterSplit" || step.behavior == "Removed") {
    bytes_per_token_ = 0;
  }
}

}  // namespace sluice::text
