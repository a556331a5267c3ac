#include "exec/input_builder.h"

#include <algorithm>

#include "base/str_cat.h"
#include "batch/draft_tree.h"
#include "device/staging.h"
#include "ops/attention.h"
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

IdRange RangeOf(std::span<const int32_t> ids) {
  IdRange range;
  for (const int32_t id : ids) {
    range.low = std::min(range.low, id);
    range.high = std::max(range.high, id);
  }
  return range;
}

bool Verifies(const batch::BatchPlan& plan, const batch::PlanEntry& entry) {
  const auto rows = std::span(plan.logits_rows).subspan(entry.logits_begin, entry.logits_count);
  return std::any_of(rows.begin(), rows.end(), [](const batch::LogitsRow& row) {
    return row.purpose == batch::RowPurpose::kVerify;
  });
}

// Block ids that a bucket's step may tell: the tables of sequences that join by a cached prefix,
// and a few for each. A step with more runs eagerly.
constexpr int64_t kToldOfBucket = 1024, kToldOfSequence = 4;

// The positions that the entry writes, with those of its guesses.
int64_t EndOf(const batch::PlanEntry& entry) {
  return int64_t{entry.first_position} + entry.query_tokens + entry.guesses;
}

}  // namespace

InputShape LargestShape(const InputLimits& limits, std::span<const batch::KvGroup> groups) {
  InputShape shape{.tokens = limits.tokens,
                   .sequences = limits.sequences,
                   .rows = limits.logits_rows,
                   .types = limits.token_types > 0,
                   .paths = limits.trees,
                   .drafts = limits.guesses > 0 ? limits.sequences : -1,
                   .draws = limits.draws,
                   .told = {},
                   .table_widths = TableWidths(groups, limits.positions)};
  for (const int64_t width : shape.table_widths) shape.told.push_back(limits.sequences * width);
  return shape;
}

InputShape InputBuilder::ShapeOf(const BucketShape& bucket) const {
  InputLimits limits = limits_;
  limits.tokens = bucket.tokens;
  limits.logits_rows = bucket.rows();
  limits.sequences = bucket.sequences;
  InputShape shape = LargestShape(limits, groups_);
  for (int64_t& told : shape.told) {
    told = std::min(told, kToldOfBucket + kToldOfSequence * bucket.sequences);
  }
  return shape;
}

void InputBuilder::UseBuckets(std::vector<BucketShape> buckets, int query_max) {
  for (const BucketShape& bucket : buckets) bucket_shapes_.push_back(ShapeOf(bucket));
  bucket_query_max_ = query_max;
  buckets_ = std::move(buckets);
  const auto chunk = std::find_if(buckets_.begin(), buckets_.end(),
                                  [](const BucketShape& bucket) { return bucket.chunk; });
  first_chunk_ = static_cast<size_t>(chunk - buckets_.begin());
}

int InputBuilder::DecodeBucket(const batch::BatchPlan& plan) const {
  for (const batch::PlanEntry& entry : plan.entries) {
    if (entry.query_tokens > bucket_query_max_) return -1;
  }
  const auto sequences = static_cast<int64_t>(plan.entries.size());
  // A token has more than one row where its neighbours have none; then there may be too many.
  const auto tokens = static_cast<int64_t>(std::max(plan.tokens.size(), plan.logits_rows.size()));
  const auto end = buckets_.begin() + static_cast<int64_t>(first_chunk_);
  const auto fewest = std::lower_bound(
      buckets_.begin(), end, sequences,
      [](const BucketShape& bucket, int64_t count) { return bucket.sequences < count; });
  for (auto bucket = fewest; bucket != end && bucket->sequences == fewest->sequences; ++bucket) {
    if (bucket->tokens >= tokens) return static_cast<int>(bucket - buckets_.begin());
  }
  return -1;
}

