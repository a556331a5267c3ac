// What a step is given and where it is placed. The host fills StepInputs, which go to the device as
// one copy where it has memory of its own; ops::PlaceTokens makes the rest of a model's inputs of
// them there. Views of memory that others own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "batch/kv_group.h"
#include "model/forward.h"

namespace sluice::exec {

// Arrays of I32. Sequences and tokens behind those of the plan fill a bucket up: they have no query
// tokens, no slot, and nothing is told of them.
struct StepInputs {
  ops::Tensor token_ids;    // [tokens]
  ops::Tensor query_start;  // [sequences + 1]
  ops::Tensor first;        // [sequences]: position of the first query token, at most
  ops::Tensor unsure;       // [sequences]: it may be so much less
  ops::Tensor slots;        // [sequences]
  ops::Tensor logits_rows;  // [rows]
  ops::Tensor token_types;  // [tokens]; empty where the model has none
  ops::Tensor paths;        // ops::Attention::Args::paths; empty where no draft is of a tree
  // See ops::NextTokens::Args; empty where nothing guesses.
  ops::Tensor next;      // [sequences]
  ops::Tensor drafting;  // [drafts]
  // Of those that guess, a token each: [drafts + 1] and [drafts].
  ops::Tensor draft_start, draft_slots;
  ops::Tensor draft_ids;  // [drafts]: names what they draw, as in `token_ids`; 0: none
  // U8 [drafts, sizeof(SampleRow)]: how guesses are drawn (sample::Sampler::WriteGuessRows); empty
  // where the likeliest are taken.
  ops::Tensor draft_rows;
  struct Group {  // see ops::PlaceTokens::Args
    ops::Tensor told_start, told_first, told;
  };
  std::vector<Group> groups;
};

// The sizes of both.
struct InputShape {
  int64_t tokens = 0, sequences = 0, rows = 0;
  bool types = false;                 // tokens have types
  bool paths = false;                 // drafts may be trees
  int64_t drafts = -1;                // sequences that guess; -1: nothing ever does
  bool draws = false;                 // guesses are drawn
  std::vector<int64_t> told;          // by group: block ids that there is room for
  std::vector<int64_t> table_widths;  // by group: ids of a row of the step's tables
};

// Points *inputs into `view`, which is large enough, and returns the bytes taken. A view without
// data gives the bytes alone.
size_t CarveInputs(const device::View& view, const InputShape& shape, StepInputs* inputs);
// The same for what is made of them; the rest of *batch are views of `inputs`.
size_t CarvePlaced(const device::View& view, const InputShape& shape, const StepInputs& inputs,
                   model::DeviceBatch* batch);

// By group: the kernel blocks of a sequence of so many positions.
std::vector<int64_t> TableWidths(std::span<const batch::KvGroup> groups, int64_t positions);

}  // namespace sluice::exec
