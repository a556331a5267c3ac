#include "model_runner.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "device/resolver.h"
#include "model/load/load_model.h"

namespace sluice::golden {

using device::Buffer;
using device::MemoryKind;

namespace {

template <class T>
device::View HostView(const std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(const_cast<T*>(values.data())), values.size() * sizeof(T),
          MemoryKind::kHost, device::DeviceId()};
}

}  // namespace

std::string TestDevice() {
  const char* name = std::getenv("SLUICE_GOLDEN_DEVICE");
  return name == nullptr ? "cpu" : name;
}

bool ExpertsOnHost() {
  const char* const where = std::getenv("SLUICE_GOLDEN_EXPERTS_ON");
  return where != nullptr && std::string_view(where) == "host";
}

Result<std::optional<weights::WeightPlan>> ModelRunner::PlanHost(const device::OpenOptions& open,
                                                                 model::ModelOptions* options) {
  if (!ExpertsOnHost() || !device_->facts().device_memory)
    return std::optional<weights::WeightPlan>();
  for (int layer = 0; layer < files_.config.num_layers; ++layer) {
    if (files_.config.layers[layer].experts) options->host_layers.push_back(layer);
  }
  if (options->host_layers.empty()) return std::optional<weights::WeightPlan>();
  SLUICE_ASSIGN_OR_RETURN(const device::Resolution resolution,
                          device::ResolveDevice("cpu", device::LinkedBackends()));
  SLUICE_ASSIGN_OR_RETURN(host_, resolution.Open(open));
  options->host = host_.get();
  SLUICE_ASSIGN_OR_RETURN(weights::WeightPlan plan,
                          model::PlanHostExperts(files_, *host_, options->host_layers));
  return std::optional<weights::WeightPlan>(std::move(plan));
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::Open(files::ModelFiles files,
                                                       model::ModelOptions options, int sequences,
                                                       const device::OpenOptions& device_options,
                                                       const std::string& device) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner);
  runner->files_ = std::move(files);
  SLUICE_ASSIGN_OR_RETURN(const device::Resolution resolution,
                          device::ResolveDevice(device, device::LinkedBackends()));
  SLUICE_ASSIGN_OR_RETURN(runner->device_, resolution.Open(device_options));
  SLUICE_ASSIGN_OR_RETURN(runner->stream_, runner->device_->CreateStream());
  SLUICE_ASSIGN_OR_RETURN(auto host_plan, runner->PlanHost(device_options, &options));
  SLUICE_ASSIGN_OR_RETURN(weights::WeightPlan plan,
                          model::PlanWeights(runner->files_, *runner->device_, options.activation,
                                             options.mtp_heads, 0, options.host_layers));
  SLUICE_ASSIGN_OR_RETURN(runner->model_,
                          model::LoadModel(runner->files_.config, std::move(plan), *runner->device_,
                                           options, std::move(host_plan)));
  SLUICE_RETURN_IF_ERROR(runner->AllocateKv(sequences));
  SLUICE_ASSIGN_OR_RETURN(
      runner->workspace_,
      runner->device_->Allocate(runner->model_->workspace_bytes(), MemoryKind::kDevice));
  // Nothing may depend on what an earlier step left behind: NaN shows where it does.
  SLUICE_RETURN_IF_ERROR(runner->Spoil(runner->workspace_.view()));
  runner->Reset();
  return runner;
}

Result<ops::PagedKv> ModelRunner::AllocateLayer(const batch::KvGroup& desc, int group) {
  const int64_t blocks = static_cast<int64_t>(lengths_.size()) * BlocksPerSequence(group);
  const int64_t block_tokens = desc.kind == batch::KvKind::kState ? 1 : desc.kernel_block_tokens;
  ops::PagedKv kv;
  for (ops::Tensor* tensor : {&kv.k, &kv.v}) {
    const int64_t dim = tensor == &kv.k ? desc.k_head_dim : desc.v_head_dim;
    if (dim == 0) continue;
    const size_t elements = static_cast<size_t>(blocks * desc.kv_heads * block_tokens * dim);
    SLUICE_ASSIGN_OR_RETURN(Buffer pool,
                            device_->Allocate(RowBytes(desc.dtype, elements), MemoryKind::kDevice));
    *tensor = ops::Dense(pool.view(), desc.dtype, {blocks, desc.kv_heads, block_tokens, dim});
    pools_.push_back(std::move(pool));
  }
  return kv;
}

