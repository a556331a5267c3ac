#include "exec/executor.h"

#include "base/clock.h"

#include <algorithm>

#include "sluice/limits.h"

namespace sluice::exec {
namespace {

// Passes the model's layer events on to a KvSink.
class SinkObserver : public model::LayerObserver {
 public:
  SinkObserver(batch::KvSink& sink, device::Stream& stream, device::Event& event)
      : sink_(sink), stream_(stream), event_(event) {}
  Status LayerWritten(int layer, int group) override {
    SLUICE_RETURN_IF_ERROR(stream_.Record(event_));
    const auto handle = event_.Done() ? 0 : reinterpret_cast<batch::KvSink::EventHandle>(&event_);
    return sink_.LayerWritten(layer, group, handle);
  }

 private:
  batch::KvSink& sink_;
  device::Stream& stream_;
  device::Event& event_;
};

ops::PagedKv LayerView(const kvstore::KvStore& store, int index, const model::LayerGroup& group) {
  const kvstore::KvStore::Layer& layer = store.layer(index);
  const kvstore::GroupLayout& layout = store.groups()[layer.group];
  const int64_t blocks = static_cast<int64_t>(layout.num_blocks) * layout.ratio();
  const auto tensor = [&](const device::View& view, DType dtype,
                          std::initializer_list<int64_t> dims) {
    if (view.data == nullptr) return ops::Tensor();
    ops::Tensor t = ops::Dense(view, dtype, dims);
    t.strides[0] = static_cast<int64_t>(layer.stride / Info(dtype).bytes);
    return t;
  };
  const int64_t heads = layout.kv_heads, tokens = layout.kernel_block_tokens;
  ops::PagedKv kv;
  kv.layout = group.kv.layout;
  kv.k = tensor(layer.k, layout.dtype, {blocks, heads, tokens, layout.k_head_dim});
  kv.v = tensor(layer.v, layout.dtype, {blocks, heads, tokens, layout.v_head_dim});
  kv.k_scale = tensor(layer.k_scale, DType::kF32, {blocks, heads, tokens});
  kv.v_scale = tensor(layer.v_scale, DType::kF32, {blocks, heads, tokens});
  return kv;
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::Make(device::Device& device, const model::Model& model,
                                                 kvstore::KvStore& store, int max_num_seqs) {
  std::unique_ptr<Executor> executor(new Executor(model, store));
  const model::ModelOptions& options = model.options();
  InputLimits limits;
  limits.tokens = options.max_tokens;
  limits.sequences = max_num_seqs;
  limits.logits_rows = options.max_logits_rows;
  limits.slots = max_num_seqs;
  limits.positions = options.max_model_len;
  limits.vocab = model.vocab_size();
  for (const model::LayerGroup& group : model.groups()) {
    limits.windows.push_back(group.kind == files::LayerKind::kWindow ? group.window : 0);
  }
  executor->builder_ = std::make_unique<InputBuilder>(device, store, limits);
  sample::Sampler::Options sampling;
  sampling.vocab = model.vocab_size();
  sampling.slots = max_num_seqs;
  sampling.rows_max = static_cast<int>(options.max_logits_rows);
  sampling.top_logprobs_max = limits::kTopLogprobsMax;
  SLUICE_ASSIGN_OR_RETURN(executor->sampler_, sample::Sampler::Make(device, sampling));
  SLUICE_ASSIGN_OR_RETURN(executor->stream_, device.CreateStream());
  SLUICE_ASSIGN_OR_RETURN(executor->prepare_stream_, device.CreateStream());
  SLUICE_ASSIGN_OR_RETURN(executor->layer_event_, device.CreateEvent());
  const auto memory =
      device.facts().device_memory ? device::MemoryKind::kDevice : device::MemoryKind::kHost;
  SLUICE_ASSIGN_OR_RETURN(executor->workspace_, device.Allocate(model.workspace_bytes(), memory));
  SLUICE_ASSIGN_OR_RETURN(
      executor->logits_,
      device.Allocate(options.max_logits_rows * model.vocab_size() * Info(DType::kF32).bytes,
                      memory));
  for (int layer = 0; layer < store.layer_count(); ++layer) {
    executor->kv_.push_back(LayerView(store, layer, model.groups()[model.group_of(layer)]));
  }
  return executor;
}

Result<PreparedBatch> Executor::Prepare(batch::BatchPlan* plan) {
  return builder_->Build(plan, *prepare_stream_);
}

// Tokens that were unknown when the plan was made are rows of the step just executed.
Status Executor::ResolveTokens(PreparedBatch* batch) const {
  const batch::BatchPlan& plan = batch->plan();
  int32_t* ids = batch->inputs_.token_ids.ptr<int32_t>();
  for (size_t t = 0; t < plan.tokens.size(); ++t) {
    if (plan.tokens[t] >= 0) continue;
    const int64_t row = -1 - static_cast<int64_t>(plan.tokens[t]);
    if (plan.step != last_step_ + 1 || row >= static_cast<int64_t>(last_row_tokens_.size()) ||
        last_row_tokens_[row] < 0) {
      return InvalidArgument(StrCat("the plan of step ", plan.step, " names row ", row,
                                    " of the step before, which gave no token (last step ",
                                    last_step_, ")"));
    }
    ids[t] = last_row_tokens_[row];
  }
  return OkStatus();
}

Status Executor::RunModel(PreparedBatch* batch, batch::KvSink* sink, ops::Tensor* logits) {
  const batch::BatchPlan& plan = batch->plan();
  moves_.clear();
  for (const batch::BlockCopy& copy : plan.copies) {
    moves_.push_back({copy.group, copy.source, copy.destination});
  }
  SLUICE_RETURN_IF_ERROR(store_.Copy(*stream_, moves_));
  SLUICE_RETURN_IF_ERROR(ResolveTokens(batch));
  const int64_t rows = static_cast<int64_t>(plan.logits_rows.size());
  if (rows > 0) {
    *logits = ops::Dense(logits_.view(), DType::kF32, {rows, model_.vocab_size()});
  }
  if (plan.tokens.empty()) return OkStatus();
  model::ForwardContext context;
  context.stream = stream_.get();
  context.workspace = workspace_.view();
  context.kv = kv_;
  if (sink == nullptr) return model_.Forward(context, batch->inputs_, *logits);
  SinkObserver observer(*sink, *stream_, *layer_event_);
  context.observer = &observer;
  return model_.Forward(context, batch->inputs_, *logits);
}

Status Executor::Execute(PreparedBatch batch, batch::MaskSource* masks, batch::KvSink* sink,
                         batch::StepResult* result) {
  // A batch that was moved from has no buffers.
  if (!batch.synced() || batch.host_.data() == nullptr) {
    return Status(StatusCode::kFailedPrecondition,
                  StrCat("step ", batch.plan().step, " was executed before it was synced"));
  }
  const batch::BatchPlan& plan = batch.plan();
  if (plan.tokens.empty()) sink = nullptr;  // no forward, so nothing is written
  sampler_->Begin(plan);
  if (sink != nullptr) SLUICE_RETURN_IF_ERROR(sink->Begin(plan));
  ops::Tensor logits;
  Status status = RunModel(&batch, sink, &logits);
  const int64_t modelled = NowMicros();
  if (status.ok()) status = sampler_->Run(*stream_, plan, logits, masks, result);
  if (status.ok()) status = stream_->Synchronize();
  sample_us_ = NowMicros() - modelled;
  if (!status.ok()) {
    if (sink != nullptr) sink->Abort();
    return status;
  }
  if (sink != nullptr) SLUICE_RETURN_IF_ERROR(sink->Finish());
  last_step_ = plan.step;
  last_row_tokens_.assign(plan.logits_rows.size(), -1);
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    // Drawn tokens belong to the entry's last rows that draw, in order.
    const batch::PlanEntry& entry = plan.entries[e];
    const batch::ResultEntry& out = result->entries[e];
    for (int row = out.score_count, token = 0; row < entry.logits_count && token < out.token_count;
         ++row, ++token) {
      last_row_tokens_[entry.logits_begin + row] = result->tokens[out.token_begin + token].id;
    }
  }
  builder_->Recycle(std::move(batch));
  return OkStatus();
}

}  // namespace sluice::exec
