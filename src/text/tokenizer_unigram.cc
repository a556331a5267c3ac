// Unigram (SentencePiece; Kudo 2018): the way through a word with the best sum of scores, found by
// dynamic programming over its characters.
#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "text/tokenizer_model.h"
#include "text/tokenizer_trie.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

// How much worse an unknown character is than the worst piece.
constexpr double kUnknownPenalty = 10.0;
constexpr size_t kUnigramWordBytesMax = 1u << 30;  // positions are counted in 32 bits
constexpr uint32_t kUnreached = UINT32_MAX;

class UnigramModel : public TokenizerModel {
 public:
  UnigramModel(const files::TokenizerData& data, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        scores_(data.scores.begin(), data.scores.end()),
        unknown_id_(*data.unk_id) {
    std::vector<std::pair<std::string_view, int32_t>> keys;
    for (size_t id = 0; id < data.pieces.size(); ++id) {
      std::string_view piece = data.pieces[id];
      if (piece.empty() || vocabulary.Find(piece) != static_cast<int32_t>(id)) continue;
      keys.emplace_back(piece, static_cast<int32_t>(id));
    }
    trie_ = Trie::Build(std::move(keys));
    unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
    if (data.byte_fallback) fallback_ids_ = ByteFallbackIds(vocabulary);
  }

  void Encode(std::string_view word, ModelState* state, std::vector<int32_t>* ids) const override {
    while (word.size() > kUnigramWordBytesMax) {
      size_t cut = kUnigramWordBytesMax;
      while ((static_cast<unsigned char>(word[cut]) & 0xC0) == 0x80) --cut;
      EncodeWord(word.substr(0, cut), state, ids);
      word.remove_prefix(cut);
    }
    EncodeWord(word, state, ids);
  }

 private:
  void EncodeWord(std::string_view word, ModelState* state, std::vector<int32_t>* ids) const {
    if (word.empty()) return;
    if (word.size() > WordCache::kWordBytesMax) {
      Solve(word, state, ids);
      return;
    }
    uint64_t hash = HashText(word);
    std::span<const int32_t> known;
    if (state->cache.Find(word, hash, &known)) {
      ids->insert(ids->end(), known.begin(), known.end());
      return;
    }
    size_t begin = ids->size();
    if (!Solve(word, state, ids)) return;
    state->cache.Insert(word, hash, std::span(*ids).subspan(begin));
  }

  // False, and nothing appended, where the work is given up or the budget is spent.
  bool Solve(std::string_view word, ModelState* state, std::vector<int32_t>* ids) const {
    auto& best = state->best;
    best.assign(word.size() + 1, {0.0, 0, kUnreached});
    auto offer = [&](size_t from, size_t to, double score, int32_t id) {
      double total = best[from].score + score;
      if (best[to].start != kUnreached && total <= best[to].score) return;
      best[to] = {total, id, static_cast<uint32_t>(from)};
    };
    for (size_t from = 0; from < word.size();) {
      size_t length = Utf8Length(static_cast<unsigned char>(word[from]));
      bool has_single = false;
      uint32_t node = Trie::kRoot;
      size_t to = from;
      while (to < word.size()) {
        if (!trie_.Step(static_cast<unsigned char>(word[to++]), &node)) break;
        int32_t id = trie_.ValueAt(node);
        if (id == Trie::kNoValue) continue;
        offer(from, to, scores_[static_cast<size_t>(id)], id);
        has_single = has_single || to - from == length;
      }
      if (!state->budget.Spend(to - from, state->cancel)) return false;
      if (!has_single) offer(from, from + length, unknown_score_, unknown_id_);
      from += length;
    }
    AppendPath(word, best, ids);
    return true;
  }

  // Neighbouring unknown characters are one unknown token.
  void AppendPath(std::string_view word, const std::vector<ModelState::Best>& best,
                  std::vector<int32_t>* ids) const {
    size_t begin = ids->size();
    for (size_t end = word.size(); end > 0;) {
      size_t start = best[end].start;
      if (best[end].id != unknown_id_) {
        ids->push_back(best[end].id);
        end = start;
        continue;
      }
      while (start > 0 && best[start].id == unknown_id_) start = best[start].start;
      AppendUnknown(word.substr(start, end - start), ids);
      end = start;
    }
    std::reverse(ids->begin() + static_cast<ptrdiff_t>(begin), ids->end());
  }

  // Appends back to front.
  void AppendUnknown(std::string_view text, std::vector<int32_t>* ids) const {
    int32_t id = vocabulary_.Find(text);
    if (id != Vocabulary::kNone) {
      ids->push_back(id);
    } else if (fallback_ids_.empty()) {
      ids->push_back(unknown_id_);
    } else {
      for (size_t i = text.size(); i-- > 0;) {
        ids->push_back(fallback_ids_[static_cast<unsigned char>(text[i])]);
      }
    }
  }

  const Vocabulary& vocabulary_;
  Trie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  int32_t unknown_id_;
  std::vector<int32_t> fallback_ids_;
};

}  // namespace

Result<std::unique_ptr<TokenizerModel>> MakeUnigramModel(const files::TokenizerData& data,
                                                         const Vocabulary& vocabulary) {
  if (data.scores.size() != data.pieces.size()) {
    return BadModel(StrCat("the unigram tokenizer has ", data.pieces.size(), " pieces but ",
                           data.scores.size(), " scores"));
  }
  SLUICE_RETURN_IF_ERROR(CheckPieceLengths(data));
  if (!data.unk_id) return BadModel("the unigram tokenizer has no unknown token");
  return std::unique_ptr<TokenizerModel>(std::make_unique<UnigramModel>(data, vocabulary));
}

}  // namespace sluice::text
