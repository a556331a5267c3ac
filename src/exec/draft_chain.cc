#include "exec/draft_chain.h"

#include <numeric>

#include "device/alignment.h"
#include "ops/sample_row.h"

namespace sluice::exec {
namespace {

template <class T>
device::View HostView(const std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(const_cast<T*>(values.data())), values.size() * sizeof(T),
          device::MemoryKind::kHost, device::DeviceId()};
}

}  // namespace

size_t DraftChain::Carve(const device::View& view, const Sizes& sizes, Buffers* buffers) {
  const auto& [sequences, table_width, guesses, target_ids, drawn, vocab] = sizes;
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
  for (ops::Tensor* ints : {&buffers->ids, &buffers->rows, &buffers->first, &buffers->every_row,
                            &buffers->positions, &buffers->context, &buffers->kv_slots}) {
    take(ints, DType::kI32, {sequences});
  }
  take(&buffers->zeros, DType::kI32, {sequences + 1});
  take(&buffers->block_table, DType::kI32, {sequences, table_width});
  take(&buffers->sample_rows, DType::kU8, {sequences, int64_t{sizeof(ops::SampleRow)}});
  take(&buffers->outputs, DType::kU8, {sequences, int64_t{sizeof(ops::SampleOutput)}});
  take(&buffers->top_ids, DType::kI32, {sequences, 1});
  take(&buffers->top_logprobs, DType::kF32, {sequences, 1});
  if (target_ids > 0) take(&buffers->target_ids, DType::kI32, {static_cast<int64_t>(target_ids)});
  if (drawn == 0) return used;
  take(&buffers->drawn, DType::kF32, {drawn * sequences, guesses});
  if (target_ids > 0) take(&buffers->guess_of, DType::kI32, {vocab});
  return used;
}

size_t DraftChain::DeviceBytes(const Sizes& sizes) {
  Buffers buffers;
  return Carve({}, sizes, &buffers);
}

Result<std::unique_ptr<DraftChain>> DraftChain::Make(device::Device& device, int64_t sequences,
                                                     Shared shared,
                                                     std::vector<ops::BindRecord>* records) {
  std::unique_ptr<DraftChain> chain(new DraftChain(sequences, std::move(shared)));
  const ops::OpTable& table = device.ops();
  const Shared& given = chain->shared_;
  SLUICE_ASSIGN_OR_RETURN(chain->next_, ops::Bind<ops::NextTokens>(table, {}, records));
  SLUICE_ASSIGN_OR_RETURN(chain->keep_, ops::Bind<ops::KeepGuesses>(table, {}, records));
  SLUICE_ASSIGN_OR_RETURN(
      chain->sample_,
      ops::Bind<ops::Sample>(table, {given.logits.dims[1], /*top_logprobs_max=*/0}, records));
  SLUICE_ASSIGN_OR_RETURN(chain->place_,
                          ops::Bind<ops::PlaceTokens>(table, given.placing, records));
  if (given.drawn > 0) {
    SLUICE_ASSIGN_OR_RETURN(chain->resolve_, ops::Bind<ops::ResolveRows>(table, {}, records));
  }
  const Sizes sizes = {.sequences = sequences,
                       .table_width = given.table.dims[1],
                       .guesses = given.logits.dims[1],
                       .target_ids = given.target_ids.size(),
                       .drawn = given.drawn,
                       .vocab = given.vocab};
  SLUICE_ASSIGN_OR_RETURN(chain->memory_,
                          device.Allocate(DeviceBytes(sizes), device::MemoryKind::kDevice));
  Carve(chain->memory_.view(), sizes, &chain->buffers_);
  SLUICE_RETURN_IF_ERROR(chain->Fill(device));
  return chain;
}

// What never changes: rows that take the likeliest token, each row's number, zeros, and ids.
Status DraftChain::Fill(device::Device& device) {
  const auto count = static_cast<size_t>(sequences_);
  const std::vector<ops::SampleRow> rows(count, ops::SampleRow{.temperature = 0.0f});
  std::vector<int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::vector<int32_t> zeros(count + 1);
  const auto to = [](const ops::Tensor& tensor, size_t bytes) {
    return device::View{tensor.data, bytes, tensor.memory, tensor.device};
  };
  std::vector<device::CopyItem> items = {
      {to(buffers_.sample_rows, HostView(rows).bytes), HostView(rows)},
      {to(buffers_.every_row, HostView(numbers).bytes), HostView(numbers)},
      {to(buffers_.zeros, HostView(zeros).bytes), HostView(zeros)}};
  const device::View ids = HostView(shared_.target_ids);
  if (ids.bytes > 0) items.push_back({to(buffers_.target_ids, ids.bytes), ids});
  std::vector<int32_t> guess_of;
  if (!buffers_.guess_of.empty()) {
    guess_of.assign(static_cast<size_t>(shared_.vocab), -1);
    for (size_t guess = 0; guess < shared_.target_ids.size(); ++guess)
      guess_of[static_cast<size_t>(shared_.target_ids[guess])] = static_cast<int32_t>(guess);
    items.push_back({to(buffers_.guess_of, HostView(guess_of).bytes), HostView(guess_of)});
  }
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  SLUICE_RETURN_IF_ERROR(device.Copy(*stream, items));
  return stream->Synchronize();
}

