// WordPiece (BERT): the longest piece that fits, again and again; a word in which one fails is
// unknown as a whole.
#include "base/str_cat.h"
#include "text/tokenizer_model.h"
#include "text/tokenizer_trie.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

class WordPieceModel : public TokenizerModel {
 public:
  WordPieceModel(const files::TokenizerData& data, const Vocabulary& vocabulary)
      : unknown_id_(*data.unk_id), characters_max_(static_cast<size_t>(data.max_chars_per_word)) {
    std::vector<std::pair<std::string_view, int32_t>> first;
    std::vector<std::pair<std::string_view, int32_t>> later;
    for (size_t i = 0; i < data.pieces.size(); ++i) {
      std::string_view piece = data.pieces[i];
      auto id = static_cast<int32_t>(i);
      if (piece.empty() || vocabulary.Find(piece) != id) continue;
      first.emplace_back(piece, id);
      if (piece.starts_with(data.continuing_prefix)) {
        piece.remove_prefix(data.continuing_prefix.size());
        if (!piece.empty()) later.emplace_back(piece, id);
      }
    }
    first_ = Trie::Build(std::move(first));
    later_ = Trie::Build(std::move(later));
  }

  void Encode(std::string_view word, ModelState* state, std::vector<int32_t>* ids) const override {
    size_t begin = ids->size();
    if (CountCharacters(word) > characters_max_) {
      ids->push_back(unknown_id_);
      return;
    }
    for (size_t from = 0; from < word.size();) {
      const Trie& trie = from == 0 ? first_ : later_;
      uint32_t node = Trie::kRoot;
      int32_t best = Trie::kNoValue;
      size_t best_end = from;
      size_t to = from;
      while (to < word.size()) {
        if (!trie.Step(static_cast<unsigned char>(word[to++]), &node)) break;
        if (trie.ValueAt(node) == Trie::kNoValue) continue;
        best = trie.ValueAt(node);
        best_end = to;
      }
      if (!state->budget.Spend(to - from, state->cancel)) return;
      if (best == Trie::kNoValue) {
        ids->resize(begin);
        ids->push_back(unknown_id_);
        return;
      }
      ids->push_back(best);
      from = best_end;
    }
  }

 private:
  static size_t CountCharacters(std::string_view text) {
    size_t count = 0;
    for (char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return count;
  }

  Trie first_, later_;  // of pieces that begin a word and of those that continue one
  int32_t unknown_id_;
  size_t characters_max_;
};

}  // namespace

Result<std::unique_ptr<TokenizerModel>> MakeWordPieceModel(const files::TokenizerData& data,
                                                           const Vocabulary& vocabulary) {
  SLUICE_RETURN_IF_ERROR(CheckPieceLengths(data));
  if (!data.unk_id) return BadModel("the WordPiece tokenizer has no unknown token");
  if (data.max_chars_per_word < 1) {
    return BadModel(StrCat("the WordPiece tokenizer allows ", data.max_chars_per_word,
                           " characters per word; it must be at least 1"));
  }
  return std::unique_ptr<TokenizerModel>(std::make_unique<WordPieceModel>(data, vocabulary));
}

}  // namespace sluice::text
