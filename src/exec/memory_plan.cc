#include "exec/memory_plan.h"

#include <algorithm>

#include "base/parse_bytes.h"

namespace sluice::exec {
namespace {

kvstore::GroupLayout LayoutOf(const model::LayerGroup& group, const MemoryRequest& request) {
  kvstore::GroupLayout layout;
  layout.layers = group.layers;
  layout.dtype = group.kv.dtype;
  layout.kv_heads = group.kv.kv_heads;
  layout.k_head_dim = group.kv.k_head_dim;
  layout.v_head_dim = group.kv.v_head_dim;
  layout.block_tokens = request.block_tokens;
  layout.kernel_block_tokens = request.kernel_block_tokens;
  return layout;
}

// Blocks that one sequence of `length` tokens holds at most at a time. A window group holds its
// window, the step's own tokens, and a block on either side that both edges may cut.
int64_t BlocksOfSequence(const model::LayerGroup& group, const MemoryRequest& request,
                         int64_t length) {
  int64_t tokens = length;
  int64_t edges = 0;
  if (group.kind == files::LayerKind::kWindow) {
    const int64_t held = static_cast<int64_t>(group.window) + request.max_batch_tokens;
    if (held < length) {
      tokens = held;
      edges = 2;
    }
  }
  return (tokens + request.block_tokens - 1) / request.block_tokens + edges;
}

size_t BytesOfSequence(const MemoryRequest& request, int64_t length) {
  size_t bytes = 0;
  for (const model::LayerGroup& group : request.groups) {
    bytes +=
        BlocksOfSequence(group, request, length) * kvstore::BlockBytes(LayoutOf(group, request));
  }
  return bytes;
}

// The longest sequence that fits, in whole blocks; 0 when not even one block does.
int64_t LongestThatFits(const MemoryRequest& request, size_t budget, int64_t length_max) {
  int64_t low = 0, high = length_max;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (BytesOfSequence(request, middle) <= budget) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

Status CheckRequest(const MemoryRequest& request) {
  if (request.kernel_block_tokens <= 0 || request.block_tokens <= 0 ||
      request.block_tokens % request.kernel_block_tokens != 0) {
    return InvalidArgument(
        StrCat("--block-size ", request.block_tokens, " is not a multiple of --kernel-block-size ",
               request.kernel_block_tokens),
        "block-size");
  }
  if (request.max_model_len > request.declared_model_len) {
    return InvalidArgument(StrCat("--max-model-len ", request.max_model_len, " is above the ",
                                  request.declared_model_len, " tokens that the model declares"),
                           "max-model-len");
  }
  return OkStatus();
}

// A group's pool is one allocation, which some devices limit.
Status FitAllocation(const MemoryRequest& request, const model::LayerGroup& group, int length,
                     kvstore::GroupLayout* layout) {
  if (request.allocation_bytes_max == 0) return OkStatus();
  const size_t block = kvstore::BlockBytes(*layout);
  const auto most = static_cast<int64_t>(request.allocation_bytes_max / block);
  if (most >= layout->num_blocks) return OkStatus();
  layout->num_blocks = static_cast<int>(most);
  const int64_t needed = BlocksOfSequence(group, request, length);
  if (needed <= most) return OkStatus();
  return Status(StatusCode::kOutOfMemory,
                StrCat("the KV cache of a sequence of ", length, " tokens needs ",
                       FormatBytes(static_cast<size_t>(needed) * block),
                       " in one piece, but the device gives at most ",
                       FormatBytes(request.allocation_bytes_max), "; lower --max-model-len"),
                "max-model-len");
}

}  // namespace

Result<MemoryPlan> PlanMemory(const MemoryRequest& request) {
  SLUICE_RETURN_IF_ERROR(CheckRequest(request));
  if (request.step_bytes > request.free_bytes) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("a step of ", request.max_batch_tokens, " tokens and ",
                         request.max_num_seqs, " sequences needs ", FormatBytes(request.step_bytes),
                         " beside the weights, but ", FormatBytes(request.free_bytes),
                         " are free; lower --max-batch-tokens or --max-num-seqs"),
                  "max-batch-tokens");
  }
  const size_t free_bytes = request.free_bytes - request.step_bytes;
  MemoryPlan plan;
  plan.max_model_len =
      request.max_model_len > 0 ? request.max_model_len : request.declared_model_len;
  const size_t wanted = BytesOfSequence(request, plan.max_model_len) * request.max_num_seqs;
  size_t budget = request.kv_bytes;
  if (budget > free_bytes) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("--kv-memory asks for ", FormatBytes(budget), ", but ",
                         FormatBytes(free_bytes), " are free; lower it"),
                  "kv-memory");
  }
  if (budget == 0) {
    budget = std::min(wanted, static_cast<size_t>(static_cast<double>(free_bytes) * request.share));
  }

  const int64_t longest = LongestThatFits(request, budget, plan.max_model_len);
  if (longest < plan.max_model_len) {
    if (request.max_model_len > 0 || longest < request.block_tokens) {
      return Status(StatusCode::kOutOfMemory,
                    StrCat("a sequence of ", plan.max_model_len, " tokens needs ",
                           FormatBytes(BytesOfSequence(request, plan.max_model_len)),
                           " of KV cache, but there are ", FormatBytes(budget),
                           "; lower --max-model-len or raise --kv-memory"),
                    "max-model-len");
    }
    plan.note = StrCat("--max-model-len is ", longest, " because the KV cache has ",
                       FormatBytes(budget), " (the model declares ", request.declared_model_len,
                       "); raise --kv-memory for more");
    plan.max_model_len = static_cast<int>(longest);
  }
  // Every group gets its share of the budget by what full use would take, and at least one
  // sequence.
  const size_t one = BytesOfSequence(request, plan.max_model_len);
  const double sequences =
      std::clamp(static_cast<double>(budget) / one, 1.0, static_cast<double>(request.max_num_seqs));
  for (const model::LayerGroup& group : request.groups) {
    kvstore::GroupLayout layout = LayoutOf(group, request);
    layout.num_blocks = static_cast<int>(std::min<double>(
        BlocksOfSequence(group, request, plan.max_model_len) * sequences, 1 << 30));
    SLUICE_RETURN_IF_ERROR(FitAllocation(request, group, plan.max_model_len, &layout));
    plan.bytes += kvstore::BlockBytes(layout) * layout.num_blocks;
    plan.groups.push_back(std::move(layout));
  }
  return plan;
}

}  // namespace sluice::exec
