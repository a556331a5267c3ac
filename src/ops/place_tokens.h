// Where the tokens of a step stand: positions, contexts, KV slots and block tables of one group of
// layers, from what the device keeps of every sequence and what a step tells of it.
//
// `tables` stays on the device between steps, a row for each slot: the ids of the kernel blocks of
// the sequence there, by position. A step tells what changed, and this op writes it there first.
// Then it gathers the rows of the step's sequences, so that attention finds them side by side.
#pragma once

#include "ops/attention.h"
#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct PlaceTokens {
  static constexpr std::string_view kName = "place_tokens";
  struct Desc {
    int32_t block_tokens = 16;  // of a kernel block
    // Blocks are let go in units of so many tokens, a multiple of block_tokens.
    int32_t cache_block_tokens = 16;
    // Positions before its first one that a step reads, at least 0; kAllEarlier: all of them. Whole
    // units before these are given out as -1, whatever the table holds.
    int32_t earlier = kAllEarlier;
    bool paths = false;  // calls may have Args::paths
    bool state = false;  // of a running state, which is found by the table: KV slots are all -1
    std::string ToString() const;
  };
  static constexpr int32_t kAllEarlier = -1;
  struct Args {
    // Sequence s has the tokens [query_start[s], query_start[s + 1]). Tokens behind those of the
    // last one are padding: position 0, KV slot -1.
    Tensor query_start;  // I32 [sequences + 1]
    // The position of its first token is `first`. Where `unsure` is above 0, it is the length of
    // its slot instead, brought into [first - unsure, first], for which there are blocks.
    Tensor first, unsure;  // I32 [sequences]
    // I32 [sequences]: its row of `tables`. Outside of them it has no blocks: its tokens get the KV
    // slot -1, and its row of `block_table` is left alone.
    Tensor slots;
    Tensor lengths;  // I32 [slots]: tokens of its sequence that stand before the one drawn last
    // told[told_start[s]..told_start[s + 1]) are the ids of sequence s from its block told_first[s]
    // on. Ids outside of a row of `tables` are dropped.
    Tensor told_start;  // I32 [sequences + 1]
    Tensor told_first;  // I32 [sequences]
    Tensor told;        // I32 [ids], as many as there is room for
    Tensor tables;      // I32 [slots, blocks_max], read and written
    // As Attention::Args::paths, or empty: a token aside of the first branch has the KV slot of its
    // place, as others, and a position that is as much less.
    Tensor paths;
    Tensor positions;    // I32 [tokens], written
    Tensor context;      // I32 [sequences], written: tokens up to the last one's, it included
    Tensor kv_slots;     // I32 [tokens], written: block * block_tokens + place within it, or -1
    Tensor block_table;  // I32 [sequences, blocks_max or fewer], written as far as contexts reach
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const PlaceTokens::Desc& desc, const PlaceTokens::Args& args);

Support RefPlaceTokensSupports(const PlaceTokens::Desc& desc, const device::DeviceFacts& facts);
Status RefPlaceTokens(device::Stream& stream, const PlaceTokens::Desc& desc,
                      const PlaceTokens::Args& args);

}  // namespace sluice::ops
