#include "exec/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "base/parse_bytes.h"

namespace sluice::exec {
namespace {

// Where a sequence gives blocks back there is one more than it holds at a time, since a block stays
// taken until the step that named it last is over.
int64_t BlocksOfSequence(const batch::KvGroup& group, const MemoryRequest& request, int length) {
  const int blocks = batch::PeakBlocks(group, length, request.max_batch_tokens);
  return blocks < batch::BlocksFor(length, group.block_tokens) ? blocks + 1 : blocks;
}

// Of a block of group `index`, with what a draft model has beside it.
size_t BytesOfBlock(const MemoryRequest& request, size_t index) {
  size_t bytes = kvstore::BlockBytes(request.groups[index]);
  if (static_cast<int>(index) != FollowedGroup(request.groups)) return bytes;
  for (const batch::KvGroup& draft : request.draft_groups) bytes += kvstore::BlockBytes(draft);
  return bytes;
}

size_t BytesOfSequence(const MemoryRequest& request, int length) {
  size_t bytes = 0;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    bytes += BlocksOfSequence(request.groups[g], request, length) * BytesOfBlock(request, g);
  }
  return bytes;
}

// The longest sequence that fits, in whole blocks; 0 when not even one block does.
int LongestThatFits(const MemoryRequest& request, size_t budget, int length_max) {
  int low = 0, high = length_max;
  while (low < high) {
    const int middle = static_cast<int>((int64_t{low} + high + 1) / 2);
    if (BytesOfSequence(request, middle) <= budget) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

int FinestBlock(const MemoryRequest& request) {
  int least = request.groups.front().block_tokens;
  for (const batch::KvGroup& group : request.groups) least = std::min(least, group.block_tokens);
  return least;
}

Status CheckRequest(const MemoryRequest& request) {
  SLUICE_RETURN_IF_ERROR(batch::ValidateSizes(request.groups));
  if (request.max_model_len > request.declared_model_len) {
    return InvalidArgument(StrCat("--max-model-len ", request.max_model_len, " is above the ",
                                  request.declared_model_len, " tokens that the model declares"),
                           "max-model-len");
  }
  return OkStatus();
}

// The pool of group `index` is one allocation, which some devices limit, and so is each of the
// draft's beside it.
Status FitAllocation(const MemoryRequest& request, size_t index, int length,
                     batch::KvGroup* layout) {
  if (request.allocation_bytes_max == 0) return OkStatus();
  const batch::KvGroup& group = request.groups[index];
  size_t block = kvstore::BlockBytes(*layout);
  if (static_cast<int>(index) == FollowedGroup(request.groups)) {
    for (const batch::KvGroup& draft : request.draft_groups)
      block = std::max(block, kvstore::BlockBytes(draft));
  }
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

std::string NeedOfStep(const MemoryRequest& request) {
  std::string text =
      StrCat("a step of ", request.max_batch_tokens, " tokens and ", request.max_num_seqs,
             " sequences needs ",
             FormatBytes(request.step_bytes + request.scratch_bytes + request.graph_bytes));
  if (request.scratch_bytes + request.graph_bytes == 0) return text;
  return StrCat(text, " (", FormatBytes(request.step_bytes), " for its inputs and outputs, ",
                FormatBytes(request.scratch_bytes), " for kernels, ",
                FormatBytes(request.graph_bytes), " for code and graphs)");
}

// Every group gets its share of the budget by what full use would take, and at least one sequence.
Status ShareOut(const MemoryRequest& request, size_t budget, MemoryPlan* plan) {
  const size_t one = BytesOfSequence(request, plan->max_model_len);
  const double sequences =
      std::clamp(static_cast<double>(budget) / one, 1.0, static_cast<double>(request.max_num_seqs));
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const batch::KvGroup& group = request.groups[g];
    batch::KvGroup layout = group;
    layout.num_blocks = static_cast<int>(std::min<double>(
        BlocksOfSequence(group, request, plan->max_model_len) * sequences, 1 << 30));
    SLUICE_RETURN_IF_ERROR(FitAllocation(request, g, plan->max_model_len, &layout));
    plan->bytes += BytesOfBlock(request, g) * layout.num_blocks;
    plan->groups.push_back(std::move(layout));
  }
  for (batch::KvGroup draft : request.draft_groups) {
    draft.num_blocks = plan->groups[FollowedGroup(plan->groups)].num_blocks;
    plan->draft_groups.push_back(std::move(draft));
  }
  return OkStatus();
}

// With groups as they are.
Result<MemoryPlan> PlanGroups(const MemoryRequest& request) {
  SLUICE_RETURN_IF_ERROR(CheckRequest(request));
  const size_t beside = request.step_bytes + request.scratch_bytes + request.graph_bytes;
  if (beside > request.free_bytes) {
    return Status(
        StatusCode::kOutOfMemory,
        StrCat(NeedOfStep(request), " beside the weights, but ", FormatBytes(request.free_bytes),
               " are free; lower --max-batch-tokens, --max-num-seqs or --max-model-len"),
        "max-batch-tokens");
  }
  const size_t free_bytes = request.free_bytes - beside;
  MemoryPlan plan;
  plan.weight_bytes = request.weight_bytes;
  plan.step_bytes = request.step_bytes;
  plan.free_bytes = request.weight_bytes + request.free_bytes;
  plan.max_model_len =
      request.max_model_len > 0 ? request.max_model_len : request.declared_model_len;
  const size_t wanted = BytesOfSequence(request, plan.max_model_len) * request.max_num_seqs;
  size_t budget = request.kv_bytes;
  if (budget > free_bytes) {
    return Status(
        StatusCode::kOutOfMemory,
        StrCat("--kv-memory asks for ", FormatBytes(budget), ", but of the ",
               FormatBytes(request.free_bytes), " that are free beside the weights ",
               NeedOfStep(request), "; lower it to ", FormatBytes(free_bytes),
               " or less, or lower --max-batch-tokens, --max-num-seqs or --max-model-len"),
        "kv-memory");
  }
  if (budget == 0) {
    budget = std::min(wanted, static_cast<size_t>(static_cast<double>(free_bytes) * request.share));
  }

  const int longest = LongestThatFits(request, budget, plan.max_model_len);
  if (longest < plan.max_model_len) {
    if (request.max_model_len > 0 || longest < FinestBlock(request)) {
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
    plan.max_model_len = longest;
  }
  if (request.length_found) {
    plan.note =
        StrCat("--max-model-len is ", plan.max_model_len, " because the KV cache has ",
               FormatBytes(budget), " beside the ", FormatBytes(beside),
               " that a step needs then (the model declares ", request.declared_model_len,
               "); raise --kv-memory or lower --max-batch-tokens or --max-num-seqs for more");
  }
  SLUICE_RETURN_IF_ERROR(ShareOut(request, budget, &plan));
  return plan;
}

}  // namespace

int FollowedGroup(std::span<const batch::KvGroup> groups) {
  const auto full = std::find_if(groups.begin(), groups.end(), [](const batch::KvGroup& group) {
    return group.kind == batch::KvKind::kFull;
  });
  return full == groups.end() ? -1 : static_cast<int>(full - groups.begin());
}

double MemoryPlan::Share() const {
  const auto taken = static_cast<double>(weight_bytes + bytes + step_bytes);
  return free_bytes == 0 ? 0 : taken / static_cast<double>(free_bytes);
}

std::string MemoryPlan::ToString() const {
  const std::string on_host =
      host_weight_bytes == 0
          ? ""
          : StrCat(" beside ", FormatBytes(host_weight_bytes), " of experts on the host");
  return StrCat("weights ", FormatBytes(weight_bytes), on_host, ", KV cache up to ",
                FormatBytes(bytes), " in ", Name(batch::FinestGroup(groups).dtype),
                ", buffers of a step ", FormatBytes(step_bytes), ": ", std::lround(100 * Share()),
                " % of the ", FormatBytes(free_bytes), " that were free");
}

Result<MemoryPlan> PlanMemory(const MemoryRequest& asked) {
  MemoryRequest request = asked;
  const auto plan_for = [&](int drafts) {
    for (batch::KvGroup& group : request.groups) {
      if (group.kind == batch::KvKind::kState) group.states = 1 + drafts;
    }
    return PlanGroups(request);
  };
  Result<MemoryPlan> plan = plan_for(0);
  if (!plan.ok()) return plan;
  const auto longest = plan->max_model_len;
  const bool states =
      std::any_of(asked.groups.begin(), asked.groups.end(),
                  [](const batch::KvGroup& group) { return group.kind == batch::KvKind::kState; });
  int drafts = states ? asked.draft_tokens : 0;
  for (; drafts > 0; --drafts) {
    Result<MemoryPlan> more = plan_for(drafts);
    if (!more.ok() || more->max_model_len < longest) continue;
    plan = std::move(more);
    break;
  }
  if (states && drafts < asked.draft_tokens) {
    plan->note +=
        StrCat(plan->note.empty() ? "" : "; ", "--speculate-tokens is ", drafts, ", not ",
               asked.draft_tokens, ", because the KV cache has ", FormatBytes(plan->bytes),
               " and keeps a state for each; raise --kv-memory for more");
  }
  return plan;
}

Result<MemoryPlan> PlanLongest(
    const std::function<Result<MemoryRequest>(int max_model_len)>& request_for, bool shorter) {
  SLUICE_ASSIGN_OR_RETURN(const MemoryRequest asked, request_for(0));
  Result<MemoryPlan> plan = PlanMemory(asked);
  if (asked.max_model_len > 0) return plan;
  if (plan.ok() && plan->max_model_len == asked.declared_model_len) return plan;
  if (!plan.ok() && (!shorter || plan.status().code() != StatusCode::kOutOfMemory)) return plan;
  int low = plan.ok() ? plan->max_model_len : FinestBlock(asked) - 1;
  int high = asked.declared_model_len - 1;
  while (low < high) {
    const int middle = static_cast<int>((int64_t{low} + high + 1) / 2);
    SLUICE_ASSIGN_OR_RETURN(MemoryRequest request, request_for(middle));
    request.max_model_len = middle;
    request.length_found = true;
    Result<MemoryPlan> found = PlanMemory(request);
    if (found.ok()) {
      plan = std::move(found);
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return plan;
}

}  // namespace sluice::exec
