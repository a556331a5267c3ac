#include "exec/input_builder.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "device/alignment.h"
#include "device/staging.h"
#include "sluice/limits.h"
#include "sluice/sampling.h"

namespace sluice::exec {
namespace {

Status BadPlan(std::string what) { return InvalidArgument("the batch plan is wrong: " + what); }

// False, so that the checks that run for every entry of every step make no Status.
bool Refuse(Status* error, std::string what) {
  *error = BadPlan(std::move(what));
  return false;
}

struct IdRange {
  int32_t low = 0, high = 0;
};

// In lanes, which the compiler turns into vector code.
IdRange RangeOf(std::span<const int32_t> ids) {
  constexpr size_t kLanes = 8;
  int32_t low[kLanes] = {}, high[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= ids.size(); i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) {
      low[k] = ids[i + k] < low[k] ? ids[i + k] : low[k];
      high[k] = ids[i + k] > high[k] ? ids[i + k] : high[k];
    }
  }
  IdRange range{*std::min_element(low, low + kLanes), *std::max_element(high, high + kLanes)};
  for (; i < ids.size(); ++i) {
    range.low = std::min(range.low, ids[i]);
    range.high = std::max(range.high, ids[i]);
  }
  return range;
}

// By group: the kernel blocks of a sequence of the most positions.
std::vector<int64_t> WidestTables(const InputLimits& limits,
                                  std::span<const batch::KvGroup> groups) {
  std::vector<int64_t> widths;
  for (const batch::KvGroup& group : groups) {
    widths.push_back(batch::TableWidth(group, limits.positions));
  }
  return widths;
}

// Hands out I32 arrays of a buffer, in order.
class Carver {
 public:
  explicit Carver(const device::View& view) : view_(view) {}
  ops::Tensor Take(std::initializer_list<int64_t> dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    device::View part = view_;
    part.bytes = count * sizeof(int32_t);
    const size_t at = used_;
    used_ += device::AlignUp(part.bytes);
    if (view_.data == nullptr) return {};
    part.data += at;
    CHECK(used_ <= view_.bytes, "inputs take ", used_, " of ", view_.bytes, " bytes");
    return ops::Dense(part, DType::kI32, dims);
  }
  size_t used() const { return used_; }

 private:
  device::View view_;
  size_t used_ = 0;
};

}  // namespace

size_t InputBytes(const InputLimits& limits, std::span<const batch::KvGroup> groups) {
  const InputShape widest{.tokens = limits.tokens,
                          .sequences = limits.sequences,
                          .rows = limits.logits_rows,
                          .table_widths = WidestTables(limits, groups)};
  model::DeviceBatch nowhere;
  return CarveInputs({}, widest, &nowhere);
}

size_t CarveInputs(const device::View& view, const InputShape& shape, model::DeviceBatch* inputs) {
  Carver carver(view);
  inputs->token_ids = carver.Take({shape.tokens});
  inputs->positions = carver.Take({shape.tokens});
  inputs->query_start = carver.Take({shape.sequences + 1});
  inputs->context = carver.Take({shape.sequences});
  inputs->logits_rows = carver.Take({shape.rows});
  inputs->groups.resize(shape.table_widths.size());
  for (size_t g = 0; g < shape.table_widths.size(); ++g) {
    inputs->groups[g].slots = carver.Take({shape.tokens});
    inputs->groups[g].block_table = carver.Take({shape.sequences, shape.table_widths[g]});
  }
  return carver.used();
}

InputShape InputBuilder::ShapeOf(const BucketShape& bucket) const {
  return {.tokens = bucket.tokens,
          .sequences = bucket.sequences,
          .rows = bucket.tokens,
          .table_widths = WidestTables(limits_, store_.groups())};
}

void InputBuilder::UseBuckets(std::vector<BucketShape> buckets, int query_max,
                              std::vector<model::DeviceBatch> inputs, size_t bytes) {
  for (const BucketShape& bucket : buckets) bucket_shapes_.push_back(ShapeOf(bucket));
  bucket_query_max_ = query_max;
  buckets_ = std::move(buckets);
  bucket_inputs_ = std::move(inputs);
  bucket_bytes_ = bytes;
}

