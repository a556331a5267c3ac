// Trees of tokens that a head guesses (EAGLE-2, "Faster Inference of Language Models with Dynamic
// Draft Trees"). Each pass of the head computes the likeliest nodes of one depth, the beams, of
// every sequence; GrowTrees takes the likeliest tokens behind each of them for nodes of the next
// depth, chooses of all these the next beams by how likely they are together with what leads to
// them, and makes the inputs of the next pass. A later step verifies some of the nodes as a tree
// (batch/draft_tree.h). FollowTrees finds, behind the sampling of that step, which of its rows the
// answer went along, and puts these in a row, so that the head goes on from there as behind a
// chain of drafts.
//
// Sequences, slots and rows outside of their arrays are passed over.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct FollowTrees {
  static constexpr std::string_view kName = "follow_trees";
  struct Desc {
    std::string ToString() const;
  };
  struct Args {
    // Of a step; see PlaceTokens. Sequence s has a tree if its last token has a path; then it
    // begins at the first of its logits rows, which are one for each of its last tokens.
    Tensor token_ids;    // I32 [tokens]
    Tensor query_start;  // I32 [sequences + 1]
    Tensor positions;    // I32 [tokens]
    Tensor slots;        // I32 [sequences]
    Tensor paths;        // I32 [tokens, kPathNumbers], as Attention::Args::paths
    Tensor logits_rows;  // I32 [rows]: indices of tokens, ascending over those of the sequences
    Tensor outputs;      // U8 [rows, sizeof(SampleOutput)], as Sample left them
    // Of the slot of a sequence with a tree, written: see NextTokens.
    Tensor lengths;  // I32 [slots]
    Tensor known;    // I32 [slots, numbers]: the first is the token that was drawn last
    // Written: token t of the row that the answer went along is token order[t] of the step, and
    // has this id and stands there. Behind those come the other tokens of the sequence, as wrong
    // drafts do. All others stay where they are.
    Tensor order, ids, places;  // I32 [tokens]
  };
};

struct GrowTrees {
  static constexpr std::string_view kName = "grow_trees";
  struct Desc {
    std::string ToString() const;
  };
  // Numbers of a node: its token, the number of the node that it follows (from 1 on; 0: the token
  // that was drawn), and the bits of its log-prob there, an F32.
  static constexpr int64_t kNodeNumbers = 3;
  // Numbers of a beam: its node, and the bits of the log-prob of all that leads there, an F32.
  static constexpr int64_t kBeamNumbers = 2;
  // Log-probs are at least this; that of a token which there is none of is this.
  static constexpr float kLogProbMin = -10000.0f;
  struct Args {
    // Of the pass: `from` rows for each draft, one behind the other, where `from` is 1 for the
    // first depth and else the number of beams. Sample left them.
    Tensor outputs;       // U8 [drafts * from, sizeof(SampleOutput)]
    Tensor top_ids;       // I32 [drafts * from, children]: the likeliest tokens, best first
    Tensor top_logprobs;  // F32 [drafts * from, children]
    Tensor slots;         // I32 [drafts]: outside of [0, slot_count) nothing is guessed
    int32_t slot_count = 0;
    Tensor target_ids;  // I32 [guesses]: as KeepGuesses::Args::target_ids; may be empty
    int32_t depth = 1;  // of the new nodes, from 1 on, at most kPathNumbers - 1
    int32_t begin = 0;  // of these nodes among those of a sequence
    int32_t moved = 0;  // what is added to `first` of those that guess
    Tensor nodes;       // I32 [drafts, nodes, kNodeNumbers]: children * from are written
    Tensor beams;       // I32 [drafts, beams, kBeamNumbers] of the pass; unread at depth 1
    Tensor paths;       // I32 [drafts * beams, kPathNumbers] of the pass; unread at depth 1
    Tensor next_beams;  // as beams, written
    Tensor next_paths;  // as paths, written: where the next pass finds what leads to each
    Tensor ids;         // I32 [drafts * beams], written: tokens of the next pass
    Tensor order;       // I32 [drafts * beams], written: rows of this pass that they follow
    Tensor first;       // I32 [drafts]: the place of the next pass' first token
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const FollowTrees::Desc& desc, const FollowTrees::Args& args);
Status CheckArgs(const GrowTrees::Desc& desc, const GrowTrees::Args& args);

Support RefFollowTreesSupports(const FollowTrees::Desc& desc, const device::DeviceFacts& facts);
Status RefFollowTrees(device::Stream& stream, const FollowTrees::Desc& desc,
                      const FollowTrees::Args& args);
Support RefGrowTreesSupports(const GrowTrees::Desc& desc, const device::DeviceFacts& facts);
Status RefGrowTrees(device::Stream& stream, const GrowTrees::Desc& desc,
                    const GrowTrees::Args& args);

}  // namespace sluice::ops