Status ModelRunner::AllocateKv(int sequences) {
  lengths_.assign(sequences, 0);
  const int layers = model_->config().num_layers + model_->options().mtp_heads;
  for (int layer = 0; layer < layers; ++layer) {
    const int group = model_->group_of(layer);
    SLUICE_ASSIGN_OR_RETURN(kv_.emplace_back(), AllocateLayer(model_->groups()[group], group));
  }
  return OkStatus();
}

Status ModelRunner::PutBeside(const files::EagleFiles& eagle) {
  const model::ModelOptions options =
      model::EagleHead::OptionsFor(model_->options(), eagle.config.form);
  SLUICE_ASSIGN_OR_RETURN(weights::WeightPlan plan,
                          model::EagleHead::PlanWeights(eagle, *device_, options.activation));
  SLUICE_ASSIGN_OR_RETURN(
      eagle_, model::EagleHead::Load(eagle.config, std::move(plan), *device_, options, *model_));
  for (int layer = 0; layer < eagle.config.layer.num_layers; ++layer) {
    SLUICE_ASSIGN_OR_RETURN(eagle_kv_.emplace_back(), AllocateLayer(eagle_->groups().front(), 0));
  }
  SLUICE_ASSIGN_OR_RETURN(
      workspace_, device_->Allocate(std::max(model_->workspace_bytes(), eagle_->workspace_bytes()),
                                    MemoryKind::kDevice));
  SLUICE_RETURN_IF_ERROR(Spoil(workspace_.view()));
  Reset();
  return OkStatus();
}

Status ModelRunner::Copy(const device::View& destination, const device::View& source) {
  const device::CopyItem item{destination, source};
  return device_->Copy(*stream_, {&item, 1});
}

Status ModelRunner::Spoil(const device::View& view) {
  const std::vector<std::byte> bytes(view.bytes, std::byte{0xff});
  return Copy(view, HostView(bytes));
}

void ModelRunner::Reset() {
  lengths_.assign(lengths_.size(), 0);
  drafted_.assign(std::max(1, model_->options().mtp_heads), lengths_);
  for (const Buffer& pool : pools_) {
    const Status status = Spoil(pool.view());
    CHECK(status.ok(), status.message());
  }
}

// Blocks of a sequence lie apart and backwards, so that only the block table leads to them.
int ModelRunner::BlockId(int group, int sequence, int index) const {
  const int sequences = static_cast<int>(lengths_.size());
  return (BlocksPerSequence(group) - 1 - index) * sequences + sequence;
}

int ModelRunner::BlocksPerSequence(int group) const {
  return batch::TableWidth(model_->groups()[group], model_->options().max_model_len);
}

ops::Tensor ModelRunner::Ints(const std::vector<int32_t>& values,
                              std::initializer_list<int64_t> dims) {
  auto buffer = device_->Allocate(values.size() * sizeof(int32_t), MemoryKind::kDevice);
  CHECK(buffer.ok(), buffer.status().message());
  const Status status = Copy(buffer->view(), HostView(values));
  CHECK(status.ok(), status.message());
  const ops::Tensor tensor = ops::Dense(buffer->view(), DType::kI32, dims);
  inputs_.push_back(std::move(buffer).value());
  return tensor;
}

model::GroupInputs ModelRunner::Inputs(const std::vector<Chunk>& chunks,
                                       const std::vector<int>& lengths, int group) {
  const batch::KvGroup& desc = model_->groups()[group];
  const int block_tokens = desc.kernel_block_tokens;
  const bool state = desc.kind == batch::KvKind::kState;
  std::vector<int32_t> slots, table;
  for (const Chunk& chunk : chunks) {
    const int first = lengths[chunk.sequence];
    const int count = static_cast<int>(chunk.tokens.size());
    for (int p = first; p < first + count; ++p) {
      const int block = BlockId(group, chunk.sequence, p / block_tokens);
      slots.push_back(state ? -1 : block * block_tokens + p % block_tokens);
    }
    const int needed = batch::FirstNeededPosition(desc, first) / block_tokens;
    for (int i = 0; i < BlocksPerSequence(group); ++i) {
      const bool ahead = i * block_tokens >= first + count;
      table.push_back(ahead || i < needed ? -1 : BlockId(group, chunk.sequence, i));
    }
  }
  slots.insert(slots.end(), padding, -1);
  const int64_t tokens = static_cast<int64_t>(slots.size());
  return {Ints(slots, {tokens}),
          Ints(table, {static_cast<int64_t>(chunks.size()), BlocksPerSequence(group)})};
}

