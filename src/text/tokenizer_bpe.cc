#include "text/tokenizer_bpe.h"

#include <algorithm>
#include <numeric>

#include "base/byte_alphabet.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::text {
namespace {

// Up to this many symbols, looking for the best pair beats a heap.
constexpr size_t kShortWord = 40;
constexpr uint32_t kEnd = UINT32_MAX;
// Symbols are counted in 32 bits, so a longer word is cut. No text that the program accepts comes
// near.
constexpr size_t kWordBytesMax = 1u << 30;
// What is put before or behind each character.
constexpr size_t kAffixBytesMax = 64;
// Sum of the squared lengths of pieces whose every cut is looked up: bounds the time of Make.
constexpr uint64_t kCutWorkMax = uint64_t{1} << 32;

bool IsMergeable(const files::TokenizerData& data, size_t id) {
  return id >= data.kinds.size() || data.kinds[id] == files::TokenKind::kNormal ||
         data.kinds[id] == files::TokenKind::kUserDefined ||
         data.kinds[id] == files::TokenKind::kUnused;
}

}  // namespace

Result<std::unique_ptr<TokenizerModel>> BpeModel::Make(const files::TokenizerData& data,
                                                       const Vocabulary& vocabulary) {
  std::unique_ptr<BpeModel> model(new BpeModel(vocabulary));
  model->byte_level_ = data.model == files::TokenizerModel::kByteBpe;
  model->ignore_merges_ = data.ignore_merges;
  model->fuse_unknown_ = data.fuse_unknown;
  if (data.unk_id) model->unknown_id_ = *data.unk_id;
  for (const std::string& affix : {data.continuing_prefix, data.word_suffix}) {
    if (affix.size() > kAffixBytesMax) {
      return BadModel(StrCat("the tokenizer's prefix or suffix of characters has ", affix.size(),
                             " bytes; the limit is ", kAffixBytesMax));
    }
  }
  model->continuing_prefix_ = data.continuing_prefix;
  model->word_suffix_ = data.word_suffix;
  if (data.byte_fallback) model->fallback_ids_ = ByteFallbackIds(vocabulary);
  model->FindCharacters(data);
  SLUICE_RETURN_IF_ERROR(data.derive_merges ? model->AddMergesOfPieces(data)
                                            : model->AddMerges(data));
  if (!model->byte_level_) model->FindJoins(data);
  return std::unique_ptr<TokenizerModel>(std::move(model));
}

Status BpeModel::AddMerges(const files::TokenizerData& data) {
  merges_ = MergeTable(data.merges.size());
  std::string left_bytes;
  std::string right_bytes;
  std::string joined;
  uint32_t rank = 0;
  for (const auto& [left, right] : data.merges) {
    std::string_view left_piece = left;
    std::string_view right_piece = right;
    if (byte_level_ && BytesOfAlphabet(left, &left_bytes)) left_piece = left_bytes;
    if (byte_level_ && BytesOfAlphabet(right, &right_bytes)) right_piece = right_bytes;
    joined = left_piece;
    joined += right_piece.starts_with(continuing_prefix_)
                  ? right_piece.substr(continuing_prefix_.size())
                  : right_piece;
    int32_t left_id = vocabulary_.Find(left_piece);
    int32_t right_id = vocabulary_.Find(right_piece);
    int32_t id = vocabulary_.Find(joined);
    if (left_id == Vocabulary::kNone || right_id == Vocabulary::kNone || id == Vocabulary::kNone) {
      return BadModel(StrCat("merge ", rank, " of the tokenizer (", Quote(left), " with ",
                             Quote(right), ") names a piece that the vocabulary lacks"));
    }
    merges_.Insert(left_id, right_id, rank++, id);
  }
  return OkStatus();
}

// The better the score of the joined piece, or without scores the lower its id, the earlier.
Status BpeModel::AddMergesOfPieces(const files::TokenizerData& data) {
  std::vector<int32_t> order;
  uint64_t work = 0;
  for (size_t id = 0; id < data.pieces.size(); ++id) {
    if (!IsMergeable(data, id)) continue;
    order.push_back(static_cast<int32_t>(id));
    work += uint64_t{data.pieces[id].size()} * data.pieces[id].size();
  }
  if (work > kCutWorkMax) {
    return BadModel("the tokenizer's pieces are too long to derive its merges from them");
  }
  auto score = [&](int32_t id) { return data.scores[static_cast<size_t>(id)]; };
  if (!data.scores.empty()) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return score(a) > score(b); });
  }
  std::vector<std::pair<std::pair<int32_t, int32_t>, std::pair<uint32_t, int32_t>>> found;
  std::string bytes;
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && (data.scores.empty() || score(order[i]) != score(order[i - 1]))) ++rank;
    std::string_view piece = data.pieces[static_cast<size_t>(order[i])];
    if (byte_level_) {
      if (!BytesOfAlphabet(piece, &bytes)) continue;
      piece = bytes;
    }
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if (!byte_level_ && (static_cast<unsigned char>(piece[cut]) & 0xC0) == 0x80) continue;
      int32_t left = vocabulary_.Find(piece.substr(0, cut));
      if (left == Vocabulary::kNone || !IsMergeable(data, static_cast<size_t>(left))) continue;
      int32_t right = vocabulary_.Find(piece.substr(cut));
      if (right == Vocabulary::kNone || !IsMergeable(data, static_cast<size_t>(right))) continue;
      found.push_back({{left, right}, {rank, order[i]}});
    }
  }
  merges_ = MergeTable(found.size());
  for (const auto& [pair, merge] : found) {
    merges_.Insert(pair.first, pair.second, merge.first, merge.second);
  }
  return OkStatus();
}

