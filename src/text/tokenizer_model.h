// What a tokenizer's model does: one word (the output of the pre-tokenizer) to ids. Models are
// immutable; any thread may use one with a ModelState of its own. The TokenizerData that a model is
// made from must outlive it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/tokenizer_data.h"
#include "text/cancel.h"
#include "text/tokenizer_vocabulary.h"

namespace sluice::text {

// Ids of words seen before; bounded, forgets when full.
class WordCache {
 public:
  static constexpr size_t kWordBytesMax = 64;

  WordCache();
  // The ids of `word`, valid until the next Insert; false when it is not there.
  // REQUIRES: hash == HashText(word)
  bool Find(std::string_view word, uint64_t hash, std::span<const int32_t>* ids) const;
  // REQUIRES: word.size() <= kWordBytesMax
  void Insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

 private:
  struct Entry {
    uint64_t hash = 0;
    uint32_t bytes_at = 0;
    uint32_t ids_at = 0;
    uint32_t byte_count = 0;  // 0: empty
    uint32_t id_count = 0;
  };
  std::vector<Entry> entries_;
  std::string bytes_;
  std::vector<int32_t> ids_;
};

// What a model may spend on looking pieces up that overlap: the bytes that it follows in its tree
// of pieces. Published vocabularies have no pieces so long, and so many, that they meet it.
class PieceBudget {
 public:
  explicit PieceBudget(size_t text_bytes = 0);
  bool spent() const { return steps_left_ == 0; }
  // kInvalidArgument. REQUIRES: spent()
  Status Error() const;
  // False from when it is spent on, and when the work is given up.
  bool Spend(size_t steps, const Cancel& cancel) {
    const size_t before = steps_left_;
    steps_left_ -= std::min(steps, steps_left_);
    const bool looks = (before >> 12) != (steps_left_ >> 12);
    return steps_left_ > 0 && !(looks && cancel.asked());
  }

 private:
  size_t steps_max_;
  size_t steps_left_;
};

// Working memory of one thread's encoding; each model uses what it needs.
struct ModelState {
  WordCache cache;
  Cancel cancel;       // asked: a long word's ids may be missing
  PieceBudget budget;  // spent: a word's ids may be missing
  std::string text;
  // Byte-pair encoding: symbols of a word as a linked list, and the merges that wait.
  std::vector<int32_t> symbols;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> next, previous;
  std::vector<uint64_t> queue;
  // Unigram: the best way to reach each byte.
  struct Best {
    double score;
    int32_t id;
    uint32_t start;
  };
  std::vector<Best> best;
};

class TokenizerModel {
 public:
  virtual ~TokenizerModel() = default;
  // Appends the ids of `word`, which is valid UTF-8 or, in byte-level tokenizers, any bytes.
  virtual void Encode(std::string_view word, ModelState* state,
                      std::vector<int32_t>* ids) const = 0;
};

// `vocabulary` maps the pieces of `data` (of byte-level tokenizers: their bytes) to ids. kBadModel
// when merges or special ids do not fit the vocabulary.
Result<std::unique_ptr<TokenizerModel>> MakeBpeModel(const files::TokenizerData& data,
                                                     const Vocabulary& vocabulary);
Result<std::unique_ptr<TokenizerModel>> MakeUnigramModel(const files::TokenizerData& data,
                                                         const Vocabulary& vocabulary);
Result<std::unique_ptr<TokenizerModel>> MakeWordPieceModel(const files::TokenizerData& data,
                                                           const Vocabulary& vocabulary);

// Where every position of a text is compared with the pieces, their length bounds the time.
Status CheckPieceLengths(const files::TokenizerData& data);

// The ids of <0x00> .. <0xFF>; empty when one of them is missing.
std::vector<int32_t> ByteFallbackIds(const Vocabulary& vocabulary);

}  // namespace sluice::text
