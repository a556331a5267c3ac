#include "exec/draft_chain.h"

#include <numeric>

#include "exec/carver.h"
#include "ops/attention.h"
#include "ops/sample_row.h"
#include "sluice/sampling.h"

namespace sluice::exec {
namespace {

template <class T>
device::View HostView(const std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(const_cast<T*>(values.data())), values.size() * sizeof(T),
          device::MemoryKind::kHost, device::DeviceId()};
}

ops::Tensor RowOf(const ops::Tensor& matrix, int64_t row) {
  ops::Tensor vector = matrix.Rows(row, 1);
  vector.rank = 1;
  vector.dims[0] = matrix.dims[1];
  vector.strides[0] = 1;
  return vector;
}

}  // namespace

size_t DraftChain::Carve(const device::View& view, const Sizes& sizes, Buffers* buffers) {
  const auto& [sequences, table_width, guesses, target_ids, drawn, vocab, block, tree, tree_depths,
               step_tokens] = sizes;
  // Tokens of a pass, and rows of logits that are looked at together.
  const int64_t tokens = sequences * std::max({1, block, tree.beams});
  const int64_t rows = sequences * std::max(1, tree.beams);
  Carver carver(view);
  for (ops::Tensor* ints : {&buffers->ids, &buffers->rows, &buffers->first, &buffers->context})
    *ints = carver.Take({sequences});
  for (ops::Tensor* ints : {&buffers->every_row, &buffers->positions, &buffers->kv_slots})
    *ints = carver.Take({tokens});
  buffers->zeros = carver.Take({sequences + 1});
  buffers->block_table = carver.Take({sequences, table_width});
  buffers->sample_rows = carver.Take({rows, int64_t{sizeof(ops::SampleRow)}}, DType::kU8);
  buffers->outputs = carver.Take({rows, int64_t{sizeof(ops::SampleOutput)}}, DType::kU8);
  buffers->top_ids = carver.Take({rows, 1 + tree.children});
  buffers->top_logprobs = carver.Take({rows, 1 + tree.children}, DType::kF32);
  if (tree.beams > 0) {
    for (ops::Tensor* of_step :
         {&buffers->order, &buffers->followed_ids, &buffers->followed_places})
      *of_step = carver.Take({step_tokens});
    buffers->nodes =
        carver.Take({sequences, tree.Nodes(tree_depths), ops::GrowTrees::kNodeNumbers});
    buffers->beam_starts = carver.Take({sequences + 1});
    buffers->beam_ids = carver.Take({rows});
    buffers->beam_order = carver.Take({rows});
    for (int turn = 0; turn < 2; ++turn) {
      buffers->beams[turn] = carver.Take({sequences, tree.beams, ops::GrowTrees::kBeamNumbers});
      buffers->paths[turn] = carver.Take({rows, ops::kPathNumbers});
    }
  }
  if (target_ids > 0) buffers->target_ids = carver.Take({static_cast<int64_t>(target_ids)});
  if (block > 0) {
    buffers->masks = carver.Take({tokens});
    buffers->starts = carver.Take({block, sequences + 1});
    buffers->block_logits = carver.Take({tokens, guesses}, DType::kF32);
    if (drawn > 0) buffers->picks = carver.Take({int64_t{block} * block, sequences});
  }
  if (drawn == 0) return carver.used();
  buffers->drawn = carver.Take({drawn * sequences, guesses}, DType::kF32);
  if (target_ids > 0) buffers->guess_of = carver.Take({vocab});
  return carver.used();
}

size_t DraftChain::DeviceBytes(const Sizes& sizes) {
  Buffers buffers;
  return Carve({}, sizes, &buffers);
}

