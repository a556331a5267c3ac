// DraftModelProposer: a second, smaller model guesses, behind each step, what its sequences draw
// next. Its KV lies in pools of its own, in blocks of the same numbers as those of the target's
// layers of full attention: whoever shares, copies, keeps or gives up a block there does so here,
// and nobody keeps a second book. A pass over the step's tokens keeps their KV; then each guess is
// a pass over one token of each sequence that guesses, the first over the token that was drawn. A
// draft that meets an error says so once and guesses no more; what its slots hold is verified like
// any guess. Step thread only.
#pragma once

#include <memory>
#include <vector>

#include "exec/device_proposer.h"
#include "exec/draft_chain.h"
#include "ops/embedding.h"

namespace sluice::exec {

class DraftModelProposer final : public DeviceProposer {
 public:
  // What it shares with the executor that owns it: all are on the device and outlive it.
  struct Shared {
    device::View workspace;             // >= the model's workspace_bytes()
    DraftChain::Shared chain;           // with the blocks of the target's group
    int group = 0;                      // the target's, of full attention
    int64_t tokens = 0, sequences = 0;  // of a step
  };
  // `store` has the model's groups, each of as many blocks as the target's group.
  static Result<std::unique_ptr<DraftModelProposer>> Make(device::Device& device,
                                                          const model::Model& model,
                                                          kvstore::KvStore& store, Shared shared,
                                                          std::vector<ops::BindRecord>* records);
  // Device memory that Make takes for `sequences`, of options.max_tokens tokens in a step.
  static size_t DeviceBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                            int64_t sequences);

  Status CopyBlocks(device::Stream& stream, std::span<const kvstore::BlockMove> moves) override;
  Status Propose(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                 int guesses, model::LayerObserver* observer) override;
  bool failed() const override { return failed_; }

 private:
  DraftModelProposer(const model::Model& model, kvstore::KvStore& store, Shared shared)
      : model_(model), store_(store), shared_(std::move(shared)) {}
  Status Guess(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
               int guesses);

  const model::Model& model_;
  kvstore::KvStore& store_;
  const Shared shared_;
  std::unique_ptr<DraftChain> chain_;
  device::Buffer memory_;                     // of ids_ and plans_
  ops::Tensor ids_;                           // I32 [tokens]: what NextTokens gives, unread
  std::vector<ops::Tensor> attention_plans_;  // by group
  std::vector<ops::PagedKv> kv_;              // by layer
  ops::Bound<ops::ResolveTokens> resolve_;
  std::vector<kvstore::BlockMove> moves_;
  model::DeviceBatch batch_;  // of the pass
  bool failed_ = false;
};

}  // namespace sluice::exec
