#include "exec/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "device/part.h"
#include "device/staging.h"

namespace sluice::exec {
namespace {

Status BuiltOnFailed(uint64_t step) {
  return Status(StatusCode::kDevice, StrCat("it was built on step ", step, ", which failed"));
}

// REQUIRES: it does not fit.
EagerSampling ReasonOf(sample::Sampler::Misfit misfit) {
  switch (misfit) {
    case sample::Sampler::Misfit::kEdits:
      return EagerSampling::kEdits;
    case sample::Sampler::Misfit::kMasks:
      return EagerSampling::kMasks;
    case sample::Sampler::Misfit::kDistributions:
    case sample::Sampler::Misfit::kNone:
      break;
  }
  return EagerSampling::kDistributions;
}

}  // namespace

RunnerTotals Executor::Totals() const {
  const device::SubmitCounts steps = stream_->counts();
  RunnerTotals totals;
  totals.kernels = steps.kernels - warm_up_.kernels;
  totals.host_calls = steps.host_calls - warm_up_.host_calls;
  totals.eager_samplings = eager_samplings_;
  totals.eager_tables = eager_tables_;
  totals.drafting_s = 1e-6 * static_cast<double>(drafting_us_);
  totals.drafts_failed = proposer_ != nullptr && proposer_->failed();
  if (timer_) totals.busy_s = timer_->times().busy_s, totals.idle_s = timer_->times().idle_s;
  return totals;
}

Executor::~Executor() { CHECK(unfinished_.empty(), unfinished_.size(), " steps are unfinished"); }

Status Executor::CheckLaunch(const batch::BatchPlan& plan, const batch::KvSink* sink) {
  const auto refuse = [&](const auto&... why) {
    return Status(StatusCode::kFailedPrecondition,
                  StrCat("step ", plan.step, " was launched ", why...));
  };
  if (idle_.empty()) return refuse("while ", unfinished_.size(), " others are unfinished");
  const bool waits = !unfinished_.empty() && unfinished_.back()->waits;
  if (waits) return refuse("while the step before waits for its masks");
  if (!unfinished_.empty() && (sink != nullptr || unfinished_.back()->sink != nullptr)) {
    return refuse("beside a step whose KV a sink follows");
  }
  // It may have been planned before the failure was known.
  const auto known = [](batch::TokenRef token) { return token < 0; };
  if (failed_step_ != 0 && plan.step == failed_step_ + 1 &&
      std::any_of(plan.tokens.begin(), plan.tokens.end(), known)) {
    return BuiltOnFailed(failed_step_);
  }
  return OkStatus();
}

Status Executor::CopyBlocks(const batch::BatchPlan& plan) {
  if (plan.copies.empty()) return OkStatus();
  SLUICE_RETURN_IF_ERROR(store_.Copy(*stream_, plan.copies));
  return proposer_ == nullptr ? OkStatus() : proposer_->CopyBlocks(*stream_, plan.copies);
}

Status Executor::Place(device::Stream& stream, const Inputs& inputs, bool names_rows) {
  const StepInputs& given = inputs.given;
  if (names_rows) SLUICE_RETURN_IF_ERROR(sampler_->ResolveTokens(stream, given.token_ids));
  for (size_t g = 0; g < place_.size(); ++g) {
    SLUICE_RETURN_IF_ERROR(place_[g](stream, {.query_start = given.query_start,
                                              .first = given.first,
                                              .unsure = given.unsure,
                                              .slots = given.slots,
                                              .lengths = sampler_->lengths(),
                                              .told_start = given.groups[g].told_start,
                                              .told_first = given.groups[g].told_first,
                                              .told = given.groups[g].told,
                                              .tables = tables_[g],
                                              .paths = given.paths,
                                              .positions = inputs.model.positions,
                                              .context = inputs.model.context,
                                              .kv_slots = inputs.model.groups[g].slots,
                                              .block_table = inputs.model.groups[g].block_table}));
  }
  return OkStatus();
}

model::ForwardContext Executor::Context(device::Stream& stream) const {
  model::ForwardContext context;
  context.stream = &stream;
  context.workspace = workspace_.view();
  context.kv = kv_;
  context.attention_plans = attention_plans_;
  if (expert_counter_) {
    context.expert_counts = expert_counter_->counts();
    context.expert_slot_counts = expert_counter_->slot_counts();
  }
  if (mover_ != nullptr) context.expert_maps = mover_->maps();
  return context;
}

// With a step on the stream its counts come soon, and a look at the device would wait for it.
Status Executor::ReadExpertLoads() {
  if (expert_counter_ == nullptr || !unfinished_.empty()) return OkStatus();
  return expert_counter_->ReadNow(*stream_, NowMicros());
}

Result<bool> Executor::MoveExperts() {
  if (mover_ == nullptr || !unfinished_.empty()) return false;
  SLUICE_RETURN_IF_ERROR(mover_->Advance(*stream_, expert_counter_->loads()));
  SLUICE_RETURN_IF_ERROR(stream_->Synchronize());
  return mover_->balancer().busy();
}

Result<SinkObserver*> Executor::Observe(batch::KvSink* sink) {
  if (sink == nullptr) return nullptr;
  while (static_cast<int>(layer_events_.size()) < store_.layer_count()) {
    SLUICE_ASSIGN_OR_RETURN(layer_events_.emplace_back(), device_.CreateEvent());
  }
  return &observer_.emplace(*sink, *stream_, layer_events_);
}

model::Outputs Executor::OutputsOf(const model::DeviceBatch& inputs, int64_t rows) const {
  model::Outputs outputs{Logits(rows)};
  if (!vectors_.empty()) outputs.vectors = vectors_.Rows(0, inputs.sequences());
  if (hidden_.empty()) return outputs;
  outputs.layers = hidden_layers_;
  (hidden_layers_.empty() ? outputs.hidden : outputs.layers_hidden) =
      hidden_.Rows(0, inputs.tokens());
  return outputs;
}

Status Executor::RunModel(Flight* flight, const model::DeviceBatch& inputs, int64_t rows) {
  model::ForwardContext context = Context(*stream_);
  SLUICE_ASSIGN_OR_RETURN(context.observer, Observe(flight->sink));
  return model_.Forward(context, inputs, OutputsOf(inputs, rows));
}

Status Executor::Propose(device::Stream& stream, const Inputs& inputs, int guesses,
                         batch::KvSink* sink) {
  if (proposer_ == nullptr) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(SinkObserver* const observer, Observe(sink));
  const int64_t start = NowMicros();
  const Status status = proposer_->Propose(stream, inputs.given, inputs.model, guesses, observer);
  if (!device_.facts().runs_beside_host) drafting_us_ += NowMicros() - start;
  return status;
}

ops::Tensor Executor::Logits(int64_t rows) const {
  if (rows == 0) return {};
  return ops::Dense(logits_.view(), DType::kF32, {rows, model_.vocab_size()});
}

int64_t Executor::ColdRuns() const {
  return graphs_ == nullptr ? 0 : graphs_->cold_runs() + sampling_graphs_->cold_runs();
}

Status Executor::Enqueue(Flight* flight) {
  const batch::BatchPlan& plan = flight->batch.plan;
  SLUICE_RETURN_IF_ERROR(flight->marks.Begin(*stream_));
  SLUICE_RETURN_IF_ERROR(CopyBlocks(plan));
  const int64_t start = NowMicros();
  if (mover_ != nullptr) {
    mover_->balancer().BeginStep(start);
    SLUICE_RETURN_IF_ERROR(mover_->Advance(*stream_, expert_counter_->loads()));
  }
  if (proposer_ != nullptr && proposer_->failed()) sampler_->ForgetGuesses();
  sampler_->Build(plan, &flight->rows);
  WriteGuessRows(flight);
  flight->waits = flight->rows.waits();
  flight->costs.sample = NowMicros() - start;
  Status status = EnqueueModel(flight);
  if (status.ok())
    status = flight->waits ? stream_->Record(*flight->modelled) : EnqueueSampling(flight);
  if (!status.ok()) sampler_->Drop(plan, flight->rows);
  return status;
}

void Executor::WriteGuessRows(Flight* flight) {
  const PreparedBatch& batch = flight->batch;
  if (!batch.shape.draws || batch.shape.drafts < 0) return;
  CarveInputs(batch.host.view(), batch.shape, &on_host_);
  sampler_->WriteGuessRows(batch.plan, on_host_.draft_rows);
}

size_t Executor::WriteRows(Flight* flight, const Inputs& inputs) const {
  const int64_t edits = flight->rows.edit_count();
  if (edits > inputs.edits) return 0;
  const PreparedBatch& batch = flight->batch;
  const int64_t rows = batch.shape.rows;
  sample::Sampler::WriteFixed(flight->rows, rows, inputs.edits, batch.host.data() + batch.bytes);
  sample::Sampler::ReadFixed(inputs.sampling, rows, &flight->rows);
  return sample::Sampler::FixedBytes(rows, edits);
}

// The sampler's rows of a bucket's step go to the device with the model's inputs, in one copy;
// edits, which few steps have, in another.
Status Executor::WriteBucket(Flight* flight, device::View* source) {
  const Inputs& bucket = bucket_inputs_[flight->batch.bucket];
  const int64_t rows = flight->batch.shape.rows, edits = flight->rows.edit_count();
  *source = flight->batch.host.view();
  source->bytes = bucket.bytes;
  flight->misfit = sampler_->FitsFixed(flight->rows, bucket.edits);
  WriteRows(flight, bucket);
  if (edits == 0 || edits > bucket.edits) return OkStatus();
  const size_t bytes =
      sample::Sampler::FixedBytes(rows, edits) - sample::Sampler::FixedBytes(rows, 0);
  const device::CopyItem item{device::Part(parameters_.view(), bucket.bytes, bytes),
                              device::Part(flight->batch.host.view(), bucket.bytes, bytes)};
  return device_.Copy(*stream_, {&item, 1});
}

Status Executor::EnqueueModel(Flight* flight) {
  const int index = flight->batch.bucket;
  flight->costs.cold = false;
  if (flight->batch.plan.tokens.empty()) return OkStatus();
  if (index < 0) return EnqueueEager(flight);
  device::View source;
  SLUICE_RETURN_IF_ERROR(WriteBucket(flight, &source));
  if (flight->sink == nullptr) {
    const int64_t cold_before = ColdRuns();
    const Status status = graphs_->Run(*stream_, index, source);
    flight->costs.cold = ColdRuns() != cold_before;
    return status;
  }
  const Inputs& bucket = bucket_inputs_[index];
  SLUICE_RETURN_IF_ERROR(graphs_->Upload(*stream_, index, source));
  SLUICE_RETURN_IF_ERROR(Place(*stream_, bucket, true));
  return RunModel(flight, bucket.model, graphs_->shape(index).rows());
}

Status Executor::EnqueueEager(Flight* flight) {
  const PreparedBatch& batch = flight->batch;
  eager_tables_ += batch.overfull ? 1 : 0;
  if (device_.facts().device_memory) {
    device::CopyItem item{parameters_.view(), batch.host.view()};
    item.source.bytes = CarveStaged(batch.shape, &eager_);
    item.source.bytes += WriteRows(flight, eager_);
    SLUICE_RETURN_IF_ERROR(device_.Copy(*stream_, {&item, 1}));
  } else {
    Carve(batch.host.view(), batch.shape, &eager_);
  }
  const std::vector<batch::TokenRef>& tokens = batch.plan.tokens;
  const bool names_rows =
      std::any_of(tokens.begin(), tokens.end(), [](batch::TokenRef t) { return t < 0; });
  SLUICE_RETURN_IF_ERROR(Place(*stream_, eager_, names_rows));
  return RunModel(flight, eager_.model, batch.shape.rows);
}

Status Executor::EnqueueSampling(Flight* flight) {
  const int64_t start = NowMicros(), cold_before = ColdRuns();
  const int index = flight->batch.bucket, guesses = flight->batch.plan.guesses;
  const bool fixed = index >= 0 && !graphs_->shape(index).chunk;
  if (fixed && flight->misfit == sample::Sampler::Misfit::kNone) {
    SLUICE_RETURN_IF_ERROR(sampler_->UploadBesideFixed(*stream_, &flight->rows));
    const int graph = proposer_ == nullptr ? index : index + (guesses + 1) * sampling_buckets_;
    SLUICE_RETURN_IF_ERROR(flight->sink == nullptr || proposer_ == nullptr
                               ? sampling_graphs_->Run(*stream_, graph, {})
                               : RunSamplingOf(*stream_, index, guesses, flight->sink));
    SLUICE_RETURN_IF_ERROR(
        sampler_->FetchFixed(*stream_, graphs_->shape(index).tokens, &flight->rows));
  } else {
    if (fixed) ++eager_samplings_[static_cast<size_t>(ReasonOf(flight->misfit))];
    const auto rows = static_cast<int64_t>(flight->batch.plan.logits_rows.size());
    SLUICE_RETURN_IF_ERROR(sampler_->Run(*stream_, Logits(rows), &flight->rows));
    if (!flight->batch.plan.tokens.empty()) {
      const Inputs& inputs = index >= 0 ? bucket_inputs_[index] : eager_;
      SLUICE_RETURN_IF_ERROR(Propose(*stream_, inputs, guesses, flight->sink));
    }
  }
  if (propose_) SLUICE_RETURN_IF_ERROR(propose_(*stream_, sampler_->lengths(), sampler_->tokens()));
  SLUICE_RETURN_IF_ERROR(FetchNodes(flight));
  flight->costs.sample += NowMicros() - start;
  flight->costs.cold |= ColdRuns() != cold_before;
  if (expert_counter_) {
    SLUICE_ASSIGN_OR_RETURN(flight->counts_experts, expert_counter_->Fetch(*stream_, start));
  }
  SLUICE_RETURN_IF_ERROR(flight->marks.End(*stream_));
  return stream_->Record(*flight->done);
}

Status Executor::RunModelOf(device::Stream& stream, int index) {
  const Inputs& bucket = bucket_inputs_[index];
  SLUICE_RETURN_IF_ERROR(Place(stream, bucket, true));
  model::ForwardContext context = Context(stream);
  return model_.Forward(context, bucket.model,
                        OutputsOf(bucket.model, graphs_->shape(index).rows()));
}

Status Executor::RunSamplingOf(device::Stream& stream, int index, int guesses,
                               batch::KvSink* sink) {
  const Inputs& bucket = bucket_inputs_[index];
  const int rows = graphs_->shape(index).tokens;
  SLUICE_RETURN_IF_ERROR(
      sampler_->RunFixed(stream, rows, bucket.edits, bucket.sampling, Logits(rows)));
  return Propose(stream, bucket, guesses, sink);
}

// A plan without tokens has no forward pass, so the sink hears nothing of it.
Result<Step> Executor::Launch(batch::BatchPlan* next, batch::KvSink* sink) {
  const int64_t start = NowMicros();
  if (next->tokens.empty()) sink = nullptr;
  SLUICE_RETURN_IF_ERROR(CheckLaunch(*next, sink));
  SLUICE_ASSIGN_OR_RETURN(PreparedBatch batch, builder_->Build(next));
  Flight* const flight = idle_.back();
  flight->costs.prepare = NowMicros() - start;
  flight->batch = std::move(batch);
  flight->sink = sink;
  flight->status = OkStatus();
  flight->fetched.clear();
  const batch::BatchPlan& plan = flight->batch.plan;
  sampler_->Begin(plan);
  if (sink != nullptr) {
    const Status begun = sink->Begin(plan);
    if (!begun.ok()) {
      Reclaim(flight, /*failed=*/true);
      return begun;
    }
  }
  const Status status = Enqueue(flight);
  if (!status.ok()) return Abandon(flight, status);
  idle_.pop_back();
  unfinished_.push_back(flight);
  last_step_ = plan.step;
  return Step(flight);
}

void Executor::Reclaim(Flight* flight, bool failed) {
  if (failed) builder_->Forget(flight->batch);
  builder_->Recycle(std::move(flight->batch));
}

// What is on the stream already reads the batch.
Status Executor::Abandon(Flight* flight, const Status& status) {
  TellStepBefore(nullptr, status);
  EndCounting(flight, false);
  if (mover_ != nullptr) mover_->Lost();
  failed_step_ = flight->batch.plan.step;
  if (flight->sink != nullptr) flight->sink->Abort();
  Reclaim(flight, /*failed=*/true);
  return status;
}

// The device tells an error once, so one that is found here may be that of the step before: both
// have failed then.
void Executor::TellStepBefore(const Flight* flight, const Status& status) {
  const Status waited = stream_->Synchronize();
  const auto end = std::find(unfinished_.begin(), unfinished_.end(), flight);
  if (end == unfinished_.begin()) return;
  Flight& before = **(end - 1);
  if (!waited.ok()) before.status = waited;
  if (status.code() == StatusCode::kDevice) before.status = status;
}

Status Executor::Sample(Flight* flight, const batch::MaskSet& masks) {
  CHECK(flight->waits && unfinished_.back() == flight, "the step does not wait for masks");
  if (!flight->status.ok()) return flight->status;
  Status status = sampler_->TakeMasks(flight->batch.plan, masks, &flight->rows);
  if (status.ok()) status = ReplaceLogits(flight, masks);
  if (status.ok()) status = EnqueueSampling(flight);
  if (!status.ok()) {
    TellStepBefore(flight, status);
    flight->status = status;
    return status;
  }
  flight->waits = false;
  builder_->ForgetDrawn(flight->batch, masks.late);
  return status;
}

device::View Executor::LogitsRow(int32_t row) const {
  const size_t bytes = static_cast<size_t>(model_.vocab_size()) * sizeof(float);
  return device::Part(logits_.view(), static_cast<size_t>(row) * bytes, bytes);
}

// Behind the model on the stream, so that they are there when it is done.
Status Executor::FetchLogits(Flight* flight, std::span<const int32_t> rows) {
  CHECK(flight->waits && flight->fetched.empty(), "the step does not wait, or has fetched before");
  flight->fetched.assign(rows.begin(), rows.end());
  if (!device_.facts().device_memory) return OkStatus();
  const Status status = [&]() -> Status {
    const size_t bytes = LogitsRow(0).bytes;
    if (flight->row_logits.bytes() < 2 * rows.size() * bytes) {
      SLUICE_ASSIGN_OR_RETURN(flight->row_logits,
                              device::AllocateStaging(device_, 2 * rows.size() * bytes));
    }
    std::vector<device::CopyItem> copies;
    for (size_t i = 0; i < rows.size(); ++i) {
      copies.push_back(
          {device::Part(flight->row_logits.view(), i * bytes, bytes), LogitsRow(rows[i])});
    }
    SLUICE_RETURN_IF_ERROR(device_.Copy(*stream_, copies));
    return stream_->Record(*flight->modelled);
  }();
  if (!status.ok()) flight->status = status;
  return status;
}

std::span<const float> Executor::FetchedLogits(const Flight& flight, size_t i) const {
  const auto vocab = static_cast<size_t>(model_.vocab_size());
  const std::byte* const data = device_.facts().device_memory
                                    ? flight.row_logits.data() + i * vocab * sizeof(float)
                                    : LogitsRow(flight.fetched[i]).data;
  return {reinterpret_cast<const float*>(data), vocab};
}

// The model, and the copy of what FetchLogits wants, may still be under way.
Status Executor::ReplaceLogits(Flight* flight, const batch::MaskSet& masks) {
  if (masks.replaced.size() > flight->fetched.size())
    return InvalidArgument(StrCat("the logits of ", masks.replaced.size(),
                                  " rows come from others than the model, and ",
                                  flight->fetched.size(), " were fetched"));
  const bool apart = device_.facts().device_memory;
  if (!apart && !masks.replaced.empty()) SLUICE_RETURN_IF_ERROR(flight->modelled->Synchronize());
  std::vector<device::CopyItem> copies;
  for (size_t i = 0; i < masks.replaced.size(); ++i) {
    const device::View to = LogitsRow(masks.replaced[i]);
    device::View staged = to;
    if (apart) {
      staged = device::Part(flight->row_logits.view(), (flight->fetched.size() + i) * to.bytes,
                            to.bytes);
      copies.push_back({to, staged});
    }
    std::memcpy(staged.data, masks.logits.data() + i * to.bytes / sizeof(float), to.bytes);
  }
  return copies.empty() ? OkStatus() : device_.Copy(*stream_, copies);
}

void Executor::EndCounting(Flight* flight, bool ok) {
  if (std::exchange(flight->counts_experts, false)) expert_counter_->Fetched(ok, NowMicros());
}

// A step that was not sampled has not told its end on the stream.
Status Executor::Land(Flight* flight) {
  Status status = flight->waits ? stream_->Synchronize() : flight->done->Synchronize();
  if (!flight->status.ok()) status = flight->status;
  if (!status.ok() && mover_ != nullptr) mover_->Lost();
  if (timer_) timer_->Finished(status.ok(), &flight->marks);
  EndCounting(flight, status.ok());
  unfinished_.erase(std::find(unfinished_.begin(), unfinished_.end(), flight));
  idle_.push_back(flight);
  return status;
}

void Executor::FailBehind(uint64_t step, const Status& why) {
  for (Flight* behind : unfinished_) {
    if (behind->batch.plan.step <= step) continue;
    behind->status = why;
    builder_->Forget(behind->batch);
  }
  failed_step_ = last_step_;  // this one, or the one behind it
}

Status Executor::Finish(Flight* flight, batch::StepResult* result) {
  CHECK(unfinished_.front() == flight, "a step before it is unfinished");
  CHECK(!flight->waits || !flight->status.ok(), "its masks did not come");
  const batch::BatchPlan& plan = flight->batch.plan;
  Status status = Land(flight);
  if (!status.ok()) {
    if (flight->sink != nullptr) flight->sink->Abort();
    FailBehind(plan.step,
               status.WithContext(StrCat("it was built on step ", plan.step, ", which failed")));
  } else if (flight->sink != nullptr) {
    status = flight->sink->Finish();
  }
  if (status.ok()) {
    sampler_->Collect(plan, flight->rows, result);
    CollectVectors(plan, result);
    CollectNodes(*flight, result);
    builder_->Settle(flight->batch, *result);
    if (dump_ != nullptr && !plan.tokens.empty())
      dump_->Take(*stream_, plan, hidden_.Rows(0, static_cast<int64_t>(plan.tokens.size())));
  } else {
    sampler_->Drop(plan, flight->rows);
  }
  Reclaim(flight, !status.ok());
  return status;
}

// The host's memory is the device's: see MakeVectors.
// A vector that is not finite ends its request, as degenerate logits do.
void Executor::CollectVectors(const batch::BatchPlan& plan, batch::StepResult* result) const {
  if (vectors_.empty()) return;
  const int64_t size = vectors_.dims[1];
  const float* const vectors = vectors_.ptr<float>();
  result->vectors.assign(vectors, vectors + static_cast<int64_t>(plan.entries.size()) * size);
  for (size_t e = 0; e < result->entries.size(); ++e) {
    batch::ResultEntry& entry = result->entries[e];
    entry.vector_begin = static_cast<int32_t>(e) * static_cast<int32_t>(size);
    entry.vector_size = static_cast<int32_t>(size);
    const auto vector = std::span(result->vectors).subspan(entry.vector_begin, entry.vector_size);
    if (!std::all_of(vector.begin(), vector.end(), [](float x) { return std::isfinite(x); }))
      entry.status = batch::RowStatus::kDegenerate;
  }
}

void Executor::Drop(Flight* flight) {
  (void)Land(flight);
  const batch::BatchPlan& plan = flight->batch.plan;
  if (flight->sink != nullptr) flight->sink->Abort();
  FailBehind(plan.step, Status(StatusCode::kDevice, StrCat("it was built on step ", plan.step,
                                                           ", whose results were dropped")));
  sampler_->Drop(plan, flight->rows);
  Reclaim(flight, /*failed=*/true);
}

// One sequence in the first blocks. A step's ids are known or what was drawn last, as in serving.
batch::BatchPlan Executor::WarmUpPlan(int index, int first, int tokens) const {
  batch::BatchPlan plan;
  plan.step = last_step_ + 1;
  plan.guesses = guesses_;
  plan.entries.push_back({.told_whole = plan.step,
                          .first_position = first,
                          .query_tokens = tokens,
                          .logits_count = 1,
                          .guesses = guesses_});
  plan.tokens.assign(tokens, index == 0 ? 0 : batch::kLastDrawn);
  plan.logits_rows.push_back({.token = tokens - 1});
  for (const batch::KvGroup& group : store_.groups()) {
    batch::GroupTable& table = plan.groups.emplace_back();
    const int end = first + tokens + guesses_ + info_.draft_spare;
    for (int at = 0; at < end; at += group.kernel_block_tokens) {
      table.ids.push_back(static_cast<int32_t>(table.ids.size()));
    }
    table.begin = {0, static_cast<int32_t>(table.ids.size())};
    table.first = {0};
  }
  if (index == 0) {
    plan.starts.push_back({.prompt_tokens = tokens, .history = std::vector<int32_t>(tokens, 0)});
  }
  return plan;
}

// A prompt, then decode steps: a bucket's first one runs eagerly, its second is captured.
Status Executor::WarmUp() {
  CHECK(unfinished_.empty() && last_step_ == 0, "a warm-up after step ", last_step_);
  const model::ModelOptions& limits = model_.options();
  const int prompt = limits.max_tokens > 1 ? 2 : 1;
  const int most = prompt + kWarmUpSteps + guesses_ + info_.draft_spare;
  if (limits.max_model_len < most) return OkStatus();
  Status status;
  batch::StepResult result;
  for (int index = 0, first = 0; index < kWarmUpSteps && status.ok(); ++index) {
    const int tokens = index == 0 ? prompt : 1;
    batch::BatchPlan plan = WarmUpPlan(index, first, tokens);
    status = [&]() -> Status {
      SLUICE_ASSIGN_OR_RETURN(Step step, Launch(&plan, nullptr));
      return step.Finish(&result);
    }();
    first += tokens;
  }
  if (timer_) timer_->Restart();
  if (expert_counter_ && status.ok()) status = expert_counter_->Restart(*stream_);
  warm_up_ = stream_->counts();
  builder_->ForgetAll();
  last_step_ = failed_step_ = 0;
  return status.ok() ? status
                     : status.WithContext(StrCat("the first steps on ",
                                                 device::ToString(device_.facts().id), " failed"));
}

}  // namespace sluice::exec
