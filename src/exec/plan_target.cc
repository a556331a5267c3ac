#include "exec/plan_target.h"

#include <algorithm>

#include "base/parse_bytes.h"
#include "exec/graph_level.h"
#include "model/model.h"
#include "weights/place.h"

namespace sluice::exec {
namespace {

// Of a device's own memory that is left, what the KV cache may take unasked: the rest is for other
// programs and for what nobody has planned.
constexpr double kDeviceShare = 0.9;

// What a draft model adds, if there is one.
Status AddDraft(device::Device& device, const DraftOf& draft, const weights::WeightPlan& weights,
                const EngineOptions& options, MemoryRequest* request) {
  const files::ModelConfig& config = *draft.config();
  request->draft_groups = model::LayerGroups(config, draft.options);
  request->weight_bytes += weights.bytes;
  SLUICE_ASSIGN_OR_RETURN(
      const size_t scratch,
      Executor::ScratchBytes(weights, config, device, draft.options, options.max_num_seqs));
  request->scratch_bytes = std::max(request->scratch_bytes, scratch);
  return OkStatus();
}

// Of models whose options have the length. `draft_weights`: null where nothing guesses.
Result<MemoryRequest> RequestFor(device::Device& device, const Target& target, const DraftOf& draft,
                                 const weights::WeightPlan* draft_weights,
                                 const EngineOptions& options) {
  const auto& [files, weight_plan, model_options, free_bytes_max] = target;
  const device::DeviceFacts& facts = device.facts();
  MemoryRequest request;
  request.groups = model::LayerGroups(files.config, model_options);
  request.max_num_seqs = options.max_num_seqs;
  request.max_batch_tokens = options.max_batch_tokens;
  request.declared_model_len = files.config.context_length;
  request.max_model_len = options.max_model_len;
  request.draft_tokens = DraftTokens(options);
  if (!options.kv_memory.empty()) {
    SLUICE_ASSIGN_OR_RETURN(request.kv_bytes, ParseBytes(options.kv_memory, "--kv-memory"));
    if (request.kv_bytes == 0)
      return InvalidArgument("--kv-memory is 0; give it a size", "kv-memory");
  }
  request.weight_bytes = weight_plan.bytes;
  SLUICE_ASSIGN_OR_RETURN(request.scratch_bytes,
                          Executor::ScratchBytes(weight_plan, files.config, device, model_options,
                                                 options.max_num_seqs));
  if (draft_weights != nullptr)
    SLUICE_RETURN_IF_ERROR(AddDraft(device, draft, *draft_weights, options, &request));
  SLUICE_ASSIGN_OR_RETURN(request.free_bytes,
                          weights::FreeBytesBeside(request.weight_bytes, device));
  request.free_bytes = std::min(request.free_bytes, free_bytes_max);
  if (!facts.shares_host_memory) request.share = kDeviceShare;
  request.allocation_bytes_max = facts.allocation_bytes_max;
  request.step_bytes =
      Executor::DeviceBytes(files.config, model_options, options.max_num_seqs, draft) +
      model::RopeTableBytes(files.config, model_options);
  SLUICE_ASSIGN_OR_RETURN(const Executor::Options executor, ExecutorOptions(options));
  request.graph_bytes =
      facts.code_bytes + Executor::GraphBytes(files.config, model_options, facts, executor, draft);
  return request;
}

}  // namespace

int DraftTokens(const EngineOptions& options) {
  return options.speculate == "none" ? 0 : options.speculate_tokens;
}

Result<Executor::Options> ExecutorOptions(const EngineOptions& options) {
  Executor::Options wanted;
  wanted.max_num_seqs = options.max_num_seqs;
  SLUICE_ASSIGN_OR_RETURN(wanted.graphs, ParseGraphLevel(options.graphs));
  wanted.graph_chunk_tokens = options.graph_chunk_tokens;
  wanted.draft_tokens = DraftTokens(options);
  wanted.drafts_taken = options.speculate_synthetic;
  wanted.rejects = options.speculate_verify == "rejection";
  wanted.time_steps = options.time_steps;
  return wanted;
}

Result<MemoryPlan> PlanTarget(device::Device& device, const Target& target, const DraftPlan& draft,
                              const EngineOptions& options, bool shorter) {
  const weights::WeightPlan* const draft_weights = draft.weights ? &*draft.weights : nullptr;
  const auto request_for = [&](int max_model_len) -> Result<MemoryRequest> {
    model::ModelOptions of_model = target.options;
    DraftOf of_draft = draft.of;
    if (max_model_len > 0) of_model.max_model_len = of_draft.options.max_model_len = max_model_len;
    return RequestFor(device, {target.files, target.weights, of_model, target.free_bytes_max},
                      of_draft, draft_weights, options);
  };
  return PlanLongest(request_for, shorter);
}

}  // namespace sluice::exec
