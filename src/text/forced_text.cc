#include "text/forced_text.h"

#include <algorithm>
#include <bit>
#include <string>

namespace sluice::text {
namespace {

// Where a text is forced, what is allowed are its beginnings, and tokens that go on behind it. A
// free string allows thousands, and whether all of these begin alike need not be known.
constexpr size_t kAllowedMax = 64;

// Ends a word and a line, so that tokenizers let no token stand across it, and none of them adds
// a space behind it.
constexpr std::string_view kAnchor = "\n";

// Ascending; empty where there are more than kAllowedMax.
std::vector<TokenId> AllowedIds(std::span<const uint32_t> allowed) {
  std::vector<TokenId> ids;
  for (size_t word = 0; word < allowed.size(); ++word) {
    for (uint32_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
      if (ids.size() == kAllowedMax) return {};
      ids.push_back(static_cast<TokenId>(word * 32) + std::countr_zero(bits));
    }
  }
  return ids;
}

}  // namespace

int AgreedByte(const Tokenizer& tokenizer, std::span<const uint32_t> allowed) {
  int agreed = -1;
  for (const TokenId id : AllowedIds(allowed)) {
    const std::string bytes = tokenizer.PieceBytes(id, /*render_special=*/false);
    if (bytes.empty()) return -1;
    const int first = static_cast<unsigned char>(bytes[0]);
    if (agreed >= 0 && first != agreed) return -1;
    agreed = first;
  }
  return agreed;
}

bool AllowsLonger(const Tokenizer& tokenizer, std::span<const uint32_t> allowed, size_t bytes) {
  const std::vector<TokenId> ids = AllowedIds(allowed);
  return ids.empty() || std::any_of(ids.begin(), ids.end(), [&](TokenId id) {
           return tokenizer.PieceBytes(id, /*render_special=*/false).size() > bytes;
         });
}

std::vector<TokenId> ByteTokens(const Tokenizer& tokenizer, int vocab) {
  std::vector<TokenId> ids(256, -1);
  for (TokenId id = std::min(vocab, tokenizer.vocab_size()); id-- > 0;) {
    if (tokenizer.IsSpecial(id)) continue;
    const std::string bytes = tokenizer.PieceBytes(id, /*render_special=*/false);
    if (bytes.size() == 1) ids[static_cast<unsigned char>(bytes[0])] = id;
  }
  return ids;
}

std::vector<TokenId> EncodeInside(const Tokenizer& tokenizer, std::string_view text) {
  std::string anchored(kAnchor);
  anchored += text;
  auto ids = tokenizer.Encode(anchored, {.add_special = false, .parse_special = false});
  if (!ids.ok()) return {};
  size_t bytes = 0, first = ids->size();
  while (bytes < text.size() && first > 0) {
    bytes += tokenizer.PieceBytes((*ids)[--first], /*render_special=*/false).size();
  }
  if (bytes != text.size()) return {};
  return {ids->begin() + static_cast<int64_t>(first), ids->end()};
}

}  // namespace sluice::text