Result<std::unique_ptr<DraftChain>> DraftChain::Make(device::Device& device, int64_t sequences,
                                                     int64_t tokens, Shared shared,
                                                     std::vector<ops::BindRecord>* records) {
  std::unique_ptr<DraftChain> chain(new DraftChain(sequences, std::move(shared)));
  const ops::OpTable& table = device.ops();
  const Shared& given = chain->shared_;
  SLUICE_ASSIGN_OR_RETURN(chain->next_, ops::Bind<ops::NextTokens>(table, {}, records));
  SLUICE_ASSIGN_OR_RETURN(chain->keep_, ops::Bind<ops::KeepGuesses>(table, {}, records));
  SLUICE_ASSIGN_OR_RETURN(
      chain->sample_,
      ops::Bind<ops::Sample>(table, {given.logits.dims[1], given.tree.children}, records));
  SLUICE_ASSIGN_OR_RETURN(chain->place_,
                          ops::Bind<ops::PlaceTokens>(table, given.placing, records));
  if (chain->trees()) {
    SLUICE_ASSIGN_OR_RETURN(chain->follow_, ops::Bind<ops::FollowTrees>(table, {}, records));
    SLUICE_ASSIGN_OR_RETURN(chain->grow_, ops::Bind<ops::GrowTrees>(table, {}, records));
  }
  if (given.first_number == 0) {
    SLUICE_ASSIGN_OR_RETURN(chain->drawn_, ops::Bind<ops::ResolveTokens>(table, {}, records));
  }
  if (given.drawn > 0) {
    SLUICE_ASSIGN_OR_RETURN(chain->resolve_, ops::Bind<ops::ResolveRows>(table, {}, records));
    SLUICE_ASSIGN_OR_RETURN(
        chain->gather_,
        ops::Bind<ops::GatherRows>(table, {DType::kF32, given.logits.dims[1]}, records));
  }
  const Sizes sizes = {.sequences = sequences,
                       .table_width = given.table.dims[1],
                       .guesses = given.logits.dims[1],
                       .target_ids = given.target_ids.size(),
                       .drawn = given.drawn,
                       .vocab = given.vocab,
                       .block = given.block,
                       .tree = given.tree,
                       .tree_depths = given.tree_depths,
                       .tokens = tokens};
  SLUICE_ASSIGN_OR_RETURN(chain->memory_,
                          device.Allocate(DeviceBytes(sizes), device::MemoryKind::kDevice));
  Carve(chain->memory_.view(), sizes, &chain->buffers_);
  SLUICE_RETURN_IF_ERROR(chain->Fill(device));
  return chain;
}

// What never changes: rows that take the likeliest token, each row's number, zeros, and ids.
Status DraftChain::Fill(device::Device& device) {
  const auto count = static_cast<size_t>(sequences_);
  auto likeliest = Greedy(ops::SampleRow{});
  if (trees()) likeliest.top_logprobs = shared_.tree.children;
  const std::vector<ops::SampleRow> rows(static_cast<size_t>(buffers_.sample_rows.dims[0]),
                                         likeliest);
  std::vector<int32_t> numbers(static_cast<size_t>(buffers_.every_row.dims[0]));
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
  if (shared_.block > 0) SLUICE_RETURN_IF_ERROR(FillBlocks(device, *stream));
  if (trees()) SLUICE_RETURN_IF_ERROR(FillTrees(device, *stream));
  return stream->Synchronize();
}

// As of blocks: those of sequences that are not there read blocks of the cache that are.
Status DraftChain::FillTrees(device::Device& device, device::Stream& stream) {
  const std::vector<int32_t> tables(static_cast<size_t>(buffers_.block_table.size()));
  std::vector<int32_t> starts;
  for (int64_t s = 0; s <= sequences_; ++s)
    starts.push_back(static_cast<int32_t>(s * shared_.tree.beams));
  const auto item = [](const ops::Tensor& to, const std::vector<int32_t>& values) {
    const device::View from = HostView(values);
    return device::CopyItem{{to.data, from.bytes, to.memory, to.device}, from};
  };
  const std::array<device::CopyItem, 2> items = {item(buffers_.block_table, tables),
                                                 item(buffers_.beam_starts, starts)};
  SLUICE_RETURN_IF_ERROR(device.Copy(stream, items));
  return stream.Synchronize();
}

// Blocks of a step that guesses for fewer sequences than it has room for are computed for all of
// them: those that are too many read blocks of the cache that are there, and nobody reads them.
Status DraftChain::FillBlocks(device::Device& device, device::Stream& stream) {
  const int64_t block = shared_.block;
  const std::vector<int32_t> masks(static_cast<size_t>(block * sequences_), shared_.mask_token);
  const std::vector<int32_t> tables(static_cast<size_t>(sequences_ * buffers_.block_table.dims[1]));
  std::vector<int32_t> starts, picks;
  for (int64_t tokens = 1; tokens <= block; ++tokens) {
    for (int64_t s = 0; s <= sequences_; ++s) starts.push_back(static_cast<int32_t>(s * tokens));
    for (int64_t i = 0; i < block; ++i) {
      for (int64_t s = 0; s < sequences_; ++s)
        picks.push_back(static_cast<int32_t>(s * tokens + std::min(i, tokens - 1)));
    }
  }
  std::vector<device::CopyItem> items;
  const auto add = [&](const ops::Tensor& tensor, const std::vector<int32_t>& values) {
    const device::View from = HostView(values);
    items.push_back({{tensor.data, from.bytes, tensor.memory, tensor.device}, from});
  };
  add(buffers_.masks, masks);
  add(buffers_.block_table, tables);
  add(buffers_.starts, starts);
  if (!buffers_.picks.empty()) add(buffers_.picks, picks);
  return device.Copy(stream, items);
}

