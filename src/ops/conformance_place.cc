#include <algorithm>

#include "ops/conformance_case.h"

namespace sluice::ops {
namespace {

// What a step says of its sequences.
struct PlacedSequences {
  std::vector<int32_t> query_start = {0}, first, unsure, slots, told_start = {0}, told_first, told;
};

// Sequences in slots of their own, in any order. Some are told nothing, some more than their row
// holds; some have no slot, as padding.
PlacedSequences MakePlaced(int64_t sequences, int64_t slots, int64_t width, int32_t block_tokens,
                           TestNoise& noise) {
  PlacedSequences all;
  std::vector<int32_t> order(static_cast<size_t>(slots));
  for (int32_t i = 0; i < slots; ++i) order[static_cast<size_t>(i)] = i;
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(noise.Below(static_cast<int64_t>(i)))]);
  }
  for (size_t s = 0; s < static_cast<size_t>(sequences); ++s) {
    const bool padding = noise.Below(6) == 0;
    const int64_t tokens = padding ? 0 : Pick<int64_t>(noise, {1, 1, 1, 2, 5, 70});
    const int64_t most = std::max<int64_t>(1, width * block_tokens - tokens);
    all.first.push_back(padding ? 0 : static_cast<int32_t>(noise.Below(most)));
    all.unsure.push_back(std::min(all.first.back(), Pick(noise, {0, 0, 1, 8, 5000})));
    all.slots.push_back(padding ? Pick(noise, {-1, kOutside}) : order[s]);
    all.query_start.push_back(all.query_start.back() + static_cast<int32_t>(tokens));
    const int64_t told = Pick<int64_t>(noise, {0, 0, 1, 3, width, width + 2});
    all.told_first.push_back(Flip(noise) ? 0 : static_cast<int32_t>(noise.Below(width)));
    if (noise.Below(16) == 0) all.told_first.back() = Pick(noise, {-2, kOutside});
    for (int64_t i = 0; i < told; ++i) all.told.push_back(static_cast<int32_t>(noise.Below(5000)));
    all.told_start.push_back(static_cast<int32_t>(all.told.size()));
  }
  return all;
}

}  // namespace

ConformanceCase<PlaceTokens> MakeCase(const PlaceTokens&, int number, TestNoise& noise) {
  ConformanceCase<PlaceTokens> c;
  const int32_t block_tokens = Pick(noise, {1, 4, 16, 48});
  c.desc = {.block_tokens = block_tokens,
            .cache_block_tokens = block_tokens * Pick(noise, {1, 2, 3}),
            .earlier = Pick(noise, {PlaceTokens::kAllEarlier, 0, 1, 63, 500}),
            .paths = noise.Below(3) == 0,
            .state = noise.Below(4) == 0};
  const int64_t slots = Pick<int64_t>(noise, {1, 3, 9});
  const int64_t width = Pick<int64_t>(noise, {2, 7, 300, 9000});
  const int64_t sequences = IsEmpty(number) ? 0 : 1 + noise.Below(slots);
  const PlacedSequences all = MakePlaced(sequences, slots, width, block_tokens, noise);
  std::vector<int32_t> tables;
  for (int64_t i = 0; i < slots * width; ++i) {
    tables.push_back(static_cast<int32_t>(noise.Below(5000)) - (noise.Below(20) == 0 ? 5000 : 0));
  }
  std::vector<int32_t> lengths;  // 70 tokens fit behind them, if at all
  for (int64_t i = 0; i < slots; ++i) {
    const int64_t most = std::max<int64_t>(1, width * block_tokens - 70);
    lengths.push_back(noise.Below(16) == 0 ? -3 : static_cast<int32_t>(noise.Below(most)));
  }
  const int64_t tokens = sequences == 0 ? 0 : all.query_start.back() + noise.Below(4) * 40;
  // The second and third tokens of some sequences follow the first.
  std::vector<int32_t> aside(static_cast<size_t>(tokens * kPathNumbers), 0);
  for (size_t s = 0; s + 1 < all.query_start.size(); ++s) {
    const int64_t begin = all.query_start[s], count = all.query_start[s + 1] - begin;
    if (count < 3 || noise.Below(4) == 0) continue;
    const int32_t parents[] = {0, 0};
    WritePaths(parents, aside.data() + begin * kPathNumbers);
  }
  const size_t paths = c.Add(Array::Ints({tokens, kPathNumbers}, aside));
  const int64_t narrow = Flip(noise) ? width : 1 + noise.Below(width);
  const auto add = [&](const std::vector<int32_t>& values) { return c.Add(Array::Ints(values)); };
  const auto left = [&](std::vector<int64_t> dims) {
    Array array(DType::kI32, std::move(dims));
    for (size_t i = 0; i < array.Count(); ++i) array.Int(i) = -77;
    return c.Add(std::move(array));
  };
  const size_t query_start = add(all.query_start), first = add(all.first), at = add(all.slots);
  const size_t unsure = add(all.unsure);
  const size_t length = add(lengths);
  const size_t told_start = add(all.told_start), told_first = add(all.told_first);
  const size_t told = add(all.told), table = c.Add(Array::Ints({slots, width}, tables));
  const size_t positions = left({tokens}), context = left({sequences}), kv_slots = left({tokens});
  const size_t block_table = left({sequences, narrow});
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<PlaceTokens::Args> {
    return PlaceTokens::Args{.query_start = t[query_start],
                             .first = t[first],
                             .unsure = t[unsure],
                             .slots = t[at],
                             .lengths = t[length],
                             .told_start = t[told_start],
                             .told_first = t[told_first],
                             .told = t[told],
                             .tables = t[table],
                             .paths = desc.paths ? t[paths] : Tensor(),
                             .positions = t[positions],
                             .context = t[context],
                             .kv_slots = t[kv_slots],
                             .block_table = t[block_table]};
  };
  return c;
}

}  // namespace sluice::ops
