// Text to token ids and back. A Tokenizer is immutable after Make; any thread may call it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/tokenizer_data.h"
#include "sluice/status.h"

namespace sluice::text {

using TokenId = int32_t;

struct EncodeOptions {
  bool add_special = true;    // put the model's prefix and suffix ids (BOS, ...) around the text
  bool parse_special = true;  // special strings in the text become their tokens
  // Encode ends soon after it has more ids than this; the text's rest is then not among them.
  size_t tokens_max = SIZE_MAX;
  // Encode gives kCancelled soon after this has become true; may be null.
  const std::atomic<bool>* cancelled = nullptr;
};

class Tokenizer {
 public:
  // kBadModel when a step or a pattern of the pipeline is not known or too large.
  // REQUIRES: files::FinishTokenizer(data) is ok, as for all that files/ reads
  static Result<std::shared_ptr<const Tokenizer>> Make(files::TokenizerData data);
  virtual ~Tokenizer() = default;

  // Any bytes are accepted; bytes that are not UTF-8 become U+FFFD first. Time is bounded by
  // O(n log n) in the bytes of the text, also for one long run of a character. kInvalidArgument
  // when the tokenizer makes the text many times longer, as no published one does.
  virtual Result<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const = 0;

  // A lower bound of the ids that Encode gives, without its work: from the bytes of the text and of
  // the longest piece. 0 where the tokenizer may drop text.
  virtual size_t LeastTokens(std::string_view text) const = 0;

  // The bytes that a token adds to a text (a byte-fallback token gives its one byte). Special
  // tokens give their text if `render_special`, otherwise nothing. An id out of range gives
  // nothing.
  virtual std::string PieceBytes(TokenId id, bool render_special) const = 0;
  // The same for the first token of a text: without the leading space that encoding puts there.
  virtual std::string FirstPieceBytes(TokenId id, bool render_special) const = 0;
  virtual bool IsSpecial(TokenId id) const = 0;
  // The whole text, with the decoder's rules for the beginning (a dropped leading space); broken
  // UTF-8 becomes U+FFFD.
  virtual std::string Decode(std::span<const TokenId> ids, bool render_special) const = 0;

  virtual int vocab_size() const = 0;
  virtual const files::TokenizerData& data() const = 0;
  // The id whose piece is exactly `piece`, or -1.
  virtual TokenId Find(std::string_view piece) const = 0;
};

}  // namespace sluice::text