ops::Tensor DraftChain::rows(int64_t drafts) const { return buffers_.rows.Rows(0, drafts); }
ops::Tensor DraftChain::logits(int64_t drafts, int number) const {
  if (shared_.drawn == 0) return shared_.logits.Rows(0, Rows(drafts, number));
  return buffers_.drawn.Rows((number - 1) * sequences_, drafts);
}

Status DraftChain::Next(device::Stream& stream, const StepInputs& given,
                        const model::DeviceBatch& placed, int64_t drafts, const ops::Tensor& ids) {
  if (shared_.drawn > 0 && drafts > 0)
    SLUICE_RETURN_IF_ERROR(
        resolve_(stream, {given.draft_rows.Rows(0, drafts), shared_.lengths, shared_.known}));
  return NextBehind(stream, given, placed, drafts, /*number=*/1, placed.token_ids, ids);
}

Status DraftChain::Follow(device::Stream& stream, const StepInputs& given,
                          const model::DeviceBatch& placed, model::DeviceBatch* followed) {
  const int64_t tokens = placed.tokens();
  ops::Tensor outputs = shared_.sampler->outputs();
  // Sampling may have had rows of padding, or none at all.
  const int64_t rows = std::min(given.logits_rows.dims[0], outputs.empty() ? 0 : outputs.dims[0]);
  if (rows == 0) outputs = buffers_.outputs;
  *followed = placed;
  followed->paths = {};
  followed->token_ids = buffers_.followed_ids.Rows(0, tokens);
  followed->positions = buffers_.followed_places.Rows(0, tokens);
  return follow_(stream, {.token_ids = placed.token_ids,
                          .query_start = placed.query_start,
                          .positions = placed.positions,
                          .slots = given.slots,
                          .paths = placed.paths,
                          .logits_rows = given.logits_rows.Rows(0, rows),
                          .outputs = outputs.Rows(0, rows),
                          .lengths = shared_.lengths,
                          .known = shared_.known,
                          .order = order(tokens),
                          .ids = followed->token_ids,
                          .places = followed->positions});
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
  return Take(stream, given, logits(drafts, number), drafts, number, moved);
}

ops::Tensor DraftChain::block_logits(int64_t drafts, int tokens) const {
  return buffers_.block_logits.Rows(0, drafts * tokens);
}

Result<ops::Tensor> DraftChain::Drawn(device::Stream& stream, const StepInputs& given,
                                      int64_t drafts) {
  ops::Tensor known = shared_.known;
  known.rank = 1;
  known.dims[0] = shared_.known.size();
  known.strides[0] = 1;
  const ops::Tensor ids = given.draft_ids.Rows(0, drafts);
  SLUICE_RETURN_IF_ERROR(drawn_(stream, {ids, known}));
  return ids;
}

Status DraftChain::KeepBlock(device::Stream& stream, const StepInputs& given, int64_t drafts,
                             int tokens) {
  const ops::Tensor all = block_logits(drafts, tokens);
  const int before = shared_.first_number;
  for (int i = before == 0 ? 1 : 0; i < tokens; ++i) {
    const int number = before + i;
    ops::Tensor taken = all;
    if (shared_.drawn > 0 && !trees()) {
      // What they are drawn from stays, guess by guess.
      taken = logits(drafts, number);
      const int64_t pick = int64_t{tokens - 1} * shared_.block + i;
      const ops::Tensor rows = RowOf(buffers_.picks, pick).Rows(0, drafts);
      SLUICE_RETURN_IF_ERROR(gather_(stream, {all, rows, taken}));
    } else {
      taken.data += i * all.strides[0] * static_cast<int64_t>(sizeof(float));
      taken.strides[0] = tokens * all.strides[0];
      taken.dims[0] = drafts;
    }
    SLUICE_RETURN_IF_ERROR(trees() ? TakeNodes(stream, given, taken, drafts, number, /*moved=*/0)
                                   : Take(stream, given, taken, drafts, number, /*moved=*/0));
  }
  return OkStatus();
}

Status DraftChain::Grow(device::Stream& stream, const StepInputs& given, int64_t drafts, int number,
                        int moved) {
  return TakeNodes(stream, given, logits(drafts, number), drafts, number, moved);
}

