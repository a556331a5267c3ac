#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "batch/draft_tree.h"
#include "device/alignment.h"
#include "device/part.h"
#include "device/staging.h"
#include "ops/sampling_rules.h"
#include "sluice/sampling.h"

namespace sluice::sample {

using batch::BatchPlan;
using batch::LogitsRow;
using batch::PlanEntry;
using batch::RowPurpose;
using device::AlignUp;
using device::Part;

namespace {

// What the kernels read of a sequence's sampling.
void CopyRowFields(const batch::SamplingParams& params, ops::SampleRow* row) {
  ForEachRowField([](const SamplingField&, const auto& from, auto& to) { to = from; }, params,
                  *row);
}

size_t RowsBytes(int64_t rows) { return static_cast<size_t>(rows) * sizeof(ops::SampleRow); }
size_t EditsBytes(int64_t edits) { return static_cast<size_t>(edits) * sizeof(ops::LogitEdit); }

// The bytes of an array, as memory that the CPU's ops may read: a view says nothing of constness.
template <class Array>
device::View HostView(const Array& values, device::DeviceId id) {
  auto* const bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data()));
  return {bytes, values.size() * sizeof(*values.data()), device::MemoryKind::kHost, id};
}

size_t LengthBytes(int slots) { return AlignUp(static_cast<size_t>(slots) * sizeof(int32_t)); }
size_t KnownBytes(int slots) {
  return LengthBytes(slots) +
         AlignUp(static_cast<size_t>(slots) * batch::kKnownTokens * sizeof(int32_t));
}

ops::Tensor RowTensor(const device::View& view, int64_t rows) {
  return ops::Dense(view, DType::kU8, {rows, int64_t{sizeof(ops::SampleRow)}});
}
ops::Tensor EditTensor(const device::View& view, int64_t edits) {
  return ops::Dense(view, DType::kU8, {edits, int64_t{sizeof(ops::LogitEdit)}});
}

}  // namespace

size_t Sampler::FixedBytes(int64_t rows, int64_t edits) {
  return AlignUp(RowsBytes(rows)) + AlignUp(EditsBytes(edits));
}

Sampler::OutputLayout Sampler::LayoutOf(int64_t rows, int64_t distribution_rows) const {
  const size_t top = AlignUp(static_cast<size_t>(rows * (options_.top_logprobs_max + 1)) * 4);
  OutputLayout layout;
  layout.top_ids = AlignUp(static_cast<size_t>(rows) * sizeof(ops::SampleOutput));
  layout.top_logprobs = layout.top_ids + top;
  layout.distributions = layout.top_logprobs + top;
  layout.bytes = layout.distributions + static_cast<size_t>(distribution_rows * options_.vocab) * 4;
  return layout;
}

size_t Sampler::MaskBytes(const Options& options, int64_t rows) {
  return static_cast<size_t>(rows) * batch::MaskWords(options.vocab) * sizeof(uint32_t);
}

size_t Sampler::DeviceBytes(const Options& options) {
  const int64_t rows = options.rows_max;
  const size_t outputs =
      AlignUp(static_cast<size_t>(rows) * sizeof(ops::SampleOutput)) +
      2 * AlignUp(static_cast<size_t>(rows * (options.top_logprobs_max + 1)) * 4);
  return KnownBytes(options.slots) + outputs + AlignUp(MaskBytes(options, MaskRows(options))) +
         DeviceCounts::Bytes(options.vocab, CountRows(options));
}

Result<ops::Bound<ops::Sample>> Sampler::BindSample(device::Device& device,
                                                    const Options& options) {
  const ops::Sample::Desc desc{options.vocab, options.top_logprobs_max};
  return ops::Bind<ops::Sample>(device.ops(), desc, options.records);
}