int InputBuilder::ChunkBucket(const batch::BatchPlan& plan) const {
  for (size_t i = first_chunk_; i < buckets_.size(); ++i) {
    const BucketShape& bucket = buckets_[i];
    if (std::cmp_less_equal(plan.tokens.size(), bucket.tokens) &&
        std::cmp_less_equal(plan.entries.size(), bucket.sequences) &&
        std::cmp_less_equal(plan.logits_rows.size(), bucket.rows())) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void InputBuilder::ChooseBucket(PreparedBatch* batch) const {
  const batch::BatchPlan& plan = batch->plan;
  batch->bucket = -1;
  batch->overfull = false;
  if (plan.entries.empty()) return;
  int index = DecodeBucket(plan);
  if (index < 0) index = ChunkBucket(plan);
  if (index < 0) return;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const auto told = static_cast<int64_t>(plan.groups[g].ids.size());
    batch->overfull |= told > bucket_shapes_[index].told[g];
  }
  if (!batch->overfull) batch->bucket = index;
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
  if (entry.second_text >= 0 && limits_.token_types < 2) {
    return Refuse(error, StrCat("entry ", index, " has a second text, and the model ",
                                limits_.token_types, " types of tokens"));
  }
  return CheckTokens(plan, index, error) && CheckRows(plan, index, error) &&
         CheckTree(plan, index, error) && CheckGuesses(plan, index, error);
}

// Each of its last tokens has a row, all of which are verified, in their order; and nothing of it
// is left open, since what it draws is known when it has been collected.
bool InputBuilder::CheckTree(const batch::BatchPlan& plan, size_t index, Status* error) const {
  const batch::PlanEntry& entry = plan.entries[index];
  if (entry.tree < 0) return true;
  const int64_t drafts = int64_t{entry.logits_count} - 1;
  bool good = limits_.trees && drafts > 0 && !entry.masked &&
              entry.tree + drafts <= static_cast<int64_t>(plan.parents.size()) &&
              batch::IsTree(batch::ParentsOf(plan, entry));
  const int32_t end = entry.token_begin + entry.query_tokens;
  for (int32_t i = 0; good && i <= drafts; ++i) {
    const batch::LogitsRow& row = plan.logits_rows[entry.logits_begin + i];
    good = row.purpose == batch::RowPurpose::kVerify && row.target >= -1 &&
           row.token == end - entry.logits_count + i;
  }
  for (int32_t t = entry.token_begin; good && t < end; ++t) good = plan.tokens[t] >= 0;
  return good || Refuse(error, StrCat("entry ", index, " has a tree of ", drafts,
                                      " drafts that cannot be verified"));
}

// What is guessed stands behind what the entry draws.
bool InputBuilder::CheckGuesses(const batch::BatchPlan& plan, size_t index, Status* error) const {
  const batch::PlanEntry& entry = plan.entries[index];
  if (entry.next_token >= limits_.vocab)
    return Refuse(error, StrCat("token id ", entry.next_token, " behind entry ", index));
  if (entry.guesses == 0) return true;
  const bool draws = entry.logits_count > 0 && entry.next_token < 0 &&
                     plan.logits_rows[entry.logits_begin + entry.logits_count - 1].purpose !=
                         batch::RowPurpose::kScore;
  if (!draws || entry.guesses < std::max(1, plan.guesses) || entry.guesses > limits_.guesses ||
      EndOf(entry) > limits_.positions) {
    return Refuse(error,
                  StrCat("entry ", index, " has room for ", entry.guesses, " of ", plan.guesses,
                         " guesses behind position ", entry.first_position + entry.query_tokens));
  }
  return true;
}

// The token that was drawn last comes first, and guesses follow one another.
bool InputBuilder::CheckTokens(const batch::BatchPlan& plan, size_t index, Status* error) const {
  const batch::PlanEntry& entry = plan.entries[index];
  const auto tokens = std::span(plan.tokens).subspan(entry.token_begin, entry.query_tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0) continue;
    const bool known = i < static_cast<size_t>(batch::kKnownTokens) &&
                       tokens[i] == batch::KnownToken(static_cast<int32_t>(i));
    const bool drafts = i == 0 || i == 1 || tokens[i - 1] < 0;
    if (known && drafts) continue;
    return Refuse(error, StrCat("token ", i, " of entry ", index, " is number ",
                                -1 - int64_t{tokens[i]}, " of those that its slot knows"));
  }
  if (entry.unsure < 0 || entry.unsure > entry.first_position ||
      (entry.unsure > 0 && tokens.front() != batch::kLastDrawn)) {
    return Refuse(error, StrCat("entry ", index, " is unsure of ", entry.unsure,
                                " positions before ", entry.first_position));
  }
  return true;
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
    const bool last = logits.token + 1 == entry.token_begin + entry.query_tokens;
    const bool guess = logits.purpose == batch::RowPurpose::kVerify && !last &&
                       logits.target == plan.tokens[logits.token + 1];
    if ((logits.target < least && !guess) || logits.target >= limits_.vocab) {
      return Refuse(error, StrCat("entry ", index, " has the target token ", logits.target));
    }
  }
  return true;
}