model::DeviceBatch ModelRunner::Batch(const std::vector<Chunk>& chunks,
                                      const std::vector<int>& lengths, bool every_row) {
  inputs_.clear();
  std::vector<int32_t> ids, positions, query_start = {0}, context, rows;
  for (const Chunk& chunk : chunks) {
    const int first = lengths[chunk.sequence];
    for (size_t i = 0; i < chunk.tokens.size(); ++i) {
      if (every_row || i + 1 == chunk.tokens.size()) rows.push_back(static_cast<int>(ids.size()));
      ids.push_back(chunk.tokens[i]);
      positions.push_back(first + static_cast<int>(i));
    }
    query_start.push_back(static_cast<int32_t>(ids.size()));
    context.push_back(first + static_cast<int>(chunk.tokens.size()));
  }
  ids.insert(ids.end(), padding, 0);
  positions.insert(positions.end(), padding, 0);
  const int64_t tokens = static_cast<int64_t>(ids.size());
  const int64_t sequences = static_cast<int64_t>(chunks.size());
  model::DeviceBatch batch;
  batch.token_ids = Ints(ids, {tokens});
  batch.positions = Ints(positions, {tokens});
  batch.query_start = Ints(query_start, {sequences + 1});
  batch.context = Ints(context, {sequences});
  batch.logits_rows = Ints(rows, {static_cast<int64_t>(rows.size())});
  for (size_t g = 0; g < model_->groups().size(); ++g) {
    batch.groups.push_back(Inputs(chunks, lengths, static_cast<int>(g)));
  }
  return batch;
}

Result<std::vector<float>> ModelRunner::Finish(const std::vector<Chunk>& chunks,
                                               const device::View& logits,
                                               std::vector<int>* lengths) {
  SLUICE_RETURN_IF_ERROR(stream_->Synchronize());
  for (const Chunk& chunk : chunks) {
    (*lengths)[chunk.sequence] += static_cast<int>(chunk.tokens.size());
  }
  std::vector<float> values(logits.bytes / sizeof(float));
  SLUICE_RETURN_IF_ERROR(Copy(HostView(values), logits));
  return values;
}

Result<Buffer> ModelRunner::LogitsOf(int64_t rows, int64_t width) {
  return device_->Allocate(static_cast<size_t>(rows * width) * sizeof(float), MemoryKind::kDevice);
}

model::ForwardContext ModelRunner::Context() {
  return {.stream = stream_.get(),
          .workspace = workspace_.view(),
          .kv = kv_,
          .attention_plans = {},
          .observer = observer};
}

Result<ops::Tensor> ModelRunner::Hidden(DType dtype, int64_t rows, int64_t width) {
  SLUICE_ASSIGN_OR_RETURN(
      Buffer memory,
      device_->Allocate(RowBytes(dtype, static_cast<size_t>(rows * width)), MemoryKind::kDevice));
  hidden_memory_.push_back(std::move(memory));
  if (hidden_memory_.size() > 3) hidden_memory_.pop_front();  // what a pass reads and gives
  return ops::Dense(hidden_memory_.back().view(), dtype, {rows, width});
}

