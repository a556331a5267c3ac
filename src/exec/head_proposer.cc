#include "exec/head_proposer.h"

#include <algorithm>

#include "base/log.h"
#include "exec/carver.h"

namespace sluice::exec {

size_t HeadProposer::Carve(const device::View& view, int64_t width, const Sizes& sizes,
                           Buffers* buffers) {
  Carver carver(view);
  const int64_t beams = sizes.sequences * sizes.tree.beams;
  buffers->ids = carver.Take({sizes.tokens});
  buffers->hidden = carver.Take({std::max(sizes.sequences, beams), width}, sizes.dtype);
  if (beams > 0) {
    buffers->before = carver.Take({beams, width}, sizes.dtype);
    buffers->followed = carver.Take({sizes.tokens, sizes.read_width}, sizes.read);
  }
  if (sizes.heads == 1) return carver.used();
  buffers->more_ids = carver.Take({sizes.tokens});
  buffers->every = carver.Take({sizes.tokens, width}, sizes.dtype);
  buffers->more_every = carver.Take({sizes.tokens, width}, sizes.dtype);
  return carver.used();
}

size_t HeadProposer::DeviceBytes(const files::ModelConfig& config,
                                 const model::ModelOptions& options, const Sizes& sizes) {
  const int32_t width =
      batch::BlocksFor(model::Positions(config, options), options.kernel_block_tokens);
  Buffers none;
  return Carve({}, config.hidden_size, sizes, &none) +
         DraftChain::DeviceBytes({.sequences = sizes.sequences,
                                  .table_width = width,
                                  .guesses = sizes.target_ids > 0
                                                 ? static_cast<int64_t>(sizes.target_ids)
                                                 : int64_t{config.vocab_size},
                                  .target_ids = sizes.target_ids,
                                  .drawn = sizes.drawn,
                                  .vocab = config.vocab_size,
                                  .block = sizes.block,
                                  .tree = sizes.tree,
                                  .tree_depths = sizes.tree_depths,
                                  .tokens = sizes.tokens});
}

Result<std::unique_ptr<HeadProposer>> HeadProposer::Make(device::Device& device, int64_t width,
                                                         const Sizes& sizes, Shared shared,
                                                         std::vector<ops::BindRecord>* records) {
  std::unique_ptr<HeadProposer> proposer(new HeadProposer(std::move(shared)));
  SLUICE_ASSIGN_OR_RETURN(proposer->chain_, DraftChain::Make(device, sizes.sequences, sizes.tokens,
                                                             proposer->shared_.chain, records));
  if (sizes.tree.beams > 0) {
    const ops::OpTable& table = device.ops();
    SLUICE_ASSIGN_OR_RETURN(proposer->gather_beams_,
                            ops::Bind<ops::GatherRows>(table, {sizes.dtype, width}, records));
    SLUICE_ASSIGN_OR_RETURN(
        proposer->gather_step_,
        ops::Bind<ops::GatherRows>(table, {sizes.read, sizes.read_width}, records));
  }
  const size_t bytes = Carve({}, width, sizes, &proposer->buffers_);
  SLUICE_ASSIGN_OR_RETURN(proposer->memory_, device.Allocate(bytes, device::MemoryKind::kDevice));
  Carve(proposer->memory_.view(), width, sizes, &proposer->buffers_);
  return proposer;
}

Status HeadProposer::CopyBlocks(device::Stream& stream, std::span<const batch::BlockCopy> copies) {
  return shared_.kv == nullptr ? OkStatus() : shared_.kv->CopyBlocks(stream, copies);
}

Status HeadProposer::Guess(device::Stream& stream, const model::DeviceBatch& batch,
                           const ops::Tensor& hidden, const StepInputs& given, int number,
                           model::LayerObserver* observer) {
  const int64_t drafts = batch.rows();
  model::ForwardContext context = shared_.context;
  context.stream = &stream;
  context.observer = observer;
  model::DraftOutputs outputs;
  if (drafts > 0) outputs = {chain_->logits(drafts, number), buffers_.hidden.Rows(0, drafts)};
  if (number < shared_.heads) outputs.every = buffers_.every.Rows(0, batch.tokens());
  SLUICE_RETURN_IF_ERROR(shared_.pass(context, batch, hidden, outputs, number));
  if (drafts == 0) return OkStatus();
  if (chain_->trees()) return chain_->Grow(stream, given, drafts, number, /*moved=*/0);
  return chain_->Keep(stream, given, drafts, number, /*moved=*/number > shared_.heads ? 1 : 0);
}

Status HeadProposer::Follow(device::Stream& stream, const StepInputs& given,
                            const model::DeviceBatch& placed, ops::Tensor* hidden) {
  if (!chain_->trees() || placed.paths.empty()) {
    followed_ = placed;
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(chain_->Follow(stream, given, placed, &followed_));
  const ops::Tensor in_a_row = buffers_.followed.Rows(0, placed.tokens());
  SLUICE_RETURN_IF_ERROR(gather_step_(stream, {*hidden, chain_->order(placed.tokens()), in_a_row}));
  *hidden = in_a_row;
  return OkStatus();
}

Status HeadProposer::GuessNodes(device::Stream& stream, const StepInputs& given, int64_t drafts,
                                int number) {
  SLUICE_RETURN_IF_ERROR(
      chain_->PlaceBeams(stream, given, drafts, number, &next_pass_, &next_pass_.groups[group()]));
  const int64_t rows = chain_->Rows(drafts, number);
  const ops::Tensor before = buffers_.before.Rows(0, rows);
  const ops::Tensor given_before = buffers_.hidden.Rows(0, chain_->Rows(drafts, number - 1));
  SLUICE_RETURN_IF_ERROR(gather_beams_(stream, {given_before, chain_->beam_order(drafts), before}));
  model::ForwardContext context = shared_.context;
  context.stream = &stream;
  SLUICE_RETURN_IF_ERROR(
      shared_.pass(context, next_pass_, before,
                   {chain_->logits(drafts, number), buffers_.hidden.Rows(0, rows)}, number));
  return chain_->Grow(stream, given, drafts, number, /*moved=*/chain_->tree().beams);
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
  ops::Tensor hidden = shared_.hidden.Rows(0, tokens);
  SLUICE_RETURN_IF_ERROR(Follow(stream, given, placed, &hidden));
  first_pass_ = followed_;
  first_pass_.groups.assign(groups, {});
  first_pass_.groups[group()] = placed.groups[shared_.group];
  first_pass_.token_ids = buffers_.ids.Rows(0, tokens);
  // Where blocks begin with what was drawn, the first pass guesses nothing.
  first_pass_.logits_rows = chain_->rows(shared_.chain.first_number == 0 ? 0 : drafts);
  SLUICE_RETURN_IF_ERROR(chain_->Next(stream, given, followed_, drafts, first_pass_.token_ids));
  SLUICE_RETURN_IF_ERROR(Guess(stream, first_pass_, hidden, given, 1, observer));
  SLUICE_RETURN_IF_ERROR(PassFurtherHeads(stream, given, placed, drafts, guesses, observer));
  if (drafts == 0) return OkStatus();
  next_pass_.groups.assign(groups, {});
  if (shared_.chain.block > 0) return GuessBlock(stream, given, drafts, guesses);
  for (int number = 2; chain_->trees() && number <= guesses; ++number)
    SLUICE_RETURN_IF_ERROR(GuessNodes(stream, given, drafts, number));
  if (chain_->trees()) return OkStatus();
  for (int number = shared_.heads + 1; number <= guesses; ++number) {
    SLUICE_RETURN_IF_ERROR(
        chain_->Place(stream, given, drafts, &next_pass_, &next_pass_.groups[group()]));
    SLUICE_RETURN_IF_ERROR(
        Guess(stream, next_pass_, buffers_.hidden.Rows(0, drafts), given, number, nullptr));
  }
  return OkStatus();
}

Status HeadProposer::GuessBlock(device::Stream& stream, const StepInputs& given, int64_t drafts,
                                int guesses) {
  const int tokens = guesses + 1 - shared_.chain.first_number;
  if (tokens == 0) return OkStatus();
  ops::Tensor drawn;
  if (shared_.chain.first_number == 0) {
    SLUICE_ASSIGN_OR_RETURN(drawn, chain_->Drawn(stream, given, drafts));
  }
  SLUICE_RETURN_IF_ERROR(
      chain_->PlaceBlock(stream, given, drafts, tokens, &next_pass_, &next_pass_.groups[group()]));
  model::ForwardContext context = shared_.context;
  context.stream = &stream;
  SLUICE_RETURN_IF_ERROR(shared_.pass(context, next_pass_, drawn,
                                      {chain_->block_logits(drafts, tokens)}, /*number=*/2));
  return chain_->KeepBlock(stream, given, drafts, tokens);
}

Status HeadProposer::PassFurtherHeads(device::Stream& stream, const StepInputs& given,
                                      const model::DeviceBatch& placed, int64_t drafts, int guesses,
                                      model::LayerObserver* observer) {
  const int64_t tokens = placed.tokens();
  for (int number = 2; number <= shared_.heads; ++number) {
    // Behind what the last pass read there stands the guess that it gave.
    first_pass_.token_ids = buffers_.more_ids.Rows(0, tokens);
    if (number > guesses) drafts = 0;
    first_pass_.logits_rows = chain_->rows(drafts);
    SLUICE_RETURN_IF_ERROR(chain_->NextBehind(stream, given, placed, drafts, number,
                                              buffers_.ids.Rows(0, tokens), first_pass_.token_ids));
    std::swap(buffers_.ids, buffers_.more_ids);
    std::swap(buffers_.every, buffers_.more_every);
    SLUICE_RETURN_IF_ERROR(
        Guess(stream, first_pass_, buffers_.more_every.Rows(0, tokens), given, number, observer));
  }
  return OkStatus();
}

}  // namespace sluice::exec