Result<std::unique_ptr<Sampler>> Sampler::Make(device::Device& device, const Options& options) {
  std::unique_ptr<Sampler> sampler(new Sampler(device, options));
  SLUICE_ASSIGN_OR_RETURN(sampler->sample_, BindSample(device, options));
  auto filtered = ops::Bind<ops::Sample>(
      device.ops(), {options.vocab, options.top_logprobs_max, /*filtered=*/true}, nullptr);
  sampler->filtering_ = filtered.status();
  if (filtered.ok()) sampler->filtered_ = *std::move(filtered);
  SLUICE_ASSIGN_OR_RETURN(
      sampler->resolve_,
      ops::Bind<ops::ResolveTokens>(device.ops(), ops::ResolveTokens::Desc(), options.records));
  SLUICE_ASSIGN_OR_RETURN(
      sampler->resolve_rows_,
      ops::Bind<ops::ResolveRows>(device.ops(), ops::ResolveRows::Desc(), options.records));
  SLUICE_ASSIGN_OR_RETURN(
      sampler->keep_, ops::Bind<ops::KeepDrawn>(device.ops(), {options.vocab}, options.records));
  SLUICE_ASSIGN_OR_RETURN(
      sampler->counts_,
      DeviceCounts::Make(device, options.vocab, CountRows(options), options.records));
  sampler->apart_ = device.facts().device_memory;
  constexpr auto memory = device::MemoryKind::kDevice;
  const size_t outputs = sampler->LayoutOf(options.rows_max, 0).bytes;
  SLUICE_ASSIGN_OR_RETURN(sampler->known_, device.Allocate(KnownBytes(options.slots), memory));
  const device::View known = sampler->known_.view();
  const size_t tokens_at = LengthBytes(options.slots);
  sampler->lengths_ = ops::Dense(Part(known, 0, tokens_at), DType::kI32, {options.slots});
  sampler->tokens_ = ops::Dense(device::Behind(known, tokens_at), DType::kI32,
                                {options.slots, batch::kKnownTokens});
  if (sampler->apart_) {
    SLUICE_ASSIGN_OR_RETURN(sampler->device_outputs_, device.Allocate(outputs, memory));
    SLUICE_ASSIGN_OR_RETURN(sampler->device_masks_,
                            device.Allocate(MaskBytes(options, MaskRows(options)), memory));
  }
  return sampler;
}

Result<Sampler::Step> Sampler::MakeStep() const {
  Step step;
  step.rows_.reserve(options_.rows_max);
  const size_t outputs = LayoutOf(options_.rows_max, 0).bytes;
  SLUICE_ASSIGN_OR_RETURN(step.outputs_, device::AllocateStaging(device_, outputs));
  if (!apart_) return step;
  SLUICE_ASSIGN_OR_RETURN(
      step.mask_inputs_, device::AllocateStaging(device_, MaskBytes(options_, MaskRows(options_))));
  return step;
}

Status Sampler::ResolveTokens(device::Stream& stream, const ops::Tensor& ids) const {
  ops::Tensor all = tokens_;
  all.rank = 1;
  all.dims[0] = tokens_.size();
  all.strides[0] = 1;
  return resolve_(stream, {ids, all});
}

void Sampler::Begin(const BatchPlan& plan) {
  for (const batch::SlotStart& start : plan.starts) {
    CHECK(start.slot >= 0 && start.slot < options_.slots, "slot ", start.slot);
    slots_[start.slot].Start(start, start.slot < counted_slots());
  }
}

// Whatever a draft was drawn from, it may count as the only one possible: then a token that it
// stands for is less often kept, and the distribution is the same.
int32_t Sampler::GuessRow(int slot, batch::TokenRef draft) const {
  if (!options_.rejects) return ops::kCompared;
  const int32_t number = -1 - draft;
  if (number < 1 || number > last_guesses_ || guessed_[slot] < 0) return ops::kSure;
  return (number - 1) * options_.slots + guessed_[slot];
}

// Their draws are those of another choice, which no request has, so that they are independent of
// those that verify them.
void Sampler::WriteGuessRows(const BatchPlan& plan, const ops::Tensor& rows) {
  auto* const out = rows.ptr<ops::SampleRow>();
  const bool draws = plan.guesses > 0 && !proposals_.logits.empty();
  if (draws) {
    last_guesses_ = plan.guesses;
    std::fill(guessed_.begin(), guessed_.end(), -1);
  }
  int32_t count = 0;
  for (const PlanEntry& entry : plan.entries) {
    if (entry.guesses == 0) continue;
    const batch::SamplingParams& params = slots_[entry.slot].params();
    ops::SampleRow row{.choice = -1 - params.choice, .position = -1, .slot = entry.slot};
    CopyRowFields(params, &row);
    out[count] = ops::Unfiltered(row);
    if (draws) guessed_[entry.slot] = count;
    ++count;
  }
  std::fill(out + count, out + rows.dims[0], ops::PaddingRow());
}

