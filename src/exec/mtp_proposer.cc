#include "exec/mtp_proposer.h"

#include <numeric>

#include "device/alignment.h"
#include "ops/sample_row.h"

namespace sluice::exec {
namespace {

// The first `count` rows of a tensor.
ops::Tensor First(ops::Tensor tensor, int64_t count) {
  tensor.dims[0] = count;
  return tensor;
}

template <class T>
device::View HostView(const std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(const_cast<T*>(values.data())), values.size() * sizeof(T),
          device::MemoryKind::kHost, device::DeviceId()};
}

}  // namespace

size_t MtpProposer::Carve(const device::View& view, const files::ModelConfig& config,
                          const model::ModelOptions& options, const Sizes& sizes,
                          int64_t table_width, Buffers* buffers) {
  size_t used = 0;
  const auto take = [&](ops::Tensor* to, DType dtype, std::initializer_list<int64_t> dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    const size_t at = used;
    used += device::AlignUp(RowBytes(dtype, static_cast<size_t>(count)));
    if (view.data == nullptr) return;
    device::View part = view;
    part.data += at;
    part.bytes -= at;
    *to = ops::Dense(part, dtype, dims);
  };
  const int64_t n = sizes.sequences;
  take(&buffers->ids, DType::kI32, {sizes.tokens});
  for (ops::Tensor* ints :
       {&buffers->chain_ids, &buffers->rows, &buffers->first, &buffers->chain_rows,
        &buffers->positions, &buffers->context, &buffers->kv_slots}) {
    take(ints, DType::kI32, {n});
  }
  take(&buffers->zeros, DType::kI32, {n + 1});
  take(&buffers->block_table, DType::kI32, {n, table_width});
  take(&buffers->sample_rows, DType::kU8, {n, int64_t{sizeof(ops::SampleRow)}});
  take(&buffers->outputs, DType::kU8, {n, int64_t{sizeof(ops::SampleOutput)}});
  take(&buffers->top_ids, DType::kI32, {n, 1});
  take(&buffers->top_logprobs, DType::kF32, {n, 1});
  take(&buffers->hidden, options.activation, {n, config.hidden_size});
  return used;
}

size_t MtpProposer::DeviceBytes(const files::ModelConfig& config,
                                const model::ModelOptions& options, const Sizes& sizes) {
  const int64_t positions =
      options.max_model_len > 0 ? options.max_model_len : config.context_length;
  Buffers buffers;
  return Carve({}, config, options, sizes, batch::BlocksFor(positions, options.kernel_block_tokens),
               &buffers);
}

Result<std::unique_ptr<MtpProposer>> MtpProposer::Make(device::Device& device,
                                                       const model::Model& model,
                                                       const Sizes& sizes, Shared shared,
                                                       std::vector<ops::BindRecord>* records) {
  std::unique_ptr<MtpProposer> proposer(new MtpProposer(model, sizes, std::move(shared)));
  const ops::OpTable& table = device.ops();
  proposer->group_ = model.group_of(model.config().num_layers);
  const auto vocab = static_cast<int64_t>(model.vocab_size());
  SLUICE_ASSIGN_OR_RETURN(proposer->next_, ops::Bind<ops::NextTokens>(table, {}, records));
  SLUICE_ASSIGN_OR_RETURN(proposer->keep_, ops::Bind<ops::KeepGuesses>(table, {}, records));
  SLUICE_ASSIGN_OR_RETURN(proposer->sample_,
                          ops::Bind<ops::Sample>(table, {vocab, /*top_logprobs_max=*/0}, records));
  SLUICE_ASSIGN_OR_RETURN(proposer->place_,
                          ops::Bind<ops::PlaceTokens>(table, proposer->shared_.placing, records));
  const int64_t width = proposer->shared_.table.dims[1];
  const size_t bytes =
      Carve({}, model.config(), model.options(), sizes, width, &proposer->buffers_);
  SLUICE_ASSIGN_OR_RETURN(proposer->memory_, device.Allocate(bytes, device::MemoryKind::kDevice));
  Carve(proposer->memory_.view(), model.config(), model.options(), sizes, width,
        &proposer->buffers_);
  SLUICE_RETURN_IF_ERROR(proposer->Fill(device));
  return proposer;
}