bool InputBuilder::CheckTable(const batch::BatchPlan& plan, size_t group, Status* error) const {
  const batch::GroupTable& table = plan.groups[group];
  const batch::KvGroup& layout = groups_[group];
  const int64_t blocks = static_cast<int64_t>(layout.num_blocks) * layout.ratio();
  const uint32_t tokens = static_cast<uint32_t>(layout.kernel_block_tokens);
  const int64_t most = batch::TableWidth(layout, limits_.positions);
  const size_t entries = plan.entries.size();
  if (table.begin.size() != entries + 1 || table.first.size() != entries ||
      table.begin.front() != 0 || table.begin.back() != static_cast<int64_t>(table.ids.size())) {
    return Refuse(error, StrCat("the block tables of group ", group, " do not match the entries"));
  }
  const IdRange ids = RangeOf(table.ids);
  if (ids.low < -1 || ids.high >= blocks) {
    return Refuse(error, StrCat("block ", ids.low < -1 ? ids.low : ids.high, " of ", blocks));
  }
  for (size_t e = 0; e < entries; ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    // Not negative and below limits_.positions: CheckEntry came first.
    const uint32_t end = static_cast<uint32_t>(entry.first_position + entry.query_tokens);
    const int64_t needed = (EndOf(entry) + tokens - 1) / tokens;
    if (table.first[e] < 0 || table.begin[e] > table.begin[e + 1] || table.Width(e) < needed ||
        table.Width(e) > most) {
      return Refuse(error,
                    StrCat("entry ", e, " has ", table.Width(e), " blocks in group ", group,
                           ", told from number ", table.first[e], " on, and needs ", needed));
    }
    if (layout.kind == batch::KvKind::kState &&
        static_cast<uint32_t>(entry.first_position) / tokens != (end - 1) / tokens) {
      return Refuse(
          error, StrCat("entry ", e, " goes from position ", entry.first_position, " to ", end - 1,
                        " over a border between states of ", tokens, " tokens in group ", group));
    }
    if (layout.kind == batch::KvKind::kState && entry.query_tokens > layout.states &&
        Verifies(plan, entry)) {
      return Refuse(
          error, StrCat("entry ", e, " verifies drafts in ", entry.query_tokens,
                        " tokens, but group ", group, " keeps the states behind ", layout.states));
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
    if (copy.group < 0 || copy.group >= static_cast<int64_t>(groups_.size())) {
      return BadPlan(StrCat("a block copy in group ", copy.group));
    }
    const int blocks = groups_[copy.group].num_blocks;
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
  if (plan.groups.size() != groups_.size()) {
    return BadPlan(StrCat(plan.groups.size(), " layer groups of ", groups_.size()));
  }
  if (plan.guesses < -1 || plan.guesses > limits_.guesses) {
    return BadPlan(StrCat(plan.guesses, " guesses of ", limits_.guesses));
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
  if (!tables_.Check(plan, &why_)) return BadPlan(why_);
  return CheckCopies(plan);
}

Status InputBuilder::TakeBuffers(PreparedBatch* batch) {
  if (!spare_.empty()) {
    *batch = std::move(spare_.back());
    spare_.pop_back();
    return OkStatus();
  }
  const size_t bytes = CarveInputs({}, LargestShape(limits_, groups_), &inputs_);
  SLUICE_ASSIGN_OR_RETURN(batch->host, device::AllocateStaging(device_, bytes + limits_.behind));
  return OkStatus();
}

void InputBuilder::SetShape(PreparedBatch* batch) const {
  const batch::BatchPlan& plan = batch->plan;
  if (batch->bucket >= 0) {
    batch->shape = bucket_shapes_[batch->bucket];
    return;
  }
  InputShape& shape = batch->shape;
  shape.tokens = static_cast<int64_t>(plan.tokens.size());
  shape.sequences = static_cast<int64_t>(plan.entries.size());
  shape.rows = static_cast<int64_t>(plan.logits_rows.size());
  shape.types = limits_.token_types > 0;
  shape.paths = limits_.trees;
  shape.drafts = -1;
  shape.draws = limits_.draws;
  if (limits_.guesses > 0) {
    shape.drafts = std::count_if(plan.entries.begin(), plan.entries.end(),
                                 [](const batch::PlanEntry& entry) { return entry.guesses > 0; });
  }
  shape.told.assign(plan.groups.size(), 0);
  shape.table_widths.assign(plan.groups.size(), 0);
  int32_t longest = 0;
  for (const batch::PlanEntry& entry : plan.entries) {
    longest = std::max(longest, static_cast<int32_t>(EndOf(entry)));
  }
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    shape.told[g] = static_cast<int64_t>(plan.groups[g].ids.size());
    shape.table_widths[g] = batch::TableWidth(groups_[g], longest);
  }
}

// What a bucket has room for behind what a plan tells is left as it is.
void InputBuilder::Fill(PreparedBatch* batch) {
  const batch::BatchPlan& plan = batch->plan;
  const InputShape& shape = batch->shape;
  const auto sequences = static_cast<int64_t>(plan.entries.size());
  batch->bytes = CarveInputs(batch->host.view(), shape, &inputs_);
  const auto copy = [](const std::vector<int32_t>& values, const ops::Tensor& to, int32_t padding) {
    int32_t* const end = std::copy(values.begin(), values.end(), to.ptr<int32_t>());
    std::fill(end, to.ptr<int32_t>() + to.size(), padding);
  };
  copy(plan.tokens, inputs_.token_ids, 0);
  int32_t* const query_start = inputs_.query_start.ptr<int32_t>();
  int32_t* const first = inputs_.first.ptr<int32_t>();
  int32_t* const unsure = inputs_.unsure.ptr<int32_t>();
  int32_t* const slots = inputs_.slots.ptr<int32_t>();
  for (int64_t e = 0; e < sequences; ++e) {
    const batch::PlanEntry& entry = plan.entries[e];
    query_start[e] = entry.token_begin;
    first[e] = entry.first_position;
    slots[e] = entry.slot;
    int32_t* const ids = inputs_.token_ids.ptr<int32_t>() + entry.token_begin;
    unsure[e] = entry.unsure;
    for (int32_t i = 0; i < entry.query_tokens && i < batch::kKnownTokens; ++i) {
      if (ids[i] < 0) ids[i] -= entry.slot * batch::kKnownTokens;
    }
  }
  std::fill(query_start + sequences, query_start + shape.sequences + 1,
            static_cast<int32_t>(plan.tokens.size()));
  std::fill(first + sequences, first + shape.sequences, 0);
  std::fill(unsure + sequences, unsure + shape.sequences, 0);
  std::fill(slots + sequences, slots + shape.sequences, -1);
  int32_t* row = inputs_.logits_rows.ptr<int32_t>();
  for (const batch::LogitsRow& logits : plan.logits_rows) *row++ = logits.token;
  std::fill(row, inputs_.logits_rows.ptr<int32_t>() + shape.rows, 0);
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const batch::GroupTable& table = plan.groups[g];
    copy(table.begin, inputs_.groups[g].told_start, table.begin.back());
    copy(table.first, inputs_.groups[g].told_first, 0);
    std::copy(table.ids.begin(), table.ids.end(), inputs_.groups[g].told.ptr<int32_t>());
  }
}

void InputBuilder::FillTypes(const PreparedBatch& batch) {
  if (!batch.shape.types) return;
  int32_t* const types = inputs_.token_types.ptr<int32_t>();
  std::fill(types, types + batch.shape.tokens, 0);
  for (const batch::PlanEntry& entry : batch.plan.entries) {
    if (entry.second_text < 0) continue;
    const int32_t first =
        std::clamp(entry.second_text - entry.first_position, 0, entry.query_tokens);
    std::fill(types + entry.token_begin + first, types + entry.token_begin + entry.query_tokens, 1);
  }
}

void InputBuilder::FillPaths(const PreparedBatch& batch) {
  if (!batch.shape.paths) return;
  int32_t* const paths = inputs_.paths.ptr<int32_t>();
  std::fill_n(paths, batch.shape.tokens * ops::kPathNumbers, 0);
  for (const batch::PlanEntry& entry : batch.plan.entries) {
    if (entry.tree < 0) continue;
    ops::WritePaths(batch::ParentsOf(batch.plan, entry),
                    paths + int64_t{batch::RootOf(entry)} * ops::kPathNumbers);
  }
}

// Those that guess, one behind the other.
void InputBuilder::FillDrafts(const PreparedBatch& batch) {
  if (batch.shape.drafts < 0) return;
  int32_t* const next = inputs_.next.ptr<int32_t>();
  int32_t* const drafting = inputs_.drafting.ptr<int32_t>();
  int32_t* const slots = inputs_.draft_slots.ptr<int32_t>();
  int32_t* const start = inputs_.draft_start.ptr<int32_t>();
  int32_t* const ids = inputs_.draft_ids.ptr<int32_t>();
  int32_t count = 0;
  for (size_t e = 0; e < batch.plan.entries.size(); ++e) {
    const batch::PlanEntry& entry = batch.plan.entries[e];
    next[e] = entry.next_token;
    if (entry.guesses == 0) continue;
    drafting[count] = static_cast<int32_t>(e);
    slots[count] = entry.slot;
    ids[count] = batch::kLastDrawn - entry.slot * batch::kKnownTokens;
    start[count] = count;
    ++count;
  }
  std::fill(next + batch.plan.entries.size(), next + batch.shape.sequences, -1);
  std::fill(drafting + count, drafting + batch.shape.drafts, -1);
  std::fill(slots + count, slots + batch.shape.drafts, -1);
  std::fill(ids + count, ids + batch.shape.drafts, 0);
  std::fill(start + count, start + batch.shape.drafts + 1, count);
}

Result<PreparedBatch> InputBuilder::Build(batch::BatchPlan* plan) {
  SLUICE_RETURN_IF_ERROR(Check(*plan));
  PreparedBatch batch;
  SLUICE_RETURN_IF_ERROR(TakeBuffers(&batch));
  std::swap(batch.plan, *plan);
  tables_.Take(batch.plan);
  ChooseBucket(&batch);
  SetShape(&batch);
  Fill(&batch);
  FillTypes(batch);
  FillPaths(batch);
  FillDrafts(batch);
  return batch;
}

}  // namespace sluice::exec
