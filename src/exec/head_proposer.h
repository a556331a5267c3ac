// HeadProposer: heads guess, behind each step, what its sequences draw next: those in the model's
// checkpoint, or one of EAGLE's form beside it. One pass over the step's tokens, beside what the
// model gave for them, keeps the first head's KV of all positions that count and gives the first
// guesses. Each further head passes over the same positions, with the tokens one further behind,
// beside what the head before it gave, and gives the guesses of its number. Each guess behind these
// is a pass of the last head over one token of each sequence that goes on guessing, at the position
// behind, beside what it gave itself; or one pass over mask tokens gives all of them (a block, as a
// head of files::EagleForm::kParallel has it), or all guesses there are, where its first token is
// the one that was drawn (files::EagleForm::kDiffusion). Step thread only.
//
// Where a step ends in the midst of a prompt, heads behind the first see there the one token behind
// it that is known again and again: their drafts behind such a place may be worse.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exec/device_proposer.h"
#include "exec/draft_chain.h"
#include "exec/draft_kv.h"

namespace sluice::exec {

class HeadProposer final : public DeviceProposer {
 public:
  // The pass that gives the guesses of a number, from 1 on, as model::Model::Draft. The first one
  // reads what a step gave, and each further one what the one before it gave.
  using Pass =
      std::function<Status(model::ForwardContext&, const model::DeviceBatch&,
                           const ops::Tensor& hidden, const model::DraftOutputs&, int number)>;
  // What it shares with the executor that owns it: all are on the device and outlive it.
  struct Shared {
    Pass pass;
    model::ForwardContext context;  // without a stream
    DraftChain::Shared chain;       // with the blocks of the head's group
    ops::Tensor hidden;             // [tokens, any]: what a step gives for the first pass
    int group = 0;                  // of the step, whose blocks the heads use
    int heads = 1;
    // The head's KV where it lies apart from the model's: then its groups are counted by
    // themselves, and a pass that meets an error is the last. Null: it is in the model's groups.
    std::unique_ptr<DraftKv> kv;
  };
  struct Sizes {
    int64_t tokens = 0;         // of a step
    int64_t sequences = 0;      // that guess
    DType dtype = DType::kF32;  // of what a pass gives
    size_t target_ids = 0;      // DraftChain::Shared::target_ids
    int drawn = 0;              // DraftChain::Shared::drawn
    int block = 0;              // DraftChain::Shared::block
    int heads = 1;
    TreeShape tree = {};  // DraftChain::Shared::tree, and tree_depths
    int tree_depths = 0;
    int64_t read_width = 0;    // of Shared::hidden, where there are trees
    DType read = DType::kF32;  // its type
  };
  // `width` of what a pass gives.
  static Result<std::unique_ptr<HeadProposer>> Make(device::Device& device, int64_t width,
                                                    const Sizes& sizes, Shared shared,
                                                    std::vector<ops::BindRecord>* records);
  // Device memory that Make takes for a head of this width.
  static size_t DeviceBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                            const Sizes& sizes);

  Status CopyBlocks(device::Stream& stream, std::span<const batch::BlockCopy> copies) override;
  // `observer` is told of the KV that the first pass writes in the model's groups.
  Status Propose(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                 int guesses, model::LayerObserver* observer) override;
  bool failed() const override { return failed_; }
  sample::Proposals proposals() const override { return chain_->proposals(); }
  ops::Tensor nodes(int64_t drafts) const override { return chain_->nodes(drafts); }
  TreeShape tree() const override { return chain_->tree(); }

 private:
  // Tensors of Sizes in memory_; those of a call are their beginnings.
  struct Buffers {
    ops::Tensor ids;     // I32 [tokens]
    ops::Tensor hidden;  // [sequences, width]
    // Of several heads: what one gives for every token, [tokens, width], and, in turns with that
    // and with `ids`, what the next one reads.
    ops::Tensor every, more_every, more_ids;
    // Of trees: what a pass over beams reads, as `hidden`, and the first pass, as Shared::hidden.
    ops::Tensor before, followed;
  };
  static size_t Carve(const device::View& view, int64_t width, const Sizes& sizes,
                      Buffers* buffers);
  explicit HeadProposer(Shared shared) : shared_(std::move(shared)) {}
  Status GuessAll(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                  int guesses, model::LayerObserver* observer);
  // One pass, and its guesses to their slots.
  Status Guess(device::Stream& stream, const model::DeviceBatch& batch, const ops::Tensor& hidden,
               const StepInputs& given, int number, model::LayerObserver* observer);
  // Where drafts may be trees: what the first pass reads of a step, in first_pass_ and *hidden.
  Status Follow(device::Stream& stream, const StepInputs& given, const model::DeviceBatch& placed,
                ops::Tensor* hidden);
  // The pass over the beams before nodes of depth `number`, and these nodes.
  Status GuessNodes(device::Stream& stream, const StepInputs& given, int64_t drafts, int number);
  // The pass that gives all guesses behind the first.
  Status GuessBlock(device::Stream& stream, const StepInputs& given, int64_t drafts, int guesses);
  // The passes of all heads but the first over the step's tokens, in first_pass_; `drafts` of them
  // go on guessing, up to number `guesses`.
  Status PassFurtherHeads(device::Stream& stream, const StepInputs& given,
                          const model::DeviceBatch& placed, int64_t drafts, int guesses,
                          model::LayerObserver* observer);
  // Of the head's groups the one that its layer is in.
  int group() const { return shared_.kv == nullptr ? shared_.group : 0; }

  const Shared shared_;
  std::unique_ptr<DraftChain> chain_;
  device::Buffer memory_;
  Buffers buffers_;
  model::DeviceBatch first_pass_, next_pass_, followed_;    // of the call
  ops::Bound<ops::GatherRows> gather_beams_, gather_step_;  // of trees
  bool failed_ = false;
};

}  // namespace sluice::exec