// Instead of the `*told` drafts that the slot took for drawn last it takes those that lead to draft
// number `draft`, so that its edits see them.
void Sampler::TellPath(const BatchPlan& plan, const PlanEntry& entry,
                       std::span<const int32_t> parents, int draft, int* told) {
  SlotState& slot = slots_[entry.slot];
  for (; *told > 0; --*told) slot.RemoveLast();
  const int32_t root = batch::RootOf(entry);
  std::array<int32_t, limits::kDraftTokensMax> path;
  int count = 0;
  for (int at = draft; at > 0; at = parents[at - 1]) path[count++] = plan.tokens[root + at];
  for (*told = count; count > 0;) slot.Append(path[--count]);
}

void Sampler::BuildEntryRows(const BatchPlan& plan, const PlanEntry& entry, Step* step) {
  SlotState& slot = slots_[entry.slot];
  const batch::SamplingParams& params = slot.params();
  // Where it stands on the device, its rows count from there.
  const bool goes_on = plan.tokens[entry.token_begin] == batch::kLastDrawn;
  const bool tree = entry.tree >= 0;
  CHECK(!tree || options_.trees, "sequence ", entry.sequence);
  const auto parents = batch::ParentsOf(plan, entry);
  const batch::DraftDepths depths = batch::Depths(parents);
  int drafts = 0, told = 0, sampled = 0;
  for (int i = 0; i < entry.logits_count; ++i) {
    const LogitsRow& plan_row = plan.logits_rows[entry.logits_begin + i];
    ops::SampleRow row;
    row.target = plan_row.target;
    row.draw = plan_row.purpose != RowPurpose::kScore;
    if (!row.draw) {
      row.top_logprobs = std::max(params.prompt_top_logprobs, 0);
      step->logprobs_ = true;
      step->rows_.push_back(row);
      continue;
    }
    CopyRowFields(params, &row);
    const int32_t behind = plan_row.token - entry.token_begin + 1 - (tree ? i - depths[i] : 0);
    row.position = goes_on ? -behind : entry.first_position + behind;
    step->resolves_ |= goes_on || row.target < -1;
    // Which rows of a tree count is found when they are collected, and nothing of it is kept on the
    // device: the sequence waits for that, and tells what it goes on from.
    if (!tree) row.slot = entry.slot, row.drafts = drafts;
    // A tree's drafts are sure of themselves. Refused one after the other, each leaves the
    // distribution without it, so that which of them counts, or what is drawn instead, is what the
    // whole distribution draws: the row does that, and its draft is compared.
    if (row.target != -1 && !tree) row.guess_row = GuessRow(entry.slot, row.target);
    row.choice = params.choice;
    row.top_logprobs = params.top_logprobs;
    row.top_allowed = params.top_allowed;
    step->logprobs_ |= params.top_logprobs >= 0;
    if (params.distribution != Distribution::kNone) {
      row.distribution_row = static_cast<int32_t>(step->distribution_rows_++);
      row.filtered = params.distribution == Distribution::kFiltered;
      step->filters_ |= row.filtered;
    }
    row.edit_begin = static_cast<int32_t>(step->edits_.size());
    if (tree) TellPath(plan, entry, parents, i, &told);
    slot.AppendEdits(options_.vocab, row, &step->edits_);
    row.edit_count = static_cast<int32_t>(step->edits_.size()) - row.edit_begin;
    if (slot.counts_on_device()) {
      if (slot.counts_lost()) counts_.Add(entry.slot, slot, &step->sets_);
      slot.SetCounts();
      row.counts_row = entry.slot;
      step->counted_ = true;
    }
    if (entry.masked) {
      row.mask_row = static_cast<int32_t>(step->waiting_.size());
      step->waiting_.push_back(entry.logits_begin + i);
    }
    step->rows_.push_back(row);
    sampled += plan_row.purpose == RowPurpose::kSample;
    if (tree || plan_row.purpose != RowPurpose::kVerify || plan_row.target == -1) continue;
    ++drafts;
    if (plan_row.target < 0) continue;
    slot.Append(plan_row.target);  // the next row's edits see this draft as accepted
    ++told;
  }
  for (; told > 0; --told) slot.RemoveLast();
  slot.Await(sampled);
}