int InputBuilder::BucketOf(const batch::BatchPlan& plan) const {
  const auto sequences = static_cast<int64_t>(plan.entries.size());
  if (sequences == 0) return -1;
  for (const batch::PlanEntry& entry : plan.entries) {
    if (entry.query_tokens > bucket_query_max_) return -1;
  }
  // A token has more than one row where its neighbours have none; then there may be too many.
  const auto tokens = static_cast<int64_t>(std::max(plan.tokens.size(), plan.logits_rows.size()));
  const auto fewest = std::lower_bound(
      buckets_.begin(), buckets_.end(), sequences,
      [](const BucketShape& bucket, int64_t count) { return bucket.sequences < count; });
  for (auto bucket = fewest; bucket != buckets_.end(); ++bucket) {
    if (bucket->sequences > fewest->sequences) break;
    if (bucket->tokens >= tokens) return static_cast<int>(bucket - buckets_.begin());
  }
  return -1;
}

bool InputBuilder::CheckEntry(const batch::BatchPlan& plan, size_t index, int64_t next_token,
                              Status* error) const {
  const batch::PlanEntry& entry = plan.entries[index];
  if (entry.query_tokens < 1 || entry.token_begin != next_token ||
      next_token + entry.query_tokens > static_cast<int64_t>(plan.tokens.size())) {
    return Refuse(error, StrCat("entry ", index, " names tokens [", entry.token_begin, ", +",
                                entry.query_tokens, ") of ", plan.tokens.size()));
  }
  if (entry.first_position < 0 ||
      static_cast<int64_t>(entry.first_position) + entry.query_tokens > limits_.positions) {
    return Refuse(error, StrCat("entry ", index, " ends at position ",
                                static_cast<int64_t>(entry.first_position) + entry.query_tokens,
                                " of ", limits_.positions));
  }
  if (entry.slot < 0 || entry.slot >= limits_.slots) {
    return Refuse(error, StrCat("entry ", index, " has slot ", entry.slot, " of ", limits_.slots));
  }
  if (entry.logits_begin < 0 || entry.logits_count < 0 ||
      static_cast<int64_t>(entry.logits_begin) + entry.logits_count >
          static_cast<int64_t>(plan.logits_rows.size())) {
    return Refuse(error, StrCat("entry ", index, " names logits rows out of range"));
  }
  return CheckRows(plan, index, error);
}

bool InputBuilder::CheckRows(const batch::BatchPlan& plan, size_t index, Status* error) const {
  const batch::PlanEntry& entry = plan.entries[index];
  for (int row = 0; row < entry.logits_count; ++row) {
    const batch::LogitsRow& logits = plan.logits_rows[entry.logits_begin + row];
    if (logits.token < entry.token_begin ||
        logits.token >= entry.token_begin + entry.query_tokens) {
      return Refuse(error, StrCat("a logits row of entry ", index, " is not one of its tokens"));
    }
    if (logits.purpose > batch::RowPurpose::kScore) {
      return Refuse(error, StrCat("a logits row of entry ", index, " has the unknown purpose ",
                                  static_cast<int>(logits.purpose)));
    }
    const int32_t least = logits.purpose == batch::RowPurpose::kScore ? 0 : -1;
    if (logits.target < least || logits.target >= limits_.vocab) {
      return Refuse(error, StrCat("entry ", index, " has the target token ", logits.target));
    }
  }
  return true;
}

