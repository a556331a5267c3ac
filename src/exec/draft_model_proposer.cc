#include "exec/draft_model_proposer.h"

#include "base/log.h"
#include "device/alignment.h"

namespace sluice::exec {
namespace {

size_t IdBytes(int64_t tokens) {
  return device::AlignUp(static_cast<size_t>(tokens) * sizeof(int32_t));
}

}  // namespace

size_t DraftModelProposer::DeviceBytes(const files::ModelConfig& config,
                                       const model::ModelOptions& options, int64_t sequences,
                                       int drawn, int depths) {
  const auto ids = static_cast<int64_t>(config.target_ids.size());
  return IdBytes(options.max_tokens) +
         DraftKv::DeviceBytes(model::LayerGroups(config, options).size(), sequences) +
         DraftChain::DeviceBytes({.sequences = sequences,
                                  .table_width = batch::BlocksFor(model::Positions(config, options),
                                                                  options.kernel_block_tokens),
                                  .guesses = ids > 0 ? ids : config.vocab_size,
                                  .target_ids = config.target_ids.size(),
                                  .drawn = drawn,
                                  .vocab = config.vocab_size,
                                  .tree = depths > 0 ? kGuessTree : TreeShape(),
                                  .tree_depths = depths,
                                  .tokens = options.max_tokens});
}

Result<std::unique_ptr<DraftModelProposer>> DraftModelProposer::Make(
    device::Device& device, const model::Model& model, Shared shared,
    std::vector<ops::BindRecord>* records) {
  std::unique_ptr<DraftModelProposer> proposer(new DraftModelProposer(model, std::move(shared)));
  const Shared& given = proposer->shared_;
  SLUICE_ASSIGN_OR_RETURN(proposer->chain_, DraftChain::Make(device, given.sequences, given.tokens,
                                                             given.chain, records));
  SLUICE_ASSIGN_OR_RETURN(proposer->resolve_,
                          ops::Bind<ops::ResolveTokens>(device.ops(), {}, records));
  SLUICE_ASSIGN_OR_RETURN(proposer->memory_,
                          device.Allocate(IdBytes(given.tokens), device::MemoryKind::kDevice));
  proposer->ids_ = ops::Dense(proposer->memory_.view(), DType::kI32, {given.tokens});
  return proposer;
}

Status DraftModelProposer::CopyBlocks(device::Stream& stream,
                                      std::span<const batch::BlockCopy> copies) {
  return shared_.kv->CopyBlocks(stream, copies);
}

Status DraftModelProposer::Propose(device::Stream& stream, const StepInputs& given,
                                   const model::DeviceBatch& placed, int guesses,
                                   model::LayerObserver*) {
  if (guesses < 0 || failed_) return OkStatus();
  const Status status = Guess(stream, given, placed, guesses);
  if (status.ok()) return status;
  failed_ = true;
  LogWarning("the draft model guesses no more; answers go on without it: ", status.message());
  return OkStatus();
}

Status DraftModelProposer::Guess(device::Stream& stream, const StepInputs& given,
                                 const model::DeviceBatch& placed, int guesses) {
  model::ForwardContext context = shared_.kv->Context(stream, shared_.workspace);
  followed_ = placed;
  if (chain_->trees() && !placed.paths.empty())
    SLUICE_RETURN_IF_ERROR(chain_->Follow(stream, given, placed, &followed_));
  batch_ = followed_;
  batch_.logits_rows.dims[0] = 0;
  batch_.groups.assign(model_.groups().size(), placed.groups[shared_.kv->followed()]);
  SLUICE_RETURN_IF_ERROR(model_.Forward(context, batch_, {}));
  const int64_t drafts = guesses > 0 ? given.drafting.dims[0] : 0;
  if (drafts == 0) return OkStatus();
  ops::Tensor ids = ids_;
  ids.dims[0] = placed.tokens();
  SLUICE_RETURN_IF_ERROR(chain_->Next(stream, given, followed_, drafts, ids));
  ops::Tensor known = shared_.chain.known;
  known.rank = 1;
  known.dims[0] = shared_.chain.known.size();
  known.strides[0] = 1;
  SLUICE_RETURN_IF_ERROR(resolve_(stream, {given.draft_ids, known}));
  for (int number = 1; number <= guesses; ++number) {
    model::GroupInputs group;
    const bool beams = chain_->trees() && number > 1;
    SLUICE_RETURN_IF_ERROR(beams
                               ? chain_->PlaceBeams(stream, given, drafts, number, &batch_, &group)
                               : chain_->Place(stream, given, drafts, &batch_, &group));
    batch_.groups.assign(model_.groups().size(), group);
    if (number == 1) batch_.token_ids = given.draft_ids;
    SLUICE_RETURN_IF_ERROR(model_.Forward(context, batch_, {chain_->logits(drafts, number)}));
    const int moved = beams ? chain_->tree().beams : 1;
    SLUICE_RETURN_IF_ERROR(chain_->trees() ? chain_->Grow(stream, given, drafts, number, moved)
                                           : chain_->Keep(stream, given, drafts, number, moved));
  }
  return OkStatus();
}

}  // namespace sluice::exec