Status DraftChain::TakeNodes(device::Stream& stream, const StepInputs& given,
                             const ops::Tensor& logits, int64_t drafts, int number, int moved) {
  const TreeShape& tree = shared_.tree;
  const int64_t rows = Rows(drafts, number);
  ops::Sample::Args sampling;
  sampling.logits = logits;
  sampling.rows = buffers_.sample_rows.Rows(0, rows);
  sampling.outputs = buffers_.outputs.Rows(0, rows);
  sampling.top_ids = buffers_.top_ids.Rows(0, rows);
  sampling.top_logprobs = buffers_.top_logprobs.Rows(0, rows);
  SLUICE_RETURN_IF_ERROR(sample_(stream, sampling));
  const size_t turn = static_cast<size_t>(number) % 2;
  return grow_(stream, {.outputs = sampling.outputs,
                        .top_ids = sampling.top_ids.Columns(0, tree.children),
                        .top_logprobs = sampling.top_logprobs.Columns(0, tree.children),
                        .slots = given.draft_slots.Rows(0, drafts),
                        .slot_count = static_cast<int32_t>(shared_.known.dims[0]),
                        .target_ids = buffers_.target_ids,
                        .depth = number,
                        .begin = number == 1 ? 0 : tree.Nodes(number - 1),
                        .moved = moved,
                        .nodes = buffers_.nodes.Rows(0, drafts),
                        .beams = buffers_.beams[1 - turn].Rows(0, drafts),
                        .paths = buffers_.paths[1 - turn].Rows(0, drafts * tree.beams),
                        .next_beams = buffers_.beams[turn].Rows(0, drafts),
                        .next_paths = buffers_.paths[turn].Rows(0, drafts * tree.beams),
                        .ids = buffers_.beam_ids.Rows(0, drafts * tree.beams),
                        .order = beam_order(drafts),
                        .first = buffers_.first.Rows(0, drafts)});
}

Status DraftChain::Take(device::Stream& stream, const StepInputs& given, const ops::Tensor& logits,
                        int64_t drafts, int number, int moved) {
  ops::Sample::Args sampling;
  const bool draws = shared_.drawn > 0;
  sampling.logits = logits;
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
  return PlaceAt(stream, given, given.draft_start, drafts, drafts, {}, batch, group);
}

Status DraftChain::PlaceBlock(device::Stream& stream, const StepInputs& given, int64_t drafts,
                              int tokens, model::DeviceBatch* batch, model::GroupInputs* group) {
  CHECK(tokens > 0 && tokens <= shared_.block, tokens, " of ", shared_.block);
  batch->token_ids = buffers_.masks.Rows(0, drafts * tokens);
  const ops::Tensor start = RowOf(buffers_.starts, tokens - 1).Rows(0, drafts + 1);
  return PlaceAt(stream, given, start, drafts, drafts * tokens, {}, batch, group);
}

Status DraftChain::PlaceBeams(device::Stream& stream, const StepInputs& given, int64_t drafts,
                              int number, model::DeviceBatch* batch, model::GroupInputs* group) {
  const int64_t tokens = drafts * shared_.tree.beams;
  batch->token_ids = buffers_.beam_ids.Rows(0, tokens);
  const size_t turn = static_cast<size_t>(number - 1) % 2;
  return PlaceAt(stream, given, buffers_.beam_starts.Rows(0, drafts + 1), drafts, tokens,
                 buffers_.paths[turn].Rows(0, tokens), batch, group);
}

Status DraftChain::PlaceAt(device::Stream& stream, const StepInputs& given,
                           const ops::Tensor& start, int64_t drafts, int64_t tokens,
                           const ops::Tensor& paths, model::DeviceBatch* batch,
                           model::GroupInputs* group) {
  batch->paths = paths;
  batch->positions = buffers_.positions.Rows(0, tokens);
  batch->query_start = start;
  batch->context = buffers_.context.Rows(0, drafts);
  batch->logits_rows = buffers_.every_row.Rows(0, tokens);
  *group = {buffers_.kv_slots.Rows(0, tokens), buffers_.block_table.Rows(0, drafts)};
  return place_(stream, {.query_start = start,
                         .first = buffers_.first.Rows(0, drafts),
                         .unsure = buffers_.zeros.Rows(0, drafts),
                         .slots = given.draft_slots,
                         .lengths = shared_.lengths,
                         .told_start = buffers_.zeros.Rows(0, drafts + 1),
                         .told_first = buffers_.zeros.Rows(0, drafts),
                         .told = buffers_.zeros.Rows(0, 1),
                         .tables = shared_.table,
                         .paths = paths,
                         .positions = batch->positions,
                         .context = batch->context,
                         .kv_slots = group->slots,
                         .block_table = group->block_table});
}

}  // namespace sluice::exec