bool InputBuilder::CheckTable(const batch::BatchPlan& plan, size_t group, Status* error) const {
  const batch::GroupTable& table = plan.groups[group];
  const batch::KvGroup& layout = store_.groups()[group];
  const int64_t blocks = static_cast<int64_t>(layout.num_blocks) * layout.ratio();
  const uint32_t tokens = static_cast<uint32_t>(layout.kernel_block_tokens);
  const int64_t most = batch::TableWidth(layout, limits_.positions);
  if (table.begin.size() != plan.entries.size() + 1 || table.begin.front() != 0 ||
      table.begin.back() != static_cast<int64_t>(table.ids.size())) {
    return Refuse(error, StrCat("the block tables of group ", group, " do not match the entries"));
  }
  const IdRange ids = RangeOf(table.ids);
  if (ids.low < -1 || ids.high >= blocks) {
    return Refuse(error, StrCat("block ", ids.low < -1 ? ids.low : ids.high, " of ", blocks));
  }
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    const int64_t begin = table.begin[e];
    const int64_t count = table.begin[e + 1] - begin;
    // Not negative and below limits_.positions: CheckEntry came first.
    const uint32_t end = static_cast<uint32_t>(entry.first_position + entry.query_tokens);
    const int64_t needed = (end + tokens - 1) / tokens;
    if (count < needed || count > most || begin + count > static_cast<int64_t>(table.ids.size())) {
      return Refuse(error, StrCat("entry ", e, " has ", count, " blocks in group ", group,
                                  " and needs ", needed));
    }
    if (layout.kind == batch::KvKind::kState &&
        static_cast<uint32_t>(entry.first_position) / tokens != (end - 1) / tokens) {
      return Refuse(
          error, StrCat("entry ", e, " goes from position ", entry.first_position, " to ", end - 1,
                        " over a border between states of ", tokens, " tokens in group ", group));
    }
    // Tokens are written and read through the table: a missing block is an error, never a skipped
    // write or a read of another sequence's.
    if (ids.low >= 0) continue;
    const uint32_t first =
        static_cast<uint32_t>(batch::FirstNeededPosition(layout, entry.first_position));
    for (int64_t b = first / tokens; b < needed; ++b) {
      if (table.ids[begin + b] < 0) {
        return Refuse(error, StrCat("entry ", e, " has no block for position ", b * tokens,
                                    " in group ", group));
      }
    }
  }
  return true;
}

// The sampler computes with these: a NaN among them, which is within nothing, would spoil its
// sorting.
Status InputBuilder::CheckStart(const batch::SlotStart& start) const {
  // In F32, as the bounds were rounded when the request's numbers were.
  const auto within = [](float value, limits::Range range) {
    return value >= static_cast<float>(range.low) && value <= static_cast<float>(range.high);
  };
  const batch::SamplingParams& params = start.sampling;
  bool good = start.slot >= 0 && start.slot < limits_.slots && start.prompt_tokens >= 0 &&
              start.prompt_tokens <= static_cast<int64_t>(start.history.size());
  ForEachSamplingField([&](const SamplingField& field,
                           auto value) { good &= within(static_cast<float>(value), field.range); },
                       params);
  for (const auto& [id, bias] : params.logit_bias) good &= within(bias, limits::kLogitBias);
  return good
             ? OkStatus()
             : BadPlan(StrCat("a start of slot ", start.slot,
                              " has a slot, a prompt length or a sampling parameter out of range"));
}

Status InputBuilder::CheckCopies(const batch::BatchPlan& plan) const {
  for (const batch::BlockCopy& copy : plan.copies) {
    if (copy.group < 0 || copy.group >= static_cast<int64_t>(store_.groups().size())) {
      return BadPlan(StrCat("a block copy in group ", copy.group));
    }
    const int blocks = store_.groups()[copy.group].num_blocks;
    for (const int32_t id : {copy.source, copy.destination}) {
      if (id < 0 || id >= blocks) return BadPlan(StrCat("a copy of block ", id, " of ", blocks));
    }
  }
  return OkStatus();
}

