// What a head that guesses tokens reads and gives, beside its model (model::Model::Draft).
// NextTokens makes the inputs of its first pass from those of a step and from what was drawn: the
// token behind each, and of sequences that go on guessing the row whose guess comes first.
// KeepGuesses takes the guesses of a pass to the slots of their sequences, and to the inputs of the
// next pass, of a token each.
//
// Sequences and slots outside of their arrays are passed over; a guess outside of `target_ids` is
// token 0.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct NextTokens {
  static constexpr std::string_view kName = "next_tokens";
  struct Desc {
    std::string ToString() const;
  };
  struct Args {
    // Of a step; see PlaceTokens. Sequence s has the tokens [query_start[s], query_start[s + 1]).
    Tensor token_ids;    // I32 [tokens]
    Tensor query_start;  // I32 [sequences + 1]
    Tensor positions;    // I32 [tokens]
    Tensor slots;        // I32 [sequences]
    // I32 [sequences]: the token behind a sequence's last one. Below 0: what was drawn last in its
    // slot; then only tokens up to the one behind which that stands count, and drafts behind it
    // were wrong.
    Tensor next;
    // I32 [drafts], drafts <= sequences: which sequences guess; below 0: none.
    Tensor drafting;
    Tensor lengths;  // I32 [slots]: tokens before the one that was drawn last
    Tensor known;    // I32 [slots, numbers]: that one, and guesses
    Tensor ids;      // I32 [tokens], written: the token behind each; 0 of padding
    Tensor rows;     // I32 [drafts], written: the last token that counts of a sequence that guesses
    Tensor first;    // I32 [drafts], written: the position behind that one's; of none both are 0
  };
};

struct KeepGuesses {
  static constexpr std::string_view kName = "keep_guesses";
  struct Desc {
    std::string ToString() const;
  };
  struct Args {
    Tensor outputs;  // U8 [drafts, sizeof(SampleOutput)], as Sample left them
    Tensor slots;    // I32 [drafts]; outside of `known`: there is no guess
    // I32 [guesses]: of what Sample took the id that counts, at least one; empty: they are the
    // same.
    Tensor target_ids;
    int32_t number = 1;  // of the guesses, from 1 on
    int32_t moved = 0;   // what is added to `first` of those that guess
    Tensor known;        // I32 [slots, numbers]: number `number` is written
    Tensor ids;          // I32 [drafts], written: the guess, or 0
    Tensor first;        // I32 [drafts]
    // U8 [drafts, sizeof(SampleRow)]: what Sample read, whose positions move one further; empty:
    // they stay where they are.
    Tensor rows;
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const NextTokens::Desc& desc, const NextTokens::Args& args);
Status CheckArgs(const KeepGuesses::Desc& desc, const KeepGuesses::Args& args);

Support RefNextTokensSupports(const NextTokens::Desc& desc, const device::DeviceFacts& facts);
Status RefNextTokens(device::Stream& stream, const NextTokens::Desc& desc,
                     const NextTokens::Args& args);
Support RefKeepGuessesSupports(const KeepGuesses::Desc& desc, const device::DeviceFacts& facts);
Status RefKeepGuesses(device::Stream& stream, const KeepGuesses::Desc& desc,
                      const KeepGuesses::Args& args);

}  // namespace sluice::ops
