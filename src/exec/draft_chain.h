// DraftChain: what every proposer on the device does between its passes. It finds where the
// sequences of a step stand when the step has drawn, takes the likeliest token of each row of
// logits, or one that is drawn by its probability, as a guess to its slot, and places the next
// pass, of a token of each sequence, behind it. Or guesses are trees (ops/guess_trees.h): it takes
// the likeliest tokens of each row for nodes, which the host reads with the step's results, and the
// next pass has a token for each of the likeliest of them. What stands where is known on the device
// alone. Step thread only.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "exec/step_inputs.h"
#include "exec/tree_shape.h"
#include "ops/draft_tokens.h"
#include "ops/embedding.h"
#include "ops/guess_trees.h"
#include "ops/place_tokens.h"
#include "ops/sampling.h"
#include "ops/token_counts.h"
#include "sample/proposals.h"
#include "sample/sampler.h"

namespace sluice::exec {

class DraftChain {
 public:
  // What it shares with the executor: all are on the device and outlive it.
  struct Shared {
    ops::Tensor lengths, known;  // sample::Sampler::lengths and tokens
    ops::Tensor table;           // of the group whose blocks the passes use, I32 [slots, blocks]
    ops::PlaceTokens::Desc placing;  // of that group
    ops::Tensor logits;              // F32 [rows, guesses], of which no row is read any more
    // By guess its id in the model's vocabulary; empty: they are the same.
    std::vector<int32_t> target_ids = {};
    // So many guesses of a sequence are drawn, by StepInputs::draft_rows, and what they were drawn
    // from is kept until they are verified; 0: the likeliest are taken.
    int drawn = 0;
    int64_t vocab = 0;  // of the model
    // For PlaceBlock: tokens of a sequence, at most, and the id of each; 0: it is not called.
    int block = 0;
    int32_t mask_token = 0;
    // Of the guess that a block's first token gives. 0: that one gives none, and stands for the
    // token that was drawn last.
    int first_number = 2;
    // Guesses are trees, up to a depth of `tree_depths`; `sampler` knows what steps have drawn.
    TreeShape tree = {};
    int tree_depths = 0;
    const sample::Sampler* sampler = nullptr;
  };
  // What Make takes memory for.
  struct Sizes {
    int64_t sequences = 0, table_width = 0;
    int64_t guesses = 0;    // numbers of a row of logits
    size_t target_ids = 0;  // of Shared, as the next two
    int drawn = 0;
    int64_t vocab = 0;
    int block = 0;
    TreeShape tree = {};
    int tree_depths = 0;
    int64_t tokens = 0;  // of a step that may have trees
  };
  // `tokens`: of a step, of use where guesses are trees.
  static Result<std::unique_ptr<DraftChain>> Make(device::Device& device, int64_t sequences,
                                                  int64_t tokens, Shared shared,
                                                  std::vector<ops::BindRecord>* records);
  // Device memory that Make takes.
  static size_t DeviceBytes(const Sizes& sizes);

  // Behind a step: rows() and positions of the `drafts` first sequences that guess. `ids` I32
  // [tokens] gets the token behind each of the step's.
  Status Next(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
              int64_t drafts, const ops::Tensor& ids);
  // Where guesses are trees, so may be the drafts of a step. Puts what such a step's answers went
  // along in a row, in *followed, as behind chains of drafts; order() says which of the step's
  // tokens that is. Before Next, whose `placed` that is.
  Status Follow(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                model::DeviceBatch* followed);
  ops::Tensor order(int64_t tokens) const { return buffers_.order.Rows(0, tokens); }
  bool trees() const { return shared_.tree.beams > 0; }
  // Before the guesses of a number above 1, for a head of their own: `ids` gets the token behind
  // each of `before`, which Next or NextBehind gave for the number before.
  Status NextBehind(device::Stream& stream, const StepInputs& given,
                    const model::DeviceBatch& placed, int64_t drafts, int number,
                    const ops::Tensor& before, const ops::Tensor& ids);
  // I32 [drafts]: of the step, the last token that counts of each sequence that guesses.
  ops::Tensor rows(int64_t drafts) const;
  // F32 [drafts, guesses]: where the pass for guesses of this number, from 1 on, leaves the logits.
  ops::Tensor logits(int64_t drafts, int number) const;
  // Takes the guesses from logits(drafts, number). Place puts the pass after it `moved` positions
  // further.
  Status Keep(device::Stream& stream, const StepInputs& given, int64_t drafts, int number,
              int moved);
  // As Keep, of nodes of depth `number`: the pass that left the logits computed Rows(drafts,
  // number) tokens. PlaceBeams puts the pass behind it `moved` positions further, whose tokens
  // follow rows beam_order(drafts) of this one.
  Status Grow(device::Stream& stream, const StepInputs& given, int64_t drafts, int number,
              int moved);
  // Rows of logits of such a pass.
  int64_t Rows(int64_t drafts, int number) const {
    return trees() && number > 1 ? drafts * shared_.tree.beams : drafts;
  }
  ops::Tensor beam_order(int64_t drafts) const {
    return buffers_.beam_order.Rows(0, drafts * shared_.tree.beams);
  }
  // A pass over the beams of the depth before `number`, as Place.
  Status PlaceBeams(device::Stream& stream, const StepInputs& given, int64_t drafts, int number,
                    model::DeviceBatch* batch, model::GroupInputs* group);
  // I32 [drafts, nodes, GrowTrees::kNodeNumbers]: what was guessed last; empty where guesses are
  // chains.
  ops::Tensor nodes(int64_t drafts) const {
    return trees() ? buffers_.nodes.Rows(0, drafts) : ops::Tensor();
  }
  const TreeShape& tree() const { return shared_.tree; }
  // What guesses were drawn from: see sample::Sampler::VerifyAgainst; empty where none is drawn.
  sample::Proposals proposals() const { return {buffers_.drawn, buffers_.guess_of}; }
  // A pass over the last guess of each sequence: all of *batch but its groups, and the inputs of
  // every group that uses the blocks.
  Status Place(device::Stream& stream, const StepInputs& given, int64_t drafts,
               model::DeviceBatch* batch, model::GroupInputs* group);
  // A pass over a block of `tokens` mask tokens of each sequence, behind what was drawn, or the
  // guess of number 1, as Place; every token gives logits.
  Status PlaceBlock(device::Stream& stream, const StepInputs& given, int64_t drafts, int tokens,
                    model::DeviceBatch* batch, model::GroupInputs* group);
  // F32 [drafts * tokens, guesses]: where that pass leaves them, sequence by sequence.
  ops::Tensor block_logits(int64_t drafts, int tokens) const;
  // I32 [drafts]: the token that was drawn last by each sequence that guesses.
  Result<ops::Tensor> Drawn(device::Stream& stream, const StepInputs& given, int64_t drafts);
  // Takes the guesses of numbers from Shared::first_number on from there.
  Status KeepBlock(device::Stream& stream, const StepInputs& given, int64_t drafts, int tokens);

