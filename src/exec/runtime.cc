#include "exec/runtime.h"

#include <algorithm>

#include "base/parse_bytes.h"
#include "base/quoted.h"
#include "exec/kv_dtype.h"
#include "exec/open_device.h"
#include "model/load_model.h"
#include "weights/place.h"

namespace sluice::exec {
namespace {

// Floats of logits beyond one row per sequence that a step may hold (prompt log-probs, drafts): 32
// MiB.
constexpr int64_t kExtraLogits = 8 << 20;
// Of a device's own memory that is left, what the KV cache may take unasked: the rest is for
// scratch memory of kernels and for captured graphs.
constexpr double kDeviceShare = 0.9;

// Models whose matrices have 16 bits or fewer in floating point are computed in the device's own
// activation type, all others in F32.
DType ActivationOf(const files::ModelFiles& files, const device::DeviceFacts& facts) {
  size_t small = 0, all = 0;
  for (const files::FileTensor& tensor : files.tensors->tensors()) {
    if (tensor.shape.size() < 2) continue;
    const bool half = tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16 ||
                      tensor.dtype == DType::kF8E4M3;
    all += tensor.data.size();
    small += half ? tensor.data.size() : 0;
  }
  return 2 * small > all ? facts.activation : DType::kF32;
}

Result<MemoryPlan> PlanFor(device::Device& device, const files::ModelFiles& files,
                           const model::ModelOptions& model_options, const EngineOptions& options) {
  MemoryRequest request;
  request.groups = model::LayerGroups(files.config, model_options);
  request.block_tokens = options.block_size;
  request.kernel_block_tokens = options.kernel_block_size;
  request.max_num_seqs = options.max_num_seqs;
  request.max_batch_tokens = options.max_batch_tokens;
  request.declared_model_len = files.config.context_length;
  request.max_model_len = options.max_model_len;
  if (!options.kv_memory.empty()) {
    SLUICE_ASSIGN_OR_RETURN(request.kv_bytes, ParseBytes(options.kv_memory, "--kv-memory"));
    if (request.kv_bytes == 0)
      return InvalidArgument("--kv-memory is 0; give it a size", "kv-memory");
  }
  SLUICE_ASSIGN_OR_RETURN(const size_t weights, model::WeightBytes(files, device, model_options));
  SLUICE_ASSIGN_OR_RETURN(request.free_bytes, weights::FreeBytesBeside(weights, device));
  if (!device.facts().shares_host_memory) request.share = kDeviceShare;
  request.allocation_bytes_max = device.facts().allocation_bytes_max;
  request.step_bytes = Executor::DeviceBytes(files.config, model_options, options.max_num_seqs) +
                       model::RopeTableBytes(files.config, model_options);
  return PlanMemory(request);
}

// An op without an implementation is wrong usage where --force-op narrowed the choice.
Status WithForcedOps(const Status& status, const EngineOptions& options) {
  if (options.force_op.empty() || status.code() != StatusCode::kUnimplemented) return status;
  return InvalidArgument(
      StrCat("--force-op ", Quoted(options.force_op), " cannot be followed: ", status.message()),
      "force-op");
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::Open(const files::ModelFiles& files,
                                               const EngineOptions& options,
                                               std::function<void(int64_t, int64_t)> progress) {
  std::unique_ptr<Runtime> runtime(new Runtime());
  SLUICE_ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice(options));
  runtime->device_reason_ = std::move(opened.reason);
  runtime->device_ = std::move(opened.device);
  device::Device& device = *runtime->device_;

  model::ModelOptions model_options;
  model_options.max_tokens = options.max_batch_tokens;
  model_options.max_logits_rows =
      options.max_num_seqs +
      std::clamp<int64_t>(kExtraLogits / std::max(1, files.config.vocab_size), 16, 512);
  model_options.kernel_block_tokens = options.kernel_block_size;
  model_options.activation = ActivationOf(files, device.facts());
  SLUICE_ASSIGN_OR_RETURN(model_options.kv_dtype,
                          ParseKvDtype(options.kv_dtype, device.facts().kv_dtype));
  model_options.max_model_len = options.max_model_len;
  if (options.max_batch_tokens < options.max_num_seqs) {
    return InvalidArgument(
        StrCat("--max-batch-tokens ", options.max_batch_tokens, " is below --max-num-seqs ",
               options.max_num_seqs, ": every running sequence takes one token of a step"),
        "max-batch-tokens");
  }
  auto plan = PlanFor(device, files, model_options, options);
  if (!plan.ok()) return WithForcedOps(plan.status(), options);
  runtime->memory_ = *std::move(plan);
  model_options.max_model_len = runtime->memory_.max_model_len;
  model_options.records = &runtime->bindings_;
  if (progress) {
    model_options.progress = [&progress](size_t done, size_t total) {
      progress(static_cast<int64_t>(done), static_cast<int64_t>(total));
    };
  }
  auto model = model::LoadModel(files, device, model_options);
  if (!model.ok()) return WithForcedOps(model.status(), options);
  runtime->model_ = *std::move(model);
  auto store = kvstore::KvStore::Make(device, runtime->memory_.groups);
  if (!store.ok() && store.status().code() == StatusCode::kOutOfMemory) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("a KV cache of ", FormatBytes(runtime->memory_.bytes), ": ",
                         store.status().message(), "; lower --kv-memory"),
                  "kv-memory");
  }
  if (!store.ok()) return store.status();
  runtime->store_ = *std::move(store);
  SLUICE_ASSIGN_OR_RETURN(runtime->executor_,
                          Executor::Make(device, *runtime->model_, *runtime->store_,
                                         {.max_num_seqs = options.max_num_seqs,
                                          .graphs = options.graphs,
                                          .time_steps = options.time_steps,
                                          .bindings = &runtime->bindings_}));
  // Where steps overlap with the host is also where programs are built or loaded at first use.
  if (runtime->executor_->overlaps()) SLUICE_RETURN_IF_ERROR(runtime->executor_->WarmUp());
  return runtime;
}

Result<size_t> Runtime::WeightBytesOn(device::Device& device, const files::ModelFiles& files) {
  model::ModelOptions options;
  options.activation = ActivationOf(files, device.facts());
  return model::WeightBytes(files, device, options);
}

std::vector<std::string> Runtime::Backends() {
  std::vector<std::string> names;
  for (const device::Backend* backend : device::LinkedBackends()) {
    names.emplace_back(device::ToString(backend->kind()));
  }
  return names;
}

}  // namespace sluice::exec