Result<std::vector<float>> ModelRunner::Step(const std::vector<Chunk>& chunks, bool every_row) {
  const model::DeviceBatch batch = Batch(chunks, lengths_, every_row);
  SLUICE_ASSIGN_OR_RETURN(const Buffer logits, LogitsOf(batch.rows(), model_->vocab_size()));
  model::Outputs outputs = {
      ops::Dense(logits.view(), DType::kF32, {batch.rows(), model_->vocab_size()})};
  const DType residual = ops::ResidualDType(model_->options().activation);
  const int64_t width = model_->config().hidden_size;
  if (eagle_ != nullptr) {
    const files::EagleConfig& head = eagle_->config();
    SLUICE_ASSIGN_OR_RETURN(hidden_, Hidden(residual, batch.tokens(), head.read_width()));
    (head.form == files::EagleForm::kFirst ? outputs.hidden : outputs.layers_hidden) = hidden_;
    outputs.layers = head.hidden_layers;
    hidden_of_ = model::EagleHead::Of::kModel;
  } else if (model_->options().mtp_heads > 0) {
    SLUICE_ASSIGN_OR_RETURN(hidden_, Hidden(residual, batch.tokens(), width));
    outputs.hidden = hidden_;
  }
  model::ForwardContext context = Context();
  SLUICE_RETURN_IF_ERROR(model_->Forward(context, batch, outputs));
  return Finish(chunks, logits.view(), &lengths_);
}

Result<std::vector<float>> ModelRunner::Draft(const std::vector<Chunk>& chunks, bool every_row,
                                              int head) {
  const model::DeviceBatch batch = Batch(chunks, drafted_[head], every_row);
  SLUICE_ASSIGN_OR_RETURN(const Buffer logits, LogitsOf(batch.rows(), Guesses()));
  const model::ModelOptions& options = eagle_ ? eagle_->options() : model_->options();
  const int64_t width = eagle_ ? eagle_->config().layer.hidden_size : model_->config().hidden_size;
  const DType type = eagle_ ? ops::ResidualDType(options.activation) : options.activation;
  SLUICE_ASSIGN_OR_RETURN(const ops::Tensor given, Hidden(type, batch.rows(), width));
  model::ForwardContext context = Context();
  model::DraftOutputs outputs = {ops::Dense(logits.view(), DType::kF32, {batch.rows(), Guesses()}),
                                 given};
  if (eagle_ != nullptr) {
    context.kv = eagle_kv_;
    SLUICE_RETURN_IF_ERROR(eagle_->Draft(context, batch, hidden_, hidden_of_, outputs));
    const bool parallel = eagle_->config().form == files::EagleForm::kParallel;
    const bool block = hidden_of_ == model::EagleHead::Of::kBlock;
    hidden_ = block ? ops::Tensor() : given;
    if (!block) hidden_of_ = parallel ? model::EagleHead::Of::kMask : model::EagleHead::Of::kItself;
  } else {
    const bool another = head + 1 < model_->options().mtp_heads;
    if (another) {
      SLUICE_ASSIGN_OR_RETURN(outputs.every, Hidden(options.activation, batch.tokens(), width));
    }
    SLUICE_RETURN_IF_ERROR(model_->Draft(context, batch, hidden_, outputs, head));
    hidden_ = another ? outputs.every : given;
  }
  return Finish(chunks, logits.view(), &drafted_[head]);
}

Status ModelRunner::KeepBesideBlocks(const std::vector<Chunk>& chunks) {
  model::DeviceBatch batch = Batch(chunks, drafted_[0], false);
  batch.logits_rows.dims[0] = 0;
  model::ForwardContext context = Context();
  context.kv = eagle_kv_;
  SLUICE_RETURN_IF_ERROR(eagle_->Draft(context, batch, hidden_, hidden_of_, {}));
  SLUICE_RETURN_IF_ERROR(stream_->Synchronize());
  hidden_ = {};
  hidden_of_ = model::EagleHead::Of::kBlock;
  for (const Chunk& chunk : chunks)
    drafted_[0][chunk.sequence] += static_cast<int>(chunk.tokens.size());
  return OkStatus();
}

void LogSoftmax(std::vector<float>* logits, int vocab_size) {
  for (size_t row = 0; row < logits->size(); row += vocab_size) {
    float* x = logits->data() + row;
    const double top = *std::max_element(x, x + vocab_size);
    double sum = 0.0;
    for (int i = 0; i < vocab_size; ++i) sum += std::exp(x[i] - top);
    const double log_sum = top + std::log(sum);
    for (int i = 0; i < vocab_size; ++i) x[i] = static_cast<float>(x[i] - log_sum);
  }
}

}  // namespace sluice::golden