 private:
  struct Buffers {
    ops::Tensor ids, rows, first, every_row, zeros;         // I32
    ops::Tensor positions, context, kv_slots, block_table;  // I32, of a token each
    ops::Tensor sample_rows, outputs, top_ids, top_logprobs;
    ops::Tensor target_ids;  // I32 [guesses]; empty: ids are the same
    ops::Tensor drawn;       // F32 [numbers * sequences, guesses], logits; empty: none is drawn
    ops::Tensor guess_of;    // I32 [vocab], what target_ids are by id; empty as those
    // Of blocks, empty without them. Row t - 1 of starts is query_start of blocks of t tokens, and
    // row (t - 1) * block + i of picks has the rows of logits of their token i.
    ops::Tensor masks;         // I32 [block * sequences]: ids
    ops::Tensor starts;        // I32 [block, sequences + 1]
    ops::Tensor picks;         // I32 [block * block, sequences]; empty where none is drawn
    ops::Tensor block_logits;  // F32 [block * sequences, guesses]
    // Of trees, empty without them. Those of a step's tokens; and by depth in turns, for passes.
    ops::Tensor order, followed_ids, followed_places;  // I32 [tokens]
    ops::Tensor nodes, beam_starts, beam_ids, beam_order;
    std::array<ops::Tensor, 2> beams, paths;
  };
  static size_t Carve(const device::View& view, const Sizes& sizes, Buffers* buffers);
  DraftChain(int64_t sequences, Shared shared)
      : sequences_(sequences), shared_(std::move(shared)) {}
  Status Fill(device::Device& device);
  Status FillBlocks(device::Device& device, device::Stream& stream);
  Status FillTrees(device::Device& device, device::Stream& stream);
  // Grow, from `logits`.
  Status TakeNodes(device::Stream& stream, const StepInputs& given, const ops::Tensor& logits,
                   int64_t drafts, int number, int moved);
  // Keep, from `logits`.
  Status Take(device::Stream& stream, const StepInputs& given, const ops::Tensor& logits,
              int64_t drafts, int number, int moved);
  // Place of `tokens` of all sequences, where `start` says.
  Status PlaceAt(device::Stream& stream, const StepInputs& given, const ops::Tensor& start,
                 int64_t drafts, int64_t tokens, const ops::Tensor& paths,
                 model::DeviceBatch* batch, model::GroupInputs* group);

  const int64_t sequences_;
  const Shared shared_;
  device::Buffer memory_;
  Buffers buffers_;
  ops::Bound<ops::NextTokens> next_;
  ops::Bound<ops::KeepGuesses> keep_;
  ops::Bound<ops::Sample> sample_;
  ops::Bound<ops::PlaceTokens> place_;
  ops::Bound<ops::ResolveRows> resolve_;  // of those that are drawn
  ops::Bound<ops::GatherRows> gather_;    // of blocks that are drawn
  ops::Bound<ops::ResolveTokens> drawn_;  // of blocks that begin with what was drawn
  ops::Bound<ops::FollowTrees> follow_;   // of trees
  ops::Bound<ops::GrowTrees> grow_;       // of trees
};

}  // namespace sluice::exec
