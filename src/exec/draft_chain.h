// DraftChain: what every proposer on the device does between its passes. It finds where the
// sequences of a step stand when the step has drawn, takes the likeliest token of each row of
// logits as a guess to its slot, and places the next pass, of a token of each sequence, behind it.
// What stands where is known on the device alone. Step thread only.
#pragma once

#include <memory>
#include <vector>

#include "exec/step_inputs.h"
#include "ops/draft_tokens.h"
#include "ops/place_tokens.h"
#include "ops/sampling.h"

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
  };
  static Result<std::unique_ptr<DraftChain>> Make(device::Device& device, int64_t sequences,
                                                  Shared shared,
                                                  std::vector<ops::BindRecord>* records);
  // Device memory that Make takes.
  static size_t DeviceBytes(int64_t sequences, int64_t table_width, size_t target_ids);

  // Behind a step: rows() and positions of the `drafts` first sequences that guess. `ids` I32
  // [tokens] gets the token behind each of the step's.
  Status Next(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
              int64_t drafts, const ops::Tensor& ids);
  // I32 [drafts]: of the step, the last token that counts of each sequence that guesses.
  ops::Tensor rows(int64_t drafts) const;
  // F32 [drafts, guesses]: where a pass leaves the logits of its guesses.
  ops::Tensor logits(int64_t drafts) const;
  // Takes the guesses from logits(drafts). Place puts the pass after it `moved` positions further.
  Status Keep(device::Stream& stream, const StepInputs& given, int64_t drafts, int number,
              int moved);
  // A pass over the last guess of each sequence: all of *batch but its groups, and the inputs of
  // every group that uses the blocks.
  Status Place(device::Stream& stream, const StepInputs& given, int64_t drafts,
               model::DeviceBatch* batch, model::GroupInputs* group);

 private:
  struct Buffers {
    ops::Tensor ids, rows, first, every_row, zeros;         // I32
    ops::Tensor positions, context, kv_slots, block_table;  // I32, of a token each
    ops::Tensor sample_rows, outputs, top_ids, top_logprobs;
    ops::Tensor target_ids;  // I32 [guesses]; empty: ids are the same
  };
  static size_t Carve(const device::View& view, int64_t sequences, int64_t table_width,
                      size_t target_ids, Buffers* buffers);
  DraftChain(int64_t sequences, Shared shared)
      : sequences_(sequences), shared_(std::move(shared)) {}
  Status Fill(device::Device& device);

  const int64_t sequences_;
  const Shared shared_;
  device::Buffer memory_;
  Buffers buffers_;
  ops::Bound<ops::NextTokens> next_;
  ops::Bound<ops::KeepGuesses> keep_;
  ops::Bound<ops::Sample> sample_;
  ops::Bound<ops::PlaceTokens> place_;
};

}  // namespace sluice::exec
