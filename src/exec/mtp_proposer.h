// MtpProposer: the model's head guesses, behind each step, what its sequences draw next. One pass
// over the step's tokens keeps the head's KV of all positions that count and gives the first
// guesses; each further guess is a pass over one token of each sequence that goes on guessing, at
// the position behind. What stands where is known on the device alone. Step thread only.
#pragma once

#include <memory>
#include <vector>

#include "exec/step_inputs.h"
#include "model/model.h"
#include "ops/draft_tokens.h"
#include "ops/place_tokens.h"
#include "ops/sampling.h"

namespace sluice::exec {

class MtpProposer {
 public:
  // What it shares with the executor that owns it: all are on the device and outlive it.
  struct Shared {
    model::ForwardContext context;   // without a stream
    ops::Tensor lengths, known;      // sample::Sampler::lengths and tokens
    ops::Tensor table;               // of the head's group, I32 [slots, blocks_max]
    ops::PlaceTokens::Desc placing;  // of that group
    ops::Tensor hidden;              // [tokens, hidden size]: model::Outputs::hidden of a step
    ops::Tensor logits;              // F32 [rows, vocabulary], of which no row is read any more
  };
  struct Sizes {
    int64_t tokens = 0;     // of a step
    int64_t sequences = 0;  // that guess
  };
  static Result<std::unique_ptr<MtpProposer>> Make(device::Device& device,
                                                   const model::Model& model, const Sizes& sizes,
                                                   Shared shared,
                                                   std::vector<ops::BindRecord>* records);
  // Device memory that Make takes.
  static size_t DeviceBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                            const Sizes& sizes);

  // Behind the sampling of a step whose inputs were `given` and `placed`: `guesses` of each
  // sequence that guesses; 0: only the head's KV is kept. `observer` is told of the KV that the
  // first pass writes; may be null.
  Status Propose(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                 int guesses, model::LayerObserver* observer);

 private:
  // Tensors of Sizes in memory_; those of a call are their beginnings.
  struct Buffers {
    ops::Tensor ids, chain_ids, rows, first, chain_rows, zeros;  // I32
    ops::Tensor positions, context, kv_slots, block_table;       // I32, of a token each
    ops::Tensor sample_rows, outputs, top_ids, top_logprobs;
    ops::Tensor hidden;  // [sequences, hidden size]
  };
  static size_t Carve(const device::View& view, const files::ModelConfig& config,
                      const model::ModelOptions& options, const Sizes& sizes, int64_t table_width,
                      Buffers* buffers);
  MtpProposer(const model::Model& model, const Sizes& sizes, Shared shared)
      : model_(model), sizes_(sizes), shared_(std::move(shared)) {}
  Status Fill(device::Device& device);
  // One pass, and its guesses to their slots.
  Status Guess(device::Stream& stream, const model::DeviceBatch& batch, const ops::Tensor& hidden,
               const StepInputs& given, int number, model::LayerObserver* observer);

  const model::Model& model_;
  const Sizes sizes_;
  const Shared shared_;
  int group_ = 0;  // of the head
  device::Buffer memory_;
  Buffers buffers_;
  model::DeviceBatch first_pass_, chain_;  // of the call
  ops::Bound<ops::NextTokens> next_;
  ops::Bound<ops::KeepGuesses> keep_;
  ops::Bound<ops::Sample> sample_;
  ops::Bound<ops::PlaceTokens> place_;
};

}  // namespace sluice::exec