void BpeModel::FindCharacters(const files::TokenizerData& data) {
  if (byte_level_) {
    for (int byte = 0; byte < 256; ++byte) {
      char c = static_cast<char>(byte);
      byte_ids_[static_cast<size_t>(byte)] = vocabulary_.Find(std::string_view(&c, 1));
    }
    return;
  }
  character_pages_.resize(kCodePointEnd >> 8);
  for (const std::string& piece : data.pieces) {
    if (piece.empty() || Utf8Length(static_cast<unsigned char>(piece[0])) != piece.size()) continue;
    size_t offset = 0;
    uint32_t code_point = DecodeUtf8(piece, &offset);
    auto& page = character_pages_[code_point >> 8];
    if (page.empty()) page.assign(256, Vocabulary::kNone);
    page[code_point & 0xFF] = vocabulary_.Find(piece);
  }
}

void BpeModel::FindJoins(const files::TokenizerData& data) {
  size_t offset = 0;
  uint32_t mark = DecodeUtf8(kSpaceMark, &offset);
  splits_at_marks_ = CharacterId(mark) != Vocabulary::kNone && continuing_prefix_.empty() &&
                     word_suffix_.empty() && !ignore_merges_;
  for (const std::string& piece : data.pieces) {
    for (size_t at = piece.find(kSpaceMark, 1); at != std::string::npos;
         at = piece.find(kSpaceMark, at + 1)) {
      size_t before = at - 1;
      while (before > 0 && (static_cast<unsigned char>(piece[before]) & 0xC0) == 0x80) --before;
      before_mark_.push_back(DecodeUtf8(piece, &before));
    }
  }
  before_mark_.push_back(mark);
  std::sort(before_mark_.begin(), before_mark_.end());
  before_mark_.erase(std::unique(before_mark_.begin(), before_mark_.end()), before_mark_.end());
}

void BpeModel::Encode(std::string_view word, ModelState* state, std::vector<int32_t>* ids) const {
  while (word.size() > kWordBytesMax) {
    size_t cut = kWordBytesMax;
    while (!byte_level_ && (static_cast<unsigned char>(word[cut]) & 0xC0) == 0x80) --cut;
    EncodeWord(word.substr(0, cut), state, ids);
    word.remove_prefix(cut);
  }
  if (!splits_at_marks_) return EncodeWord(word, state, ids);
  size_t begin = 0;
  for (size_t at = word.find(kSpaceMark, 1); at != std::string_view::npos;
       at = word.find(kSpaceMark, at + kSpaceMark.size())) {
    size_t before = at - 1;
    while ((static_cast<unsigned char>(word[before]) & 0xC0) == 0x80) --before;
    uint32_t code_point = DecodeUtf8(word, &before);
    if (std::binary_search(before_mark_.begin(), before_mark_.end(), code_point)) continue;
    EncodeWord(word.substr(begin, at - begin), state, ids);
    begin = at;
  }
  EncodeWord(word.substr(begin), state, ids);
}

void BpeModel::EncodeWord(std::string_view word, ModelState* state,
                          std::vector<int32_t>* ids) const {
  if (word.empty()) return;
  bool cached = word.size() <= WordCache::kWordBytesMax;
  uint64_t hash = 0;
  if (cached) {
    hash = HashText(word);
    std::span<const int32_t> known;
    if (state->cache.Find(word, hash, &known)) {
      ids->insert(ids->end(), known.begin(), known.end());
      return;
    }
  }
  int32_t whole = ignore_merges_ ? vocabulary_.Find(word) : Vocabulary::kNone;
  if (whole != Vocabulary::kNone) {
    state->symbols.assign(1, whole);
  } else {
    SplitWord(word, state);
    if (state->symbols.size() <= kShortWord) {
      MergeShort(state);
    } else {
      MergeLong(state);
    }
  }
  if (cached) state->cache.Insert(word, hash, state->symbols);
  ids->insert(ids->end(), state->symbols.begin(), state->symbols.end());
}

