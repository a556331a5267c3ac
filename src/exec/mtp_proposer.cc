#include "exec/mtp_proposer.h"

#include "device/alignment.h"

namespace sluice::exec {
size_t MtpProposer::Carve(const device::View& view, const files::ModelConfig& config,
                          const model::ModelOptions& options, const Sizes& sizes,
                          Buffers* buffers) {
  const size_t ids = device::AlignUp(static_cast<size_t>(sizes.tokens) * sizeof(int32_t));
  if (view.data != nullptr) {
    device::View behind = view;
    behind.data += ids;
    behind.bytes -= ids;
    buffers->ids = ops::Dense(view, DType::kI32, {sizes.tokens});
    buffers->hidden = ops::Dense(behind, options.activation, {sizes.sequences, config.hidden_size});
  }
  return ids + device::AlignUp(RowBytes(options.activation,
                                        static_cast<size_t>(sizes.sequences * config.hidden_size)));
}

size_t MtpProposer::DeviceBytes(const files::ModelConfig& config,
                                const model::ModelOptions& options, const Sizes& sizes) {
  const int32_t width =
      batch::BlocksFor(model::Positions(config, options), options.kernel_block_tokens);
  return Carve({}, config, options, sizes, nullptr) +
         DraftChain::DeviceBytes(sizes.sequences, width);
}

Result<std::unique_ptr<MtpProposer>> MtpProposer::Make(device::Device& device,
                                                       const model::Model& model,
                                                       const Sizes& sizes, Shared shared,
                                                       std::vector<ops::BindRecord>* records) {
  std::unique_ptr<MtpProposer> proposer(new MtpProposer(model, std::move(shared)));
  proposer->group_ = model.group_of(model.config().num_layers);
  SLUICE_ASSIGN_OR_RETURN(proposer->chain_, DraftChain::Make(device, sizes.sequences,
                                                             proposer->shared_.chain, records));
  const size_t bytes = Carve({}, model.config(), model.options(), sizes, nullptr);
  SLUICE_ASSIGN_OR_RETURN(proposer->memory_, device.Allocate(bytes, device::MemoryKind::kDevice));
  Carve(proposer->memory_.view(), model.config(), model.options(), sizes, &proposer->buffers_);
  return proposer;
}

Status MtpProposer::Guess(device::Stream& stream, const model::DeviceBatch& batch,
                          const ops::Tensor& hidden, const StepInputs& given, int number,
                          model::LayerObserver* observer) {
  const int64_t drafts = batch.rows();
  model::ForwardContext context = shared_.context;
  context.stream = &stream;
  context.observer = observer;
  model::DraftOutputs outputs;
  if (drafts > 0) outputs = {chain_->logits(drafts), buffers_.hidden.Rows(0, drafts)};
  SLUICE_RETURN_IF_ERROR(model_.Draft(context, batch, hidden, outputs));
  if (drafts == 0) return OkStatus();
  return chain_->Keep(stream, given, drafts, number, /*moved=*/number > 1 ? 1 : 0);
}

Status MtpProposer::Propose(device::Stream& stream, const StepInputs& given,
                            const model::DeviceBatch& placed, int guesses,
                            model::LayerObserver* observer) {
  // A sink is told of the KV of every layer.
  if (guesses < 0 && observer == nullptr) return OkStatus();
  const int64_t tokens = placed.tokens(), drafts = guesses > 0 ? given.drafting.dims[0] : 0;
  first_pass_ = placed;
  first_pass_.token_ids = buffers_.ids.Rows(0, tokens);
  first_pass_.logits_rows = chain_->rows(drafts);
  SLUICE_RETURN_IF_ERROR(chain_->Next(stream, given, placed, drafts, first_pass_.token_ids));
  SLUICE_RETURN_IF_ERROR(
      Guess(stream, first_pass_, shared_.hidden.Rows(0, tokens), given, 1, observer));
  if (drafts == 0) return OkStatus();
  next_pass_.groups.assign(placed.groups.size(), {});
  for (int number = 2; number <= guesses; ++number) {
    SLUICE_RETURN_IF_ERROR(
        chain_->Place(stream, given, drafts, &next_pass_, &next_pass_.groups[group_]));
    SLUICE_RETURN_IF_ERROR(
        Guess(stream, next_pass_, buffers_.hidden.Rows(0, drafts), given, number, nullptr));
  }
  return OkStatus();
}

}  // namespace sluice::exec
