// MtpProposer: the model's head guesses, behind each step, what its sequences draw next. One pass
// over the step's tokens keeps the head's KV of all positions that count and gives the first
// guesses; each further guess is a pass over one token of each sequence that goes on guessing, at
// the position behind. Step thread only.
#pragma once

#include <memory>
#include <vector>

#include "exec/device_proposer.h"
#include "exec/draft_chain.h"

namespace sluice::exec {

class MtpProposer final : public DeviceProposer {
 public:
  // What it shares with the executor that owns it: all are on the device and outlive it.
  struct Shared {
    model::ForwardContext context;  // without a stream
    DraftChain::Shared chain;       // with the blocks of the head's group
    ops::Tensor hidden;             // [tokens, hidden size]: model::Outputs::hidden of a step
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

  // `observer` is told of the KV that the first pass writes.
  Status Propose(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                 int guesses, model::LayerObserver* observer) override;

 private:
  // Tensors of Sizes in memory_; those of a call are their beginnings.
  struct Buffers {
    ops::Tensor ids;     // I32 [tokens]
    ops::Tensor hidden;  // [sequences, hidden size]
  };
  static size_t Carve(const device::View& view, const files::ModelConfig& config,
                      const model::ModelOptions& options, const Sizes& sizes, Buffers* buffers);
  MtpProposer(const model::Model& model, Shared shared)
      : model_(model), shared_(std::move(shared)) {}
  // One pass, and its guesses to their slots.
  Status Guess(device::Stream& stream, const model::DeviceBatch& batch, const ops::Tensor& hidden,
               const StepInputs& given, int number, model::LayerObserver* observer);

  const model::Model& model_;
  const Shared shared_;
  int group_ = 0;  // of the head
  std::unique_ptr<DraftChain> chain_;
  device::Buffer memory_;
  Buffers buffers_;
  model::DeviceBatch first_pass_, next_pass_;  // of the call
};

}  // namespace sluice::exec