void Sampler::Build(const BatchPlan& plan, Step* step) {
  step->rows_.clear();
  step->edits_.clear();
  step->waiting_.clear();
  step->masks_ = {};
  step->late_.clear();
  step->sets_.Clear();
  step->given_ = {};
  step->counted_ = step->resolves_ = false;
  step->distribution_rows_ = 0;
  step->filters_ = false;
  step->logprobs_ = false;
  CHECK(static_cast<int>(plan.logits_rows.size()) <= options_.rows_max, plan.logits_rows.size());
  for (const PlanEntry& entry : plan.entries) BuildEntryRows(plan, entry, step);
  CHECK(step->rows_.size() == plan.logits_rows.size(), "the entries' rows cover the plan's");
  step->ran_rows_ = static_cast<int64_t>(step->rows_.size());
}

Status Sampler::TakeMasks(const BatchPlan& plan, const batch::MaskSet& masks, Step* step) {
  SLUICE_RETURN_IF_ERROR(batch::CheckMasks(masks, step->waiting_, options_.vocab));
  step->masks_ = masks.words;
  step->late_ = masks.late;
  if (masks.late.empty()) return OkStatus();
  // A row that may draw nothing is degenerate, and of those nothing is counted on the device.
  const size_t words = batch::MaskWords(options_.vocab);
  step->own_masks_ = masks.words;
  for (size_t i = 0; i < step->waiting_.size(); ++i) {
    if (step->IsLate(step->waiting_[i]))
      std::fill_n(step->own_masks_.begin() + static_cast<int64_t>(i * words), words, 0);
  }
  step->masks_ = step->own_masks_;
  for (const PlanEntry& entry : plan.entries) {
    for (int row = entry.logits_begin; row < entry.logits_begin + entry.logits_count; ++row) {
      if (plan.logits_rows[row].purpose == RowPurpose::kSample && step->IsLate(row)) {
        slots_[entry.slot].Await(-1);
      }
    }
  }
  return OkStatus();
}

void Sampler::Drop(const BatchPlan& plan, const Step& step) {
  for (const PlanEntry& entry : plan.entries) {
    slots_[entry.slot].LoseCounts();
    for (int row = entry.logits_begin; row < entry.logits_begin + entry.logits_count; ++row) {
      if (plan.logits_rows[row].purpose != RowPurpose::kSample || step.IsLate(row)) continue;
      slots_[entry.slot].Await(-1);
    }
  }
}

// The step before may still use a buffer on the device, so its replacement waits for the stream.
Status Sampler::Reserve(device::Stream* stream, size_t bytes, device::Buffer* buffer) const {
  if (buffer->bytes() >= bytes) return OkStatus();
  if (stream != nullptr) SLUICE_RETURN_IF_ERROR(stream->Synchronize());
  *buffer = device::Buffer();
  const size_t grown = bytes + bytes / 2;
  if (stream == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(*buffer, device::AllocateStaging(device_, grown));
  } else {
    SLUICE_ASSIGN_OR_RETURN(*buffer, device_.Allocate(grown, device::MemoryKind::kDevice));
  }
  return OkStatus();
}

Result<ops::Tensor> Sampler::UploadMasks(device::Stream& stream, Step* step) {
  const int64_t rows = static_cast<int64_t>(step->waiting_.size());
  const size_t bytes = MaskBytes(options_, rows);
  device::Buffer& masks = rows <= MaskRows(options_) ? device_masks_ : large_masks_;
  SLUICE_RETURN_IF_ERROR(Reserve(&stream, bytes, &masks));
  SLUICE_RETURN_IF_ERROR(Reserve(nullptr, bytes, &step->mask_inputs_));
  std::memcpy(step->mask_inputs_.data(), step->masks_.data(), bytes);
  const device::CopyItem item{masks.view(), Part(step->mask_inputs_.view(), 0, bytes)};
  SLUICE_RETURN_IF_ERROR(device_.Copy(stream, {&item, 1}));
  return ops::Dense(masks.view(), DType::kI32, {rows, mask_words()});
}