Status InputBuilder::Check(const batch::BatchPlan& plan) {
  const int64_t tokens = static_cast<int64_t>(plan.tokens.size());
  if (tokens > limits_.tokens || static_cast<int64_t>(plan.entries.size()) > limits_.sequences ||
      static_cast<int64_t>(plan.logits_rows.size()) > limits_.logits_rows) {
    return BadPlan(StrCat(tokens, " tokens, ", plan.entries.size(), " entries and ",
                          plan.logits_rows.size(), " logits rows pass the limits ", limits_.tokens,
                          ", ", limits_.sequences, ", ", limits_.logits_rows));
  }
  if (plan.groups.size() != store_.groups().size()) {
    return BadPlan(StrCat(plan.groups.size(), " layer groups of ", store_.groups().size()));
  }
  if (const IdRange ids = RangeOf(plan.tokens); ids.high >= limits_.vocab) {
    return BadPlan(StrCat("token id ", ids.high));
  }
  Status error;
  int64_t next_token = 0, next_row = 0;
  taken_slots_.assign(limits_.slots, false);
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    if (!CheckEntry(plan, e, next_token, &error)) return error;
    const batch::PlanEntry& entry = plan.entries[e];
    next_token += entry.query_tokens;
    if (entry.logits_begin != next_row) return BadPlan("logits rows are out of order");
    next_row += entry.logits_count;
    if (taken_slots_[entry.slot]) return BadPlan(StrCat("two entries have slot ", entry.slot));
    taken_slots_[entry.slot] = true;
  }
  if (next_token != tokens || next_row != static_cast<int64_t>(plan.logits_rows.size())) {
    return BadPlan("tokens or logits rows belong to no entry");
  }
  for (const batch::SlotStart& start : plan.starts) SLUICE_RETURN_IF_ERROR(CheckStart(start));
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    if (!CheckTable(plan, g, &error)) return error;
  }
  return CheckCopies(plan);
}

Status InputBuilder::TakeBuffers(PreparedBatch* batch) {
  {
    std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      *batch = std::move(spare_.back());
      spare_.pop_back();
      return OkStatus();
    }
  }
  const device::DeviceFacts& facts = device_.facts();
  const size_t bytes = InputBytes(limits_, store_.groups());
  SLUICE_ASSIGN_OR_RETURN(batch->host_,
                          device::AllocateStaging(device_, std::max(bytes, bucket_bytes_)));
  if (facts.device_memory) {
    SLUICE_ASSIGN_OR_RETURN(batch->device_, device_.Allocate(bytes, device::MemoryKind::kDevice));
  }
  SLUICE_ASSIGN_OR_RETURN(auto event, device_.CreateEvent());
  batch->copied_ = PendingCopy(std::move(event));
  return OkStatus();
}

// In a bucket what lies behind a sequence's blocks is left as it is: its context ends before.
void InputBuilder::FillGroup(const batch::BatchPlan& plan, int group, bool padded,
                             model::GroupInputs* inputs) const {
  const batch::GroupTable& table = plan.groups[group];
  const uint32_t block = static_cast<uint32_t>(store_.groups()[group].kernel_block_tokens);
  const int64_t tokens = static_cast<int64_t>(plan.tokens.size());
  int32_t* slots = inputs->slots.ptr<int32_t>();
  // A layer with a state finds it by the table.
  const bool state = store_.groups()[group].kind == batch::KvKind::kState;
  std::fill(slots + (state ? 0 : tokens), slots + inputs->slots.size(), -1);
  int32_t* ids = inputs->block_table.ptr<int32_t>();
  const int64_t width = inputs->block_table.dims[1];
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    const int32_t* row = table.ids.data() + table.begin[e];
    int32_t* const end = std::copy(row, table.ids.data() + table.begin[e + 1], ids + e * width);
    if (!padded) std::fill(end, ids + (e + 1) * width, -1);
    for (int i = 0; i < entry.query_tokens && !state; ++i) {
      const uint32_t position = static_cast<uint32_t>(entry.first_position + i);
      slots[entry.token_begin + i] = row[position / block] * static_cast<int32_t>(block) +
                                     static_cast<int32_t>(position % block);
    }
  }
}