// What never changes: rows that take the likeliest token, each token's number, and zeros.
Status MtpProposer::Fill(device::Device& device) {
  const auto count = static_cast<size_t>(sizes_.sequences);
  const std::vector<ops::SampleRow> rows(count, ops::SampleRow{.temperature = 0.0f});
  std::vector<int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::vector<int32_t> zeros(count + 1);
  const auto to = [](const ops::Tensor& tensor, size_t bytes) {
    return device::View{tensor.data, bytes, tensor.memory, tensor.device};
  };
  const device::CopyItem items[] = {
      {to(buffers_.sample_rows, HostView(rows).bytes), HostView(rows)},
      {to(buffers_.chain_rows, HostView(numbers).bytes), HostView(numbers)},
      {to(buffers_.zeros, HostView(zeros).bytes), HostView(zeros)}};
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  SLUICE_RETURN_IF_ERROR(device.Copy(*stream, items));
  return stream->Synchronize();
}

Status MtpProposer::Guess(device::Stream& stream, const model::DeviceBatch& batch,
                          const ops::Tensor& hidden, const StepInputs& given, int number,
                          model::LayerObserver* observer) {
  const int64_t drafts = batch.rows();
  model::ForwardContext context = shared_.context;
  context.stream = &stream;
  context.observer = observer;
  model::DraftOutputs outputs;
  if (drafts > 0) outputs = {First(shared_.logits, drafts), First(buffers_.hidden, drafts)};
  SLUICE_RETURN_IF_ERROR(model_.Draft(context, batch, hidden, outputs));
  if (drafts == 0) return OkStatus();
  ops::Sample::Args sampling;
  sampling.logits = outputs.logits;
  sampling.rows = First(buffers_.sample_rows, drafts);
  sampling.outputs = First(buffers_.outputs, drafts);
  sampling.top_ids = First(buffers_.top_ids, drafts);
  sampling.top_logprobs = First(buffers_.top_logprobs, drafts);
  SLUICE_RETURN_IF_ERROR(sample_(stream, sampling));
  return keep_(stream, {.outputs = sampling.outputs,
                        .slots = given.draft_slots,
                        .number = number,
                        .known = shared_.known,
                        .ids = First(buffers_.chain_ids, drafts),
                        .first = First(buffers_.first, drafts)});
}

Status MtpProposer::Propose(device::Stream& stream, const StepInputs& given,
                            const model::DeviceBatch& placed, int guesses,
                            model::LayerObserver* observer) {
  const int64_t tokens = placed.tokens(), drafts = guesses > 0 ? given.drafting.dims[0] : 0;
  first_pass_ = placed;
  first_pass_.token_ids = First(buffers_.ids, tokens);
  first_pass_.logits_rows = First(buffers_.rows, drafts);
  SLUICE_RETURN_IF_ERROR(next_(stream, {.token_ids = placed.token_ids,
                                        .query_start = placed.query_start,
                                        .positions = placed.positions,
                                        .slots = given.slots,
                                        .next = given.next,
                                        .drafting = First(given.drafting, drafts),
                                        .lengths = shared_.lengths,
                                        .known = shared_.known,
                                        .ids = first_pass_.token_ids,
                                        .rows = first_pass_.logits_rows,
                                        .first = First(buffers_.first, drafts)}));
  SLUICE_RETURN_IF_ERROR(
      Guess(stream, first_pass_, First(shared_.hidden, tokens), given, 1, observer));
  if (drafts == 0) return OkStatus();
  chain_.token_ids = First(buffers_.chain_ids, drafts);
  chain_.positions = First(buffers_.positions, drafts);
  chain_.query_start = given.draft_start;
  chain_.context = First(buffers_.context, drafts);
  chain_.logits_rows = First(buffers_.chain_rows, drafts);
  chain_.groups.assign(placed.groups.size(), {});
  chain_.groups[group_] = {First(buffers_.kv_slots, drafts), First(buffers_.block_table, drafts)};
  for (int number = 2; number <= guesses; ++number) {
    SLUICE_RETURN_IF_ERROR(place_(stream, {.query_start = given.draft_start,
                                           .first = First(buffers_.first, drafts),
                                           .unsure = First(buffers_.zeros, drafts),
                                           .slots = given.draft_slots,
                                           .lengths = shared_.lengths,
                                           .told_start = First(buffers_.zeros, drafts + 1),
                                           .told_first = First(buffers_.zeros, drafts),
                                           .told = First(buffers_.zeros, 1),
                                           .tables = shared_.table,
                                           .positions = chain_.positions,
                                           .context = chain_.context,
                                           .kv_slots = chain_.groups[group_].slots,
                                           .block_table = chain_.groups[group_].block_table}));
    SLUICE_RETURN_IF_ERROR(
        Guess(stream, chain_, First(buffers_.hidden, drafts), given, number, nullptr));
  }
  return OkStatus();
}

}  // namespace sluice::exec
