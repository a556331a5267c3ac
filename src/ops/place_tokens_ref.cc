#include <algorithm>

#include "ops/place_tokens.h"

namespace sluice::ops {
namespace {

// One call's arrays, a row of them at a time.
class Placer {
 public:
  Placer(const PlaceTokens::Desc& desc, const PlaceTokens::Args& args)
      : desc_(desc), args_(args), width_(args.tables.dims[1]) {}

  // One division for each sequence: steps of many sequences have a token of each.
  void Place(int64_t s) const {
    const int64_t slot = args_.slots.ptr<int32_t>()[s];
    int32_t* row = nullptr;
    if (slot >= 0 && slot < args_.tables.dims[0]) {
      row = args_.tables.ptr<int32_t>() + slot * args_.tables.strides[0];
      Learn(s, row);
    }
    const int32_t* const start = args_.query_start.ptr<int32_t>() + s;
    int32_t first = args_.first.ptr<int32_t>()[s];
    const int32_t unsure = args_.unsure.ptr<int32_t>()[s];
    if (unsure > 0 && row != nullptr)
      first = std::clamp(args_.lengths.ptr<int32_t>()[slot], first - unsure, first);
    const int32_t block = desc_.block_tokens;
    int32_t column = first / block, place = first % block;
    for (int32_t t = start[0]; t < start[1]; ++t) {
      const bool has_block = row != nullptr && !desc_.state && column < width_;
      const int32_t id = has_block ? row[column] : -1;
      args_.positions.ptr<int32_t>()[t] = first + t - start[0];
      args_.kv_slots.ptr<int32_t>()[t] = id < 0 ? -1 : id * block + place;
      if (++place < block) continue;
      place = 0;
      ++column;
    }
    args_.context.ptr<int32_t>()[s] = first + start[1] - start[0];
    if (row != nullptr) Gather(s, row, first, column + (place > 0 ? 1 : 0));
  }

 private:
  void Learn(int64_t s, int32_t* row) const {
    const int32_t* const start = args_.told_start.ptr<int32_t>() + s;
    const int64_t first = args_.told_first.ptr<int32_t>()[s];
    const int64_t count = std::min<int64_t>(start[1] - start[0], width_ - first);
    const int32_t* const told = args_.told.ptr<int32_t>() + start[0];
    for (int64_t i = std::max<int64_t>(0, -first); i < count; ++i) row[first + i] = told[i];
  }
  void Gather(int64_t s, const int32_t* row, int32_t first, int64_t blocks) const {
    const int64_t count = std::min(blocks, args_.block_table.dims[1]);
    int32_t* const out = args_.block_table.ptr<int32_t>() + s * args_.block_table.strides[0];
    int64_t gone = 0;
    if (desc_.earlier != PlaceTokens::kAllEarlier) {
      const int32_t unit = desc_.cache_block_tokens;
      const int32_t from = std::max(0, first - desc_.earlier);
      gone = std::min<int64_t>(count, from / unit * (unit / desc_.block_tokens));
    }
    std::fill_n(out, gone, -1);
    std::copy(row + gone, row + std::max(gone, count), out + gone);
  }

  const PlaceTokens::Desc& desc_;
  const PlaceTokens::Args& args_;
  const int64_t width_;
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
  std::fill(args.positions.ptr<int32_t>() + placed, args.positions.ptr<int32_t>() + tokens, 0);
  std::fill(args.kv_slots.ptr<int32_t>() + placed, args.kv_slots.ptr<int32_t>() + tokens, -1);
  return OkStatus();
}

}  // namespace sluice::ops