// The arrays lie in one host buffer; a device that cannot read it gets them by one copy. The
// sequences that fill a bucket up have no query tokens and no context.
void InputBuilder::Fill(PreparedBatch* batch) {
  const batch::BatchPlan& plan = batch->plan_;
  const int64_t count = static_cast<int64_t>(plan.tokens.size());
  const int64_t sequences = static_cast<int64_t>(plan.entries.size());
  const int64_t rows = static_cast<int64_t>(plan.logits_rows.size());
  batch->bucket_ = BucketOf(plan);
  const bool padded = batch->bucket_ >= 0;
  if (!padded) {
    shape_.tokens = count;
    shape_.sequences = sequences;
    shape_.rows = rows;
    shape_.table_widths.assign(plan.groups.size(), 0);
    for (size_t g = 0; g < plan.groups.size(); ++g) {
      int64_t& width = shape_.table_widths[g];
      for (size_t e = 0; e < plan.entries.size(); ++e) {
        width = std::max<int64_t>(width, plan.groups[g].begin[e + 1] - plan.groups[g].begin[e]);
      }
    }
  }
  const InputShape& shape = padded ? bucket_shapes_[batch->bucket_] : shape_;
  model::DeviceBatch& host = host_inputs_;
  const size_t bytes = CarveInputs(batch->host_.view(), shape, &host);
  std::fill_n(host.token_ids.ptr<int32_t>() + count, shape.tokens - count, 0);
  std::fill_n(host.positions.ptr<int32_t>() + count, shape.tokens - count, 0);
  std::copy_n(plan.tokens.data(), count, host.token_ids.ptr<int32_t>());
  host.query_start.ptr<int32_t>()[0] = 0;
  for (int64_t e = 0; e < sequences; ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    host.query_start.ptr<int32_t>()[e + 1] = entry.token_begin + entry.query_tokens;
    host.context.ptr<int32_t>()[e] = entry.first_position + entry.query_tokens;
    int32_t* const positions = host.positions.ptr<int32_t>() + entry.token_begin;
    std::iota(positions, positions + entry.query_tokens, entry.first_position);
  }
  std::fill_n(host.query_start.ptr<int32_t>() + sequences + 1, shape.sequences - sequences,
              static_cast<int32_t>(count));
  std::fill_n(host.context.ptr<int32_t>() + sequences, shape.sequences - sequences, 0);
  for (int64_t r = 0; r < rows; ++r) {
    host.logits_rows.ptr<int32_t>()[r] = plan.logits_rows[r].token;
  }
  std::fill_n(host.logits_rows.ptr<int32_t>() + rows, shape.rows - rows, 0);
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    FillGroup(plan, static_cast<int>(g), padded, &host.groups[g]);
  }
  batch->copies_.clear();
  if (padded) {
    batch->inputs_ = bucket_inputs_[batch->bucket_];
    return;
  }
  batch->inputs_ = host;
  if (batch->device_.data() == nullptr) return;
  CarveInputs(batch->device_.view(), shape, &batch->inputs_);
  device::View source = batch->host_.view();
  source.bytes = bytes;
  batch->copies_.push_back({batch->device_.view(), source});
}

Result<PreparedBatch> InputBuilder::Build(batch::BatchPlan* plan, device::Stream& stream) {
  SLUICE_RETURN_IF_ERROR(Check(*plan));
  PreparedBatch batch;
  SLUICE_RETURN_IF_ERROR(TakeBuffers(&batch));
  std::swap(batch.plan_, *plan);
  Fill(&batch);
  if (!batch.copies_.empty()) {
    const Status copied = device_.Copy(stream, batch.copies_);
    // Also after an error: some of them may be on their way.
    const Status begun = batch.copied_.Begin(stream);
    SLUICE_RETURN_IF_ERROR(copied.ok() ? begun : copied);
  }
  return batch;
}

void InputBuilder::Recycle(PreparedBatch&& batch) {
  batch.synced_ = false;
  std::lock_guard lock(mutex_);
  spare_.push_back(std::move(batch));
}

}  // namespace sluice::exec
