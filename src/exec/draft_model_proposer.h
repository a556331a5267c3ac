// DraftModelProposer: a second, smaller model guesses, behind each step, what its sequences draw
// next. A pass over the step's tokens keeps their KV; then each guess is a pass over one token of
// each sequence that guesses, the first over the token that was drawn. A draft that meets an error
// says so once and guesses no more; what its slots hold is verified like any guess. Step thread
// only.
#pragma once

#include <memory>
#include <vector>

#include "exec/device_proposer.h"
#include "exec/draft_chain.h"
#include "exec/draft_kv.h"
#include "ops/embedding.h"

namespace sluice::exec {

class DraftModelProposer final : public DeviceProposer {
 public:
  // What it shares with the executor that owns it: all are on the device and outlive it.
  struct Shared {
    device::View workspace;             // >= the model's workspace_bytes()
    DraftChain::Shared chain;           // with the blocks of the group that `kv` follows
    std::unique_ptr<DraftKv> kv;        // of the model's groups
    int64_t tokens = 0, sequences = 0;  // of a step
  };
  static Result<std::unique_ptr<DraftModelProposer>> Make(device::Device& device,
                                                          const model::Model& model, Shared shared,
                                                          std::vector<ops::BindRecord>* records);
  // Device memory that Make takes for `sequences`, of options.max_tokens tokens in a step, and
  // DraftChain::Shared::drawn.
  // `depths`: DraftChain::Shared::tree_depths, where guesses are trees.
  static size_t DeviceBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                            int64_t sequences, int drawn = 0, int depths = 0);

  Status CopyBlocks(device::Stream& stream, std::span<const batch::BlockCopy> copies) override;
  Status Propose(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                 int guesses, model::LayerObserver* observer) override;
  bool failed() const override { return failed_; }
  sample::Proposals proposals() const override { return chain_->proposals(); }
  ops::Tensor nodes(int64_t drafts) const override { return chain_->nodes(drafts); }
  TreeShape tree() const override { return chain_->tree(); }

 private:
  DraftModelProposer(const model::Model& model, Shared shared)
      : model_(model), shared_(std::move(shared)) {}
  Status Guess(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
               int guesses);

  const model::Model& model_;
  const Shared shared_;
  std::unique_ptr<DraftChain> chain_;
  device::Buffer memory_;  // of ids_
  ops::Tensor ids_;        // I32 [tokens]: what NextTokens gives, unread
  ops::Bound<ops::ResolveTokens> resolve_;
  model::DeviceBatch batch_, followed_;  // of the pass; of the step's tokens in a row
  bool failed_ = false;
};

}  // namespace sluice::exec