ops::Tensor DraftChain::rows(int64_t drafts) const { return buffers_.rows.Rows(0, drafts); }
ops::Tensor DraftChain::logits(int64_t drafts, int number) const {
  if (shared_.drawn == 0) return shared_.logits.Rows(0, drafts);
  return buffers_.drawn.Rows((number - 1) * sequences_, drafts);
}

Status DraftChain::Next(device::Stream& stream, const StepInputs& given,
                        const model::DeviceBatch& placed, int64_t drafts, const ops::Tensor& ids) {
  if (shared_.drawn > 0 && drafts > 0)
    SLUICE_RETURN_IF_ERROR(
        resolve_(stream, {given.draft_rows.Rows(0, drafts), shared_.lengths, shared_.known}));
  return NextBehind(stream, given, placed, drafts, /*number=*/1, placed.token_ids, ids);
}

// Behind a sequence's last token there stands the guess before this number, or what was drawn.
Status DraftChain::NextBehind(device::Stream& stream, const StepInputs& given,
                              const model::DeviceBatch& placed, int64_t drafts, int number,
                              const ops::Tensor& before, const ops::Tensor& ids) {
  const int64_t numbers = shared_.known.dims[1];
  return next_(stream, {.token_ids = before,
                        .query_start = placed.query_start,
                        .positions = placed.positions,
                        .slots = given.slots,
                        .next = given.next,
                        .drafting = given.drafting.Rows(0, drafts),
                        .lengths = shared_.lengths,
                        .known = shared_.known.Columns(number - 1, numbers - number + 1),
                        .ids = ids,
                        .rows = buffers_.rows.Rows(0, drafts),
                        .first = buffers_.first.Rows(0, drafts)});
}

Status DraftChain::Keep(device::Stream& stream, const StepInputs& given, int64_t drafts, int number,
                        int moved) {
  ops::Sample::Args sampling;
  const bool draws = shared_.drawn > 0;
  sampling.logits = logits(drafts, number);
  sampling.rows = (draws ? given.draft_rows : buffers_.sample_rows).Rows(0, drafts);
  sampling.outputs = buffers_.outputs.Rows(0, drafts);
  sampling.top_ids = buffers_.top_ids.Rows(0, drafts);
  sampling.top_logprobs = buffers_.top_logprobs.Rows(0, drafts);
  SLUICE_RETURN_IF_ERROR(sample_(stream, sampling));
  return keep_(stream, {.outputs = sampling.outputs,
                        .slots = given.draft_slots,
                        .target_ids = buffers_.target_ids,
                        .number = number,
                        .moved = moved,
                        .known = shared_.known,
                        .ids = buffers_.ids.Rows(0, drafts),
                        .first = buffers_.first.Rows(0, drafts),
                        .rows = draws ? sampling.rows : ops::Tensor()});
}

Status DraftChain::Place(device::Stream& stream, const StepInputs& given, int64_t drafts,
                         model::DeviceBatch* batch, model::GroupInputs* group) {
  batch->token_ids = buffers_.ids.Rows(0, drafts);
  batch->positions = buffers_.positions.Rows(0, drafts);
  batch->query_start = given.draft_start;
  batch->context = buffers_.context.Rows(0, drafts);
  batch->logits_rows = buffers_.every_row.Rows(0, drafts);
  *group = {buffers_.kv_slots.Rows(0, drafts), buffers_.block_table.Rows(0, drafts)};
  return place_(stream, {.query_start = given.draft_start,
                         .first = buffers_.first.Rows(0, drafts),
                         .unsure = buffers_.zeros.Rows(0, drafts),
                         .slots = given.draft_slots,
                         .lengths = shared_.lengths,
                         .told_start = buffers_.zeros.Rows(0, drafts + 1),
                         .told_first = buffers_.zeros.Rows(0, drafts),
                         .told = buffers_.zeros.Rows(0, 1),
                         .tables = shared_.table,
                         .positions = batch->positions,
                         .context = batch->context,
                         .kv_slots = group->slots,
                         .block_table = group->block_table});
}

}  // namespace sluice::exec