// Rows and edits, one behind the other, in one copy.
Status Sampler::UploadRows(device::Stream& stream, Step* step) {
  const int64_t rows = step->ran_rows_, edits = step->edit_count();
  const size_t bytes = FixedBytes(rows, edits);
  SLUICE_RETURN_IF_ERROR(Reserve(nullptr, bytes, &step->inputs_));
  SLUICE_RETURN_IF_ERROR(Reserve(&stream, bytes, &device_inputs_));
  WriteFixed(*step, rows, edits, step->inputs_.data());
  const device::CopyItem item{device_inputs_.view(), Part(step->inputs_.view(), 0, bytes)};
  ReadFixed(device_inputs_.view(), rows, step);
  return device_.Copy(stream, {&item, 1});
}

Status Sampler::SetInputs(device::Stream& stream, Step* step, ops::Sample::Args* args) {
  if (step->given_.data == nullptr) SLUICE_RETURN_IF_ERROR(UploadRows(stream, step));
  args->rows = RowTensor(step->given_, step->ran_rows_);
  if (const int64_t edits = step->edit_count(); edits > 0) {
    const size_t at = AlignUp(RowsBytes(step->given_rows_));
    args->edits = EditTensor(Part(step->given_, at, EditsBytes(edits)), edits);
  }
  if (!step->waits()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(args->masks, UploadMasks(stream, step));
  return OkStatus();
}

void Sampler::SetOutputs(const device::View& outputs, int64_t rows, int64_t distribution_rows,
                         ops::Sample::Args* args) const {
  const OutputLayout layout = LayoutOf(rows, distribution_rows);
  const int64_t top = options_.top_logprobs_max + 1;
  const auto from = [&](size_t offset) { return device::Behind(outputs, offset); };
  args->outputs = ops::Dense(outputs, DType::kU8, {rows, int64_t{sizeof(ops::SampleOutput)}});
  args->top_ids = ops::Dense(from(layout.top_ids), DType::kI32, {rows, top});
  args->top_logprobs = ops::Dense(from(layout.top_logprobs), DType::kF32, {rows, top});
  if (distribution_rows == 0) return;
  args->distributions =
      ops::Dense(from(layout.distributions), DType::kF32, {distribution_rows, options_.vocab});
}

Status Sampler::SampleAndKeep(device::Stream& stream, const ops::Bound<ops::Sample>& sample,
                              bool resolves, const ops::Sample::Args& args) const {
  last_outputs_ = args.outputs;
  if (resolves) SLUICE_RETURN_IF_ERROR(resolve_rows_(stream, {args.rows, lengths_, tokens_}));
  SLUICE_RETURN_IF_ERROR(sample(stream, args));
  return keep_(stream,
               {args.rows, args.outputs, args.counts, lengths_, tokens_, options_.drafts_taken});
}

Status Sampler::Run(device::Stream& stream, const ops::Tensor& logits, Step* step) {
  const int64_t rows = step->ran_rows_;
  last_outputs_ = {};
  if (rows == 0) return OkStatus();
  const size_t bytes = LayoutOf(rows, step->distribution_rows_).bytes;
  if (step->filters_) SLUICE_RETURN_IF_ERROR(filtering_);
  const ops::Bound<ops::Sample>& sample = step->filters_ ? filtered_ : sample_;
  SLUICE_RETURN_IF_ERROR(Reserve(nullptr, bytes, &step->outputs_));
  SLUICE_RETURN_IF_ERROR(counts_.Set(stream, &step->sets_));
  ops::Sample::Args args = {
      .logits = logits, .guesses = proposals_.logits, .guess_of = proposals_.guess_of};
  if (step->counted_) args.counts = counts_.tensor();
  if (apart_) {
    SLUICE_RETURN_IF_ERROR(SetInputs(stream, step, &args));
    step->device_outputs_ = device_outputs_.view();
    if (bytes > device_outputs_.bytes()) {
      SLUICE_RETURN_IF_ERROR(Reserve(&stream, bytes, &large_outputs_));
      step->device_outputs_ = large_outputs_.view();
    }
    SetOutputs(step->device_outputs_, rows, step->distribution_rows_, &args);
    SLUICE_RETURN_IF_ERROR(SampleAndKeep(stream, sample, step->resolves_, args));
    return Fetch(stream, step);
  }
  const device::DeviceId id = logits.device;
  args.rows = RowTensor(HostView(step->rows_, id), rows);
  if (!step->edits_.empty()) {
    args.edits = EditTensor(HostView(step->edits_, id), static_cast<int64_t>(step->edits_.size()));
  }
  if (step->waits()) {
    args.masks = ops::Dense(HostView(step->masks_, id), DType::kI32,
                            {static_cast<int64_t>(step->waiting_.size()), mask_words()});
  }
  SetOutputs(step->outputs_.view(), rows, step->distribution_rows_, &args);
  return SampleAndKeep(stream, sample, step->resolves_, args);
}

Sampler::Misfit Sampler::FitsFixed(const Step& step, int64_t edits) const {
  if (step.distribution_rows_ > 0) return Misfit::kDistributions;
  if (static_cast<int64_t>(step.waiting_.size()) > MaskRows(options_)) return Misfit::kMasks;
  return static_cast<int64_t>(step.edits_.size()) > edits ? Misfit::kEdits : Misfit::kNone;
}

void Sampler::WriteFixed(const Step& step, int64_t rows, int64_t edits, std::byte* inputs) {
  const int64_t count = static_cast<int64_t>(step.rows_.size());
  CHECK(count <= rows && static_cast<int64_t>(step.edits_.size()) <= edits, count, " rows");
  std::memcpy(inputs, step.rows_.data(), RowsBytes(count));
  const ops::SampleRow padding = ops::PaddingRow();
  for (int64_t row = count; row < rows; ++row) {
    std::memcpy(inputs + RowsBytes(row), &padding, sizeof(padding));
  }
  if (step.edits_.empty()) return;
  std::memcpy(inputs + AlignUp(RowsBytes(rows)), step.edits_.data(),
              EditsBytes(static_cast<int64_t>(step.edits_.size())));
}

void Sampler::ReadFixed(const device::View& inputs, int64_t rows, Step* step) {
  step->given_ = inputs;
  step->given_rows_ = rows;
}

Status Sampler::RunFixed(device::Stream& stream, int64_t rows, int64_t edits,
                         const device::View& inputs, const ops::Tensor& logits) const {
  const size_t edits_at = AlignUp(RowsBytes(rows));
  ops::Sample::Args args = {
      .logits = logits, .guesses = proposals_.logits, .guess_of = proposals_.guess_of};
  args.rows = RowTensor(inputs, rows);
  args.edits = EditTensor(Part(inputs, edits_at, EditsBytes(edits)), edits);
  // Rows without counts or a mask read none of them.
  args.counts = counts_.tensor();
  args.masks = ops::Dense(device_masks_.view(), DType::kI32, {MaskRows(options_), mask_words()});
  SetOutputs(device_outputs_.view(), rows, 0, &args);
  return SampleAndKeep(stream, sample_, /*resolves=*/true, args);
}

Status Sampler::UploadBesideFixed(device::Stream& stream, Step* step) {
  SLUICE_RETURN_IF_ERROR(counts_.Set(stream, &step->sets_));
  return step->waits() ? UploadMasks(stream, step).status() : OkStatus();
}

Status Sampler::FetchFixed(device::Stream& stream, int64_t rows, Step* step) {
  step->ran_rows_ = rows;
  step->device_outputs_ = device_outputs_.view();
  return Fetch(stream, step);
}

// Top log-probs and distributions follow the outputs, so that one copy brings what was asked for.
Status Sampler::Fetch(device::Stream& stream, Step* step) {
  const int64_t rows = step->ran_rows_;
  const OutputLayout layout = LayoutOf(rows, step->distribution_rows_);
  const size_t bytes = step->distribution_rows_ > 0 ? layout.bytes
                       : step->logprobs_            ? layout.distributions
                                         : static_cast<size_t>(rows) * sizeof(ops::SampleOutput);
  const device::CopyItem item{step->outputs_.view(), Part(step->device_outputs_, 0, bytes)};
  return device_.Copy(stream, {&item, 1});
}

batch::ResultToken Sampler::Token(const Step& step, int64_t row, batch::StepResult* result) const {
  const ops::SampleOutput& output =
      reinterpret_cast<const ops::SampleOutput*>(step.outputs_.data())[row];
  batch::ResultToken token{.id = output.token};
  token.distribution = step.rows_[row].distribution_row;
  const int32_t asked = step.rows_[row].top_logprobs;
  if (asked < 0) return token;
  token.logprob = output.logprob;
  token.rank = output.rank;
  token.top_begin = static_cast<int32_t>(result->top.size());
  const int32_t best =
      static_cast<int32_t>(std::min<int64_t>({asked, options_.top_logprobs_max, options_.vocab}));
  token.top_count = output.degenerate ? 1 : best + (output.rank >= best);
  const int64_t base = row * (options_.top_logprobs_max + 1);
  const OutputLayout layout = LayoutOf(step.ran_rows_, 0);
  const std::byte* const outputs = step.outputs_.data();
  const auto* ids = reinterpret_cast<const int32_t*>(outputs + layout.top_ids) + base;
  const auto* logprobs = reinterpret_cast<const float*>(outputs + layout.top_logprobs) + base;
  const bool allowed = step.rows_[row].top_allowed && !output.degenerate;
  int32_t told = 0;
  // What a mask forbids stands behind the rest.
  while (told < token.top_count && !(allowed && logprobs[told] == ops::kZeroProbability)) {
    result->top.push_back({ids[told], logprobs[told]});
    ++told;
  }
  token.top_count = told;
  return token;
}

// Of a tree it goes from the root to the draft that was drawn there, and on from that one: parents
// stand before those that follow them.
void Sampler::CollectEntry(const BatchPlan& plan, const PlanEntry& entry, const Step& step,
                           batch::StepResult* result) {
  const auto* outputs = reinterpret_cast<const ops::SampleOutput*>(step.outputs_.data());
  const auto parents = batch::ParentsOf(plan, entry);
  const int32_t root = batch::RootOf(entry), branch = batch::FirstBranch(parents);
  int32_t at = 0, drawn = -1;  // the row that was kept last, and what it drew
  SlotState& slot = slots_[entry.slot];
  batch::ResultEntry out;
  out.sequence = entry.sequence;
  out.token_begin = static_cast<int32_t>(result->tokens.size());
  out.score_begin = static_cast<int32_t>(result->scores.size());
  bool open = true;  // no row was late so far
  for (int i = 0; i < entry.logits_count; ++i) {
    const int64_t row = entry.logits_begin + i;
    const LogitsRow& plan_row = plan.logits_rows[row];
    const ops::SampleOutput& output = outputs[row];
    if (plan_row.purpose == RowPurpose::kScore) {
      result->scores.push_back(Token(step, row, result));
      if (output.degenerate) out.status = batch::RowStatus::kDegenerate;
      continue;
    }
    if (step.IsLate(row)) {
      open = false;
    } else if (plan_row.purpose == RowPurpose::kSample) {
      slot.Await(-1);
    }
    const bool kept = parents.empty()
                          ? output.kept
                          : i == 0 || (parents[i - 1] == at && plan.tokens[root + i] == drawn);
    if (!open || !kept) continue;  // rows past the accepted length, degenerate or not
    if (output.degenerate) out.status = batch::RowStatus::kDegenerate;
    result->tokens.push_back(Token(step, row, result));
    slot.Append(output.token);
    if (!parents.empty() && i > branch) ++out.aside;
    at = i;
    drawn = output.degenerate ? -1 : output.token;
  }
  out.token_count = static_cast<int32_t>(result->tokens.size()) - out.token_begin;
  out.score_count = static_cast<int32_t>(result->scores.size()) - out.score_begin;
  result->entries.push_back(out);
}

void Sampler::Collect(const BatchPlan& plan, const Step& step, batch::StepResult* result) {
  result->Reset(plan.step);
  for (const PlanEntry& entry : plan.entries) CollectEntry(plan, entry, step, result);
  if (step.distribution_rows_ > 0) {
    result->distribution_size = static_cast<int32_t>(options_.vocab);
    const size_t at = LayoutOf(step.ran_rows_, 0).distributions;
    const auto* values = reinterpret_cast<const float*>(step.outputs_.data() + at);
    result->distributions.assign(values, values + step.distribution_rows_ * options_.vocab);
  }
}

}  // namespace sluice::sample