// One character that is not of byte-level text: its id, its bytes' ids, or the unknown id.
void BpeModel::AddCharacter(std::string_view character, int32_t id, bool* unknown_open,
                            ModelState* state) const {
  if (id != Vocabulary::kNone) {
    state->symbols.push_back(id);
    *unknown_open = false;
  } else if (!fallback_ids_.empty()) {
    for (char c : character) state->symbols.push_back(fallback_ids_[static_cast<unsigned char>(c)]);
    *unknown_open = false;
  } else if (unknown_id_ != Vocabulary::kNone) {
    if (!*unknown_open || !fuse_unknown_) state->symbols.push_back(unknown_id_);
    *unknown_open = true;
  }
}

void BpeModel::SplitWord(std::string_view word, ModelState* state) const {
  state->symbols.clear();
  bool unknown_open = false;
  bool decorated = !continuing_prefix_.empty() || !word_suffix_.empty();
  for (size_t offset = 0; offset < word.size();) {
    size_t begin = offset;
    int32_t id;
    if (byte_level_) {
      id = byte_ids_[static_cast<unsigned char>(word[offset++])];
    } else {
      id = CharacterId(DecodeUtf8(word, &offset));
    }
    std::string_view character = word.substr(begin, offset - begin);
    if (decorated) {
      state->text = begin > 0 ? continuing_prefix_ : std::string();
      state->text += character;
      if (offset == word.size()) state->text += word_suffix_;
      id = vocabulary_.Find(state->text);
    }
    AddCharacter(character, id, &unknown_open, state);
  }
}

void BpeModel::MergeShort(ModelState* state) const {
  auto& symbols = state->symbols;
  size_t count = symbols.size();
  if (count < 2) return;
  Merge merges[kShortWord];
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = merges_.Find(symbols[i], symbols[i + 1]);
  for (;;) {
    size_t best = 0;
    uint32_t best_rank = kNoRank;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (merges[i].rank < best_rank) {
        best_rank = merges[i].rank;
        best = i;
      }
    }
    if (best_rank == kNoRank) break;
    symbols[best] = merges[best].id;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best + 1 < count) {
      merges[best] = merges_.Find(symbols[best], symbols[best + 1]);
    }
    if (best > 0) merges[best - 1] = merges_.Find(symbols[best - 1], symbols[best]);
    if (count < 2) break;
  }
  symbols.resize(count);
}

void BpeModel::MergeLong(ModelState* state) const {
  auto& symbols = state->symbols;
  auto& ranks = state->ranks;  // of the pair that begins at a symbol; kNoRank when dead
  auto& next = state->next;
  auto& previous = state->previous;
  auto& queue = state->queue;  // rank << 32 | position; stale where ranks[] has changed
  auto count = static_cast<uint32_t>(symbols.size());
  ranks.assign(count, kNoRank);
  next.resize(count);
  previous.resize(count);
  queue.clear();
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kEnd;
    previous[i] = i > 0 ? i - 1 : kEnd;
    if (i + 1 == count) break;
    ranks[i] = merges_.Find(symbols[i], symbols[i + 1]).rank;
    if (ranks[i] != kNoRank) queue.push_back(static_cast<uint64_t>(ranks[i]) << 32 | i);
  }
  auto later = std::greater<uint64_t>();
  std::make_heap(queue.begin(), queue.end(), later);
  auto update = [&](uint32_t at) {
    uint32_t right = next[at];
    ranks[at] = right == kEnd ? kNoRank : merges_.Find(symbols[at], symbols[right]).rank;
    if (ranks[at] == kNoRank) return;
    queue.push_back(static_cast<uint64_t>(ranks[at]) << 32 | at);
    std::push_heap(queue.begin(), queue.end(), later);
  };
  for (size_t step = 1; !queue.empty(); ++step) {
    if (state->cancel.asked_at(step)) return symbols.clear();
    std::pop_heap(queue.begin(), queue.end(), later);
    auto at = static_cast<uint32_t>(queue.back());
    auto rank = static_cast<uint32_t>(queue.back() >> 32);
    queue.pop_back();
    if (ranks[at] != rank) continue;
    uint32_t right = next[at];
    symbols[at] = merges_.Find(symbols[at], symbols[right]).id;
    ranks[right] = kNoRank;
    next[at] = next[right];
    if (next[at] != kEnd) previous[next[at]] = at;
    update(at);
    if (previous[at] != kEnd) update(previous[at]);
  }
  // The list only moves forward, so the survivors can be packed in place.
  size_t out = 0;
  for (uint32_t i = 0; i != kEnd; i = next[i]) symbols[out++] = symbols[i];
  symbols.resize(out);
}

Result<std::unique_ptr<TokenizerModel>> MakeBpeModel(const files::TokenizerData& data,
                                                     const Vocabulary& vocabulary) {
  return BpeModel::Make(data, vocabulary);
}

}  // namespace sluice::text
