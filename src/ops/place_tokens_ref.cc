#include <algorithm>

#include "ops/place_tokens.h"

namespace sluice::ops {
namespace {

// One call's arrays, a row of them at a time. Their addresses are taken once: on the CPU this is
// what every step runs, and it should cost a sequence little more than its memory.
class Placer {
 public:
  Placer(const PlaceTokens::Desc& desc, const PlaceTokens::Args& args)
      : desc_(desc),
        slot_count_(args.tables.dims[0]),
        width_(args.tables.dims[1]),
        table_stride_(args.tables.strides[0]),
        out_width_(args.block_table.dims[1]),
        out_stride_(args.block_table.strides[0]),
        slots_(args.slots.ptr<int32_t>()),
        query_start_(args.query_start.ptr<int32_t>()),
        first_(args.first.ptr<int32_t>()),
        unsure_(args.unsure.ptr<int32_t>()),
        lengths_(args.lengths.ptr<int32_t>()),
        told_start_(args.told_start.ptr<int32_t>()),
        told_first_(args.told_first.ptr<int32_t>()),
        told_(args.told.ptr<int32_t>()),
        tables_(args.tables.ptr<int32_t>()),
        positions_(args.positions.ptr<int32_t>()),
        kv_slots_(args.kv_slots.ptr<int32_t>()),
        context_(args.context.ptr<int32_t>()),
        block_table_(args.block_table.ptr<int32_t>()) {}

  // One division for each sequence: steps of many sequences have a token of each.
  void Place(int64_t s) const {
    const int64_t slot = slots_[s];
    int32_t* row = nullptr;
    if (slot >= 0 && slot < slot_count_) {
      row = tables_ + slot * table_stride_;
      if (told_start_[s] != told_start_[s + 1]) Learn(s, row);
    }
    const int32_t begin = query_start_[s], end = query_start_[s + 1];
    int32_t first = first_[s];
    const int32_t unsure = unsure_[s];
    if (unsure > 0 && row != nullptr) first = std::clamp(lengths_[slot], first - unsure, first);
    const int32_t block = desc_.block_tokens;
    int32_t column = first / block, place = first % block;
    for (int32_t t = begin; t < end; ++t) {
      const bool has_block = row != nullptr && !desc_.state && column < width_;
      const int32_t id = has_block ? row[column] : -1;
      positions_[t] = first + t - begin;
      kv_slots_[t] = id < 0 ? -1 : id * block + place;
      if (++place < block) continue;
      place = 0;
      ++column;
    }
    context_[s] = first + end - begin;
    if (row != nullptr) Gather(s, row, first, column + (place > 0 ? 1 : 0));
  }

 private:
  void Learn(int64_t s, int32_t* row) const {
    const int64_t first = told_first_[s];
    const int64_t count = std::min<int64_t>(told_start_[s + 1] - told_start_[s], width_ - first);
    const int32_t* const told = told_ + told_start_[s];
    for (int64_t i = std::max<int64_t>(0, -first); i < count; ++i) row[first + i] = told[i];
  }
  void Gather(int64_t s, const int32_t* row, int32_t first, int64_t blocks) const {
    const int64_t count = std::min(blocks, out_width_);
    int32_t* const out = block_table_ + s * out_stride_;
    int64_t gone = 0;
    if (desc_.earlier != PlaceTokens::kAllEarlier) {
      const int32_t unit = desc_.cache_block_tokens;
      const int32_t from = std::max(0, first - desc_.earlier);
      gone = std::min<int64_t>(count, from / unit * (unit / desc_.block_tokens));
    }
    std::fill_n(out, gone, -1);
    std::copy(row + gone, row + std::max(gone, count), out + gone);
  }

  const PlaceTokens::Desc desc_;
  const int64_t slot_count_, width_, table_stride_, out_width_, out_stride_;
  const int32_t *const slots_, *const query_start_, *const first_, *const unsure_, *const lengths_;
  const int32_t *const told_start_, *const told_first_, *const told_;
  int32_t *const tables_, *const positions_, *const kv_slots_, *const context_, *const block_table_;
};

}  // namespace

Support RefPlaceTokensSupports(const PlaceTokens::Desc& desc, const device::DeviceFacts&) {
  if (desc.block_tokens <= 0 || desc.cache_block_tokens % desc.block_tokens != 0) {
    return Support::No(StrCat("blocks of ", desc.block_tokens, " tokens do not make up ",
                              desc.cache_block_tokens));
  }
  if (desc.earlier < PlaceTokens::kAllEarlier)
    return Support::No(StrCat(desc.earlier, " earlier tokens"));
  return Support::Yes();
}

Status RefPlaceTokens(device::Stream&, const PlaceTokens::Desc& desc,
                      const PlaceTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const Placer placer(desc, args);
  const int64_t sequences = args.first.dims[0], tokens = args.positions.dims[0];
  for (int64_t s = 0; s < sequences; ++s) placer.Place(s);
  const int64_t placed = args.query_start.ptr<int32_t>()[sequences];
  for (int64_t t = 0; t < placed && !args.paths.empty(); ++t) {
    const int32_t* const path = PathOf(args.paths, t);
    if (path[0] >= 0 && path[0] < kPathNumbers) args.positions.ptr<int32_t>()[t] -= AsideOf(path);
  }
  std::fill(args.positions.ptr<int32_t>() + placed, args.positions.ptr<int32_t>() + tokens, 0);
  std::fill(args.kv_slots.ptr<int32_t>() + placed, args.kv_slots.ptr<int32_t>() + tokens, -1);
  return OkStatus();
}

}  // namespace sluice::ops
