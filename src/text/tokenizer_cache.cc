#include <cstdio>

#include "base/str_cat.h"
#include "text/tokenizer_model.h"

namespace sluice::text {
namespace {

constexpr size_t kEntries = 1u << 15;
// Of the words kept; a full cache has under 4 MiB in all.
constexpr size_t kBytesMax = 1u << 20;
constexpr size_t kIdsMax = 1u << 19;
// Published ones have at most 128 characters.
constexpr size_t kPieceBytesMax = 4096;
// Nearly four times the most that a text takes with a published vocabulary that is looked up so:
// 17, for a run of one character of which 16 are the longest piece (XLM-RoBERTa's dots; BERT's
// words take 6 at most). SentencePiece makes no pieces of more than 16 characters unless it is told
// to.
constexpr size_t kCacheStepsPerByte = 64;
constexpr size_t kCacheStepsLeast = 256u << 10;

}  // namespace

WordCache::WordCache() : entries_(kEntries) {}

bool WordCache::Find(std::string_view word, uint64_t hash, std::span<const int32_t>* ids) const {
  const Entry& entry = entries_[hash & (kEntries - 1)];
  if (entry.hash != hash || entry.byte_count != word.size() ||
      std::string_view(bytes_.data() + entry.bytes_at, entry.byte_count) != word) {
    return false;
  }
  *ids = std::span(ids_.data() + entry.ids_at, entry.id_count);
  return true;
}

void WordCache::Insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
  if (bytes_.size() + word.size() > kBytesMax || ids_.size() + ids.size() > kIdsMax) {
    std::fill(entries_.begin(), entries_.end(), Entry{});
    bytes_.clear();
    ids_.clear();
  }
  entries_[hash & (kEntries - 1)] = {
      hash, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(ids_.size()),
      static_cast<uint32_t>(word.size()), static_cast<uint32_t>(ids.size())};
  bytes_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

PieceBudget::PieceBudget(size_t text_bytes)
    : steps_max_(kCacheStepsLeast + kCacheStepsPerByte * text_bytes), steps_left_(steps_max_) {}

Status PieceBudget::Error() const {
  return InvalidArgument(
      StrCat("the tokenizer's pieces overlap so much that the text takes more "
             "than ",
             steps_max_, " steps, the limit for its length"));
}

Status CheckPieceLengths(const files::TokenizerData& data) {
  for (size_t id = 0; id < data.pieces.size(); ++id) {
    if (data.pieces[id].size() <= kPieceBytesMax) continue;
    return BadModel(StrCat("piece ", id, " of the tokenizer has ", data.pieces[id].size(),
                           " bytes; the limit is ", kPieceBytesMax));
  }
  return OkStatus();
}

std::vector<int32_t> ByteFallbackIds(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids(256);
  for (int byte = 0; byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    ids[static_cast<size_t>(byte)] = vocabulary.Find(piece);
    if (ids[static_cast<size_t>(byte)] == Vocabulary::kNone) return {};
  }
  return ids;
}

}  // namespace sluice::text
