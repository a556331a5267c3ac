#include "text/detokenizer.h"

#include <algorithm>

#include "text/unicode/characters.h"

namespace sluice::text {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool render_special,
                         std::span<const TokenId> prompt_tail, std::span<const TokenId> shown)
    : tokenizer_(std::move(tokenizer)),
      render_special_(render_special),
      shown_(shown),
      at_start_(StartsText(tokenizer_.get(), prompt_tail)) {}

std::string Detokenizer::Add(TokenId id) {
  if (id < 0 || id >= tokenizer_->vocab_size()) return {};
  const bool rendered =
      render_special_ || std::find(shown_.begin(), shown_.end(), id) != shown_.end();
  if (!rendered && tokenizer_->IsSpecial(id)) return {};
  pending_ +=
      at_start_ ? tokenizer_->FirstPieceBytes(id, rendered) : tokenizer_->PieceBytes(id, rendered);
  at_start_ = false;
  std::string out;
  std::string_view left = pending_;
  while (!left.empty()) {
    Utf8Front front = ReadUtf8Front(left);
    if (front.kind == Utf8Front::Kind::kUnfinished) break;
    out += front.kind == Utf8Front::Kind::kValid ? left.substr(0, front.length)
                                                 : kReplacementCharacter;
    left.remove_prefix(front.length);
  }
  pending_.erase(0, pending_.size() - left.size());
  return out;
}

std::string Detokenizer::Finish() {
  std::string out;
  if (!pending_.empty()) out = kReplacementCharacter;
  pending_.clear();
  return out;
}

}  // namespace sluice::text
