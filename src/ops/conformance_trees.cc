// Generated cases of what stands between a head that guesses trees and the steps that verify them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/attention.h"
#include "ops/conformance_case.h"
#include "ops/guess_trees.h"
#include "ops/sample_row.h"

namespace sluice::ops {
namespace {

Array BytesOfOutputs(const std::vector<SampleOutput>& outputs) {
  const auto count = static_cast<int64_t>(outputs.size());
  Array bytes(DType::kU8, {count, int64_t{sizeof(SampleOutput)}});
  if (count > 0)
    std::memcpy(bytes.tensor().data, outputs.data(), outputs.size() * sizeof(SampleOutput));
  return bytes;
}

std::vector<int32_t> Parents(TestNoise& noise, int64_t drafts) {
  std::vector<int32_t> parents;
  for (int64_t i = 0; i < drafts; ++i)
    parents.push_back(Flip(noise) ? static_cast<int32_t>(i)
                                  : static_cast<int32_t>(noise.Below(i + 1)));
  return parents;
}

// The tokens of a step, among few ids, so that drafts are often right.
struct TreeStep {
  std::vector<int32_t> start = {0}, ids, positions, paths, rows, slots;
  std::vector<SampleOutput> outputs;

  void Add(TestNoise& noise, int32_t slot) {
    const auto begin = static_cast<int32_t>(ids.size());
    const int64_t before = Pick<int64_t>(noise, {0, 0, 1, 300});
    const int64_t drafts = noise.Below(kPathNumbers);
    const bool empty = noise.Below(8) == 0;
    const int64_t tokens = empty ? 0 : before + 1 + drafts;
    const auto first = static_cast<int32_t>(noise.Below(5000));
    std::vector<int32_t> path(static_cast<size_t>(tokens * kPathNumbers));
    if (!empty) WritePaths(Parents(noise, drafts), path.data() + before * kPathNumbers);
    for (int64_t t = 0; t < tokens; ++t) {
      ids.push_back(static_cast<int32_t>(noise.Below(3)));
      const int32_t* const its = path.data() + t * kPathNumbers;
      positions.push_back(first + static_cast<int32_t>(t) - (its[0] > 0 ? AsideOf(its) : 0));
      if (t < before) continue;
      rows.push_back(begin + static_cast<int32_t>(t));
      outputs.push_back(
          {.token = static_cast<int32_t>(noise.Below(3)), .degenerate = noise.Below(16) == 0});
    }
    paths.insert(paths.end(), path.begin(), path.end());
    start.push_back(static_cast<int32_t>(ids.size()));
    slots.push_back(slot);
  }
  void Pad(int64_t tokens, int64_t more_rows) {
    ids.resize(ids.size() + static_cast<size_t>(tokens));
    positions.resize(ids.size());
    paths.resize(ids.size() * kPathNumbers);
    rows.resize(rows.size() + static_cast<size_t>(more_rows));
    outputs.resize(rows.size());
  }
};

}  // namespace

ConformanceCase<FollowTrees> MakeCase(const FollowTrees&, int number, TestNoise& noise) {
  ConformanceCase<FollowTrees> c;
  const int64_t slots = Pick<int64_t>(noise, {1, 3, 70});
  const int64_t sequences = IsEmpty(number) ? 0 : 1 + noise.Below(slots);
  TreeStep step;
  for (int32_t s = 0; s < sequences; ++s)
    step.Add(noise, noise.Below(8) == 0 ? Pick(noise, {-1, kOutside}) : s);
  if (sequences > 0 && !step.ids.empty()) step.Pad(noise.Below(4) * 40, noise.Below(3) * 5);
  const auto tokens = static_cast<int64_t>(step.ids.size());
  const int64_t numbers = Pick<int64_t>(noise, {1, 9});
  const size_t id = c.Add(Array::Ints(step.ids)), start = c.Add(Array::Ints(step.start));
  const size_t position = c.Add(Array::Ints(step.positions));
  const size_t slot = c.Add(Array::Ints(step.slots));
  const size_t path = c.Add(Array::Ints({tokens, kPathNumbers}, step.paths));
  const size_t row = c.Add(Array::Ints(step.rows)), output = c.Add(BytesOfOutputs(step.outputs));
  const size_t length = c.Add(Left({slots})), known = c.Add(Left({slots, numbers}));
  const size_t order = c.Add(Left({tokens})), ids = c.Add(Left({tokens}));
  const size_t places = c.Add(Left({tokens}));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<FollowTrees::Args> {
    return FollowTrees::Args{.token_ids = t[id],
                             .query_start = t[start],
                             .positions = t[position],
                             .slots = t[slot],
                             .paths = t[path],
                             .logits_rows = t[row],
                             .outputs = t[output],
                             .lengths = t[length],
                             .known = t[known],
                             .order = t[order],
                             .ids = t[ids],
                             .places = t[places]};
  };
  return c;
}

ConformanceCase<GrowTrees> MakeCase(const GrowTrees&, int number, TestNoise& noise) {
  ConformanceCase<GrowTrees> c;
  const int64_t drafts = AnyTokens(number, noise);
  const int64_t beams = 1 + noise.Below(4), children = beams + noise.Below(3);
  const auto depth = static_cast<int32_t>(1 + noise.Below(kPathNumbers - 1));
  const int64_t from = depth == 1 ? 1 : beams, rows = drafts * from;
  const auto begin = static_cast<int32_t>(noise.Below(4) * 7);
  const int64_t guesses = noise.Below(2) == 0 ? 0 : Pick<int64_t>(noise, {1, 700, 4990});
  std::vector<SampleOutput> outputs;
  std::vector<int32_t> ids, slot_of, beam;
  Array logprobs(DType::kF32, {rows, children});
  for (int64_t r = 0; r < rows; ++r) {
    outputs.push_back(
        {.token = static_cast<int32_t>(noise.Below(5000)), .degenerate = noise.Below(16) == 0});
    beam.push_back(static_cast<int32_t>(1 + noise.Below(40)));
    beam.push_back(std::bit_cast<int32_t>(-0.25f * static_cast<float>(noise.Below(8))));
    for (int64_t i = 0; i < children; ++i) {
      ids.push_back(noise.Below(9) == 0 ? -1 : static_cast<int32_t>(noise.Below(5000)));
      // Many are the same, some are those of a token that there is none of.
      const bool none = noise.Below(12) == 0;
      logprobs.Set(static_cast<size_t>(r * children + i),
                   none ? -std::numeric_limits<float>::infinity()
                        : -0.25f * static_cast<float>(noise.Below(8)));
    }
  }
  for (int32_t d = 0; d < drafts; ++d)
    slot_of.push_back(noise.Below(6) == 0 ? Pick(noise, {-1, kOutside}) : d);
  std::vector<int32_t> first, paths;
  for (int64_t d = 0; d < drafts; ++d) first.push_back(static_cast<int32_t>(noise.Below(5000)));
  for (int64_t i = 0; i < drafts * beams * kPathNumbers; ++i)
    paths.push_back(static_cast<int32_t>(noise.Below(20)));
  beam.resize(static_cast<size_t>(drafts * beams * GrowTrees::kBeamNumbers), 1);
  const size_t output = c.Add(BytesOfOutputs(outputs)),
               top_id = c.Add(Array::Ints({rows, children}, ids));
  const size_t logprob = c.Add(std::move(logprobs)), slot = c.Add(Array::Ints(slot_of));
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < guesses; ++i) targets.push_back(static_cast<int32_t>(noise.Below(5000)));
  const size_t target = guesses == 0 ? 0 : c.Add(Array::Ints(targets));
  const size_t nodes = c.Add(Left({drafts, begin + from * children + noise.Below(3), 3}));
  const std::vector<int64_t> beam_dims = {drafts, beams, GrowTrees::kBeamNumbers};
  const std::vector<int64_t> path_dims = {drafts * beams, kPathNumbers};
  const size_t its_beams = c.Add(Array::Ints(beam_dims, beam));
  const size_t its_paths = c.Add(Array::Ints(path_dims, paths));
  const size_t next_beams = c.Add(Left(beam_dims)), next_paths = c.Add(Left(path_dims));
  const size_t next_ids = c.Add(Left({drafts * beams})), order = c.Add(Left({drafts * beams}));
  const size_t places = c.Add(Array::Ints(first));
  const auto moved = static_cast<int32_t>(noise.Below(3));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<GrowTrees::Args> {
    return GrowTrees::Args{.outputs = t[output],
                           .top_ids = t[top_id],
                           .top_logprobs = t[logprob],
                           .slots = t[slot],
                           .slot_count = static_cast<int32_t>(drafts),
                           .target_ids = guesses == 0 ? Tensor() : t[target],
                           .depth = depth,
                           .begin = begin,
                           .moved = moved,
                           .nodes = t[nodes],
                           .beams = t[its_beams],
                           .paths = t[its_paths],
                           .next_beams = t[next_beams],
                           .next_paths = t[next_paths],
                           .ids = t[next_ids],
                           .order = t[order],
                           .first = t[places]};
  };
  return c;
}

}  // namespace sluice::ops
