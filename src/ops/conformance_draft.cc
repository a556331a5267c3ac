// Generated cases of what stands between a step and a head that guesses.
#include <algorithm>
#include <cstring>

#include "ops/conformance_case.h"
#include "ops/sample_row.h"

namespace sluice::ops {
namespace {

std::vector<int32_t> Below(TestNoise& noise, int64_t count, int64_t limit) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<int32_t>(noise.Below(limit)));
  return values;
}

}  // namespace

ConformanceCase<NextTokens> MakeCase(const NextTokens&, int number, TestNoise& noise) {
  ConformanceCase<NextTokens> c;
  const int64_t slots = Pick<int64_t>(noise, {1, 3, 70});
  const int64_t sequences = IsEmpty(number) ? 0 : 1 + noise.Below(slots);
  const int64_t drafts = sequences == 0 ? 0 : noise.Below(sequences + 1);
  const int64_t numbers = Pick<int64_t>(noise, {1, 9});
  std::vector<int32_t> query_start = {0}, positions, lengths, next, drafting, slot_of;
  for (int64_t s = 0; s < slots; ++s) lengths.push_back(static_cast<int32_t>(noise.Below(5000)));
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t count = Pick<int64_t>(noise, {0, 1, 1, 3, 9, 300});
    const auto slot = static_cast<int32_t>(s);
    slot_of.push_back(noise.Below(8) == 0 ? Pick(noise, {-1, kOutside}) : slot);
    // Most lengths are those of a token of the sequence.
    const bool near = noise.Below(6) != 0;
    const int64_t back = near && count > 0 ? 1 + noise.Below(count) : noise.Below(9000);
    const auto first = static_cast<int32_t>(std::max<int64_t>(0, lengths[s] - back));
    for (int32_t i = 0; i < count; ++i) positions.push_back(first + i);
    query_start.push_back(query_start.back() + static_cast<int32_t>(count));
    next.push_back(noise.Below(3) == 0 ? static_cast<int32_t>(noise.Below(5000)) : -1);
  }
  for (int64_t d = 0; d < drafts; ++d) {
    const auto one = static_cast<int32_t>(noise.Below(sequences));
    drafting.push_back(noise.Below(5) == 0 ? Pick(noise, {-1, kOutside}) : one);
  }
  if (sequences > 0) positions.resize(positions.size() + static_cast<size_t>(noise.Below(4) * 40));
  const auto tokens = static_cast<int64_t>(positions.size());
  const auto add = [&](const std::vector<int32_t>& values) { return c.Add(Array::Ints(values)); };
  const size_t token = add(Below(noise, tokens, 5000)), start = add(query_start);
  const size_t position = add(positions), slot = add(slot_of), behind = add(next);
  const size_t draft = add(drafting), length = add(lengths);
  const size_t known = c.Add(Array::Ints({slots, numbers}, Below(noise, slots * numbers, 5000)));
  const size_t ids = c.Add(Left({tokens})), rows = c.Add(Left({drafts}));
  const size_t first = c.Add(Left({drafts}));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<NextTokens::Args> {
    return NextTokens::Args{.token_ids = t[token],
                            .query_start = t[start],
                            .positions = t[position],
                            .slots = t[slot],
                            .next = t[behind],
                            .drafting = t[draft],
                            .lengths = t[length],
                            .known = t[known],
                            .ids = t[ids],
                            .rows = t[rows],
                            .first = t[first]};
  };
  return c;
}

ConformanceCase<KeepGuesses> MakeCase(const KeepGuesses&, int number, TestNoise& noise) {
  ConformanceCase<KeepGuesses> c;
  const int64_t drafts = AnyTokens(number, noise), slots = drafts + 1 + noise.Below(3);
  const int64_t numbers = Pick<int64_t>(noise, {2, 3, 9});
  const auto guess = static_cast<int32_t>(1 + noise.Below(numbers - 1));
  std::vector<SampleOutput> outputs(static_cast<size_t>(drafts));
  std::vector<int32_t> slot_of;
  // In every second case guesses are of a vocabulary of their own, and some lie outside of it.
  const int64_t guesses = noise.Below(2) == 0 ? 0 : Pick<int64_t>(noise, {1, 700, 4990});
  for (int32_t d = 0; d < drafts; ++d) {
    outputs[static_cast<size_t>(d)].token =
        noise.Below(9) == 0 ? -1 : static_cast<int32_t>(noise.Below(5000));
    slot_of.push_back(noise.Below(6) == 0 ? Pick(noise, {-1, kOutside}) : d);
  }
  Array bytes(DType::kU8, {drafts, int64_t{sizeof(SampleOutput)}});
  if (drafts > 0)
    std::memcpy(bytes.tensor().data, outputs.data(), outputs.size() * sizeof(SampleOutput));
  const size_t output = c.Add(std::move(bytes)), slot = c.Add(Array::Ints(slot_of));
  const size_t known = c.Add(Array::Ints({slots, numbers}, Below(noise, slots * numbers, 5000)));
  const size_t ids = c.Add(Left({drafts}));
  const size_t first = c.Add(Array::Ints(Below(noise, drafts, 5000)));
  std::vector<SampleRow> rows(static_cast<size_t>(drafts), SampleRow{.position = 70});
  Array row_bytes(DType::kU8, {drafts, int64_t{sizeof(SampleRow)}});
  if (drafts > 0)
    std::memcpy(row_bytes.tensor().data, rows.data(), rows.size() * sizeof(SampleRow));
  const size_t row = c.Add(std::move(row_bytes));
  const bool moves = Flip(noise);
  const size_t target = guesses == 0 ? 0 : c.Add(Array::Ints(Below(noise, guesses, 5000)));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<KeepGuesses::Args> {
    return KeepGuesses::Args{.outputs = t[output],
                             .slots = t[slot],
                             .target_ids = guesses == 0 ? Tensor() : t[target],
                             .number = guess,
                             .moved = guess % 3,
                             .known = t[known],
                             .ids = t[ids],
                             .first = t[first],
                             .rows = moves ? t[row] : Tensor()};
  };
  return c;
}

}  // namespace sluice::ops
