#include "exec/head_proposer.h"

#include "base/log.h"
#include "device/alignment.h"

namespace sluice::exec {

size_t HeadProposer::Carve(const device::View& view, DType dtype, int64_t width, const Sizes& sizes,
                           Buffers* buffers) {
  const size_t ids = device::AlignUp(static_cast<size_t>(sizes.tokens) * sizeof(int32_t));
  if (view.data != nullptr) {
    device::View behind = view;
    behind.data += ids;
    behind.bytes -= ids;
    buffers->ids = ops::Dense(view, DType::kI32, {sizes.tokens});
    buffers->hidden = ops::Dense(behind, dtype, {sizes.sequences, width});
  }
  return ids + device::AlignUp(RowBytes(dtype, static_cast<size_t>(sizes.sequences * width)));
}

size_t HeadProposer::DeviceBytes(const files::ModelConfig& config,
                                 const model::ModelOptions& options, const Sizes& sizes) {
  const int32_t width =
      batch::BlocksFor(model::Positions(config, options), options.kernel_block_tokens);
  return Carve({}, options.activation, config.hidden_size, sizes, nullptr) +
         DraftChain::DeviceBytes(sizes.sequences, width, sizes.target_ids);
}

Result<std::unique_ptr<HeadProposer>> HeadProposer::Make(device::Device& device, DType dtype,
                                                         int64_t width, const Sizes& sizes,
                                                         Shared shared,
                                                         std::vector<ops::BindRecord>* records) {
  std::unique_ptr<HeadProposer> proposer(new HeadProposer(std::move(shared)));
  SLUICE_ASSIGN_OR_RETURN(proposer->chain_, DraftChain::Make(device, sizes.sequences,
                                                             proposer->shared_.chain, records));
  const size_t bytes = Carve({}, dtype, width, sizes, nullptr);
  SLUICE_ASSIGN_OR_RETURN(proposer->memory_, device.Allocate(bytes, device::MemoryKind::kDevice));
  Carve(proposer->memory_.view(), dtype, width, sizes, &proposer->buffers_);
  return proposer;
}

Status HeadProposer::CopyBlocks(device::Stream& stream, std::span<const kvstore::BlockMove> moves) {
  return shared_.kv == nullptr ? OkStatus() : shared_.kv->CopyBlocks(stream, moves);
}

Status HeadProposer::Guess(device::Stream& stream, const model::DeviceBatch& batch,
                           const ops::Tensor& hidden, const StepInputs& given, int number,
                           model::LayerObserver* observer) {
  const int64_t drafts = batch.rows();
  model::ForwardContext context = shared_.context;
  context.stream = &stream;
  context.observer = observer;
  model::DraftOutputs outputs;
  if (drafts > 0) outputs = {chain_->logits(drafts), buffers_.hidden.Rows(0, drafts)};
  SLUICE_RETURN_IF_ERROR(shared_.pass(context, batch, hidden, outputs));
  if (drafts == 0) return OkStatus();
  return chain_->Keep(stream, given, drafts, number, /*moved=*/number > 1 ? 1 : 0);
}

Status HeadProposer::Propose(device::Stream& stream, const StepInputs& given,
                             const model::DeviceBatch& placed, int guesses,
                             model::LayerObserver* observer) {
  if (failed_) return OkStatus();
  const bool apart = shared_.kv != nullptr;
  // A sink is told of the KV of every layer of the model's groups.
  if (guesses < 0 && (apart || observer == nullptr)) return OkStatus();
  const Status status = GuessAll(stream, given, placed, guesses, apart ? nullptr : observer);
  if (status.ok() || !apart) return status;
  failed_ = true;
  LogWarning("the head guesses no more; answers go on without it: ", status.message());
  return OkStatus();
}

Status HeadProposer::GuessAll(device::Stream& stream, const StepInputs& given,
                              const model::DeviceBatch& placed, int guesses,
                              model::LayerObserver* observer) {
  const int64_t tokens = placed.tokens(), drafts = guesses > 0 ? given.drafting.dims[0] : 0;
  const size_t groups = shared_.kv == nullptr ? placed.groups.size() : shared_.kv->groups();
  first_pass_ = placed;
  first_pass_.groups.assign(groups, {});
  first_pass_.groups[group()] = placed.groups[shared_.group];
  first_pass_.token_ids = buffers_.ids.Rows(0, tokens);
  first_pass_.logits_rows = chain_->rows(drafts);
  SLUICE_RETURN_IF_ERROR(chain_->Next(stream, given, placed, drafts, first_pass_.token_ids));
  SLUICE_RETURN_IF_ERROR(
      Guess(stream, first_pass_, shared_.hidden.Rows(0, tokens), given, 1, observer));
  if (drafts == 0) return OkStatus();
  next_pass_.groups.assign(groups, {});
  for (int number = 2; number <= guesses; ++number) {
    SLUICE_RETURN_IF_ERROR(
        chain_->Place(stream, given, drafts, &next_pass_, &next_pass_.groups[group()]));
    SLUICE_RETURN_IF_ERROR(
        Guess(stream, next_pass_, buffers_.hidden.Rows(0, drafts), given, number, nullptr));
  }
  return OkStatus();
}

}  // namespace sluice::exec
