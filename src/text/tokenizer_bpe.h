// Byte-pair encoding, over bytes or characters. See TokenizerModel in text/tokenizer_model.h.
//
// A word starts as its bytes or characters; then the neighbouring pair of lowest rank (leftmost
// among equals) is merged until no pair is left that has one. Short words are merged by looking for
// the best pair in a small array, long ones by a heap over a linked list: O(n log n).
#pragma once

#include <array>

#include "text/tokenizer_merges.h"
#include "text/tokenizer_model.h"
#include "text/unicode/characters.h"

namespace sluice::text {

class BpeModel : public TokenizerModel {
 public:
  static Result<std::unique_ptr<TokenizerModel>> Make(const files::TokenizerData& data,
                                                      const Vocabulary& vocabulary);
  void Encode(std::string_view word, ModelState* state, std::vector<int32_t>* ids) const override;

 private:
  static constexpr uint32_t kNoRank = Merge::kNoRank;

  explicit BpeModel(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  Status AddMerges(const files::TokenizerData& data);
  Status AddMergesOfPieces(const files::TokenizerData& data);
  void FindCharacters(const files::TokenizerData& data);
  void FindJoins(const files::TokenizerData& data);

  void EncodeWord(std::string_view word, ModelState* state, std::vector<int32_t>* ids) const;
  void SplitWord(std::string_view word, ModelState* state) const;
  void AddCharacter(std::string_view character, int32_t id, bool* unknown_open,
                    ModelState* state) const;
  void MergeShort(ModelState* state) const;
  void MergeLong(ModelState* state) const;
  int32_t CharacterId(uint32_t code_point) const {
    const auto& page = character_pages_[code_point >> 8];
    return page.empty() ? Vocabulary::kNone : page[code_point & 0xFF];
  }

  const Vocabulary& vocabulary_;
  bool byte_level_ = false;
  bool ignore_merges_ = false;
  bool fuse_unknown_ = false;
  int32_t unknown_id_ = Vocabulary::kNone;
  std::string continuing_prefix_, word_suffix_;
  std::array<int32_t, 256> byte_ids_{};                // byte-level
  std::vector<std::vector<int32_t>> character_pages_;  // by code point >> 8; others
  std::vector<int32_t> fallback_ids_;                  // empty: no byte fallback
  MergeTable merges_;
  // A text with spaces as marks falls apart where a mark follows a character that no piece holds in
  // front of a mark. Sorted; not used when splits_at_marks_ is false.
  bool splits_at_marks_ = false;
  std::vector<uint32_t> before_mark_;
};

}  // namespace sluice::text
