#include "batch/kv_group.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/str_cat.h"

namespace sluice::batch {
namespace {

constexpr int32_t kMaxBlockTokens = 1024;
constexpr int32_t kMaxStateTokens = 1 << 20;
constexpr size_t kMaxGroups = 64;

Status CheckBlocks(const KvGroup& group, int32_t block_tokens) {
  const bool state = group.kind == KvKind::kState;
  const int32_t most = state ? kMaxStateTokens : kMaxBlockTokens;
  if (group.block_tokens < 1 || group.block_tokens > most) {
    const std::string_view flag = state ? "state-block" : "block-size";
    return InvalidArgument(StrCat(state ? "A block of states" : "A KV block", " holds 1 to ", most,
                                  " tokens, not ", group.block_tokens, "; change --", flag, "."),
                           std::string(flag));
  }
  if (state && group.block_tokens % block_tokens != 0) {
    return InvalidArgument(
        StrCat("--state-block ", group.block_tokens, " is not a multiple of --block-size ",
               block_tokens, "; change either."),
        "state-block");
  }
  if (!state && group.block_tokens != block_tokens) {
    return InvalidArgument(StrCat("All layer groups must have the same block size; there are ",
                                  block_tokens, " and ", group.block_tokens, "."),
                           "block-size");
  }
  if (group.kernel_block_tokens < 1 || group.block_tokens % group.kernel_block_tokens != 0 ||
      (state && group.ratio() != 1)) {
    return InvalidArgument(
        StrCat("The block size ", group.block_tokens,
               " is not a multiple of the kernel's block size ", group.kernel_block_tokens,
               "; change --block-size or --kernel-block-size."),
        "kernel-block-size");
  }
  return OkStatus();
}

}  // namespace

const KvGroup& FinestGroup(std::span<const KvGroup> groups) {
  for (const KvGroup& group : groups) {
    if (group.kind != KvKind::kState) return group;
  }
  return groups[0];
}

Status ValidateSizes(std::span<const KvGroup> groups) {
  if (groups.empty() || groups.size() > kMaxGroups) {
    return InvalidArgument(StrCat("A model has 1 to ", kMaxGroups,
                                  " layer groups with KV blocks, not ", groups.size(), "."));
  }
  const int32_t block_tokens = FinestGroup(groups).block_tokens;
  for (const KvGroup& group : groups) {
    SLUICE_RETURN_IF_ERROR(CheckBlocks(group, block_tokens));
    if (group.states < 1 || (group.kind != KvKind::kState && group.states != 1)) {
      return InvalidArgument(StrCat("A block of a layer group holds ", group.states, " states."));
    }
    if ((group.kind == KvKind::kWindow) != (group.window > 0) || group.window < 0) {
      return InvalidArgument(
          StrCat("A layer group has a window exactly when it is a window group, but one has ",
                 group.window, "."));
    }
  }
  return OkStatus();
}

Status Validate(std::span<const KvGroup> groups) {
  SLUICE_RETURN_IF_ERROR(ValidateSizes(groups));
  for (const KvGroup& group : groups) {
    if (group.num_blocks < 1) {
      return InvalidArgument(StrCat("A layer group has ", group.num_blocks,
                                    " KV blocks; give it memory with --kv-memory."),
                             "kv-memory");
    }
  }
  return OkStatus();
}

int32_t PeakBlocks(const KvGroup& group, int32_t length, int32_t chunk) {
  if (length <= 0) return 0;
  const int32_t all = BlocksFor(length, group.block_tokens);
  switch (group.kind) {
    case KvKind::kFull:
      return all;
    case KvKind::kWindow: {
      const int64_t span = static_cast<int64_t>(group.window) - 1 + chunk;
      return std::min(all, BlocksFor(span, group.block_tokens) + 1);
    }
    case KvKind::kState:
      return std::min(all, 2);
  }
  return all;
}

int32_t FirstNeededPosition(const KvGroup& group, int32_t first) {
  switch (group.kind) {
    case KvKind::kFull:
      return 0;
    case KvKind::kWindow:
      return std::max(0, first - group.window + 1);
    case KvKind::kState:
      return std::max(0, first - 1);
  }
  return 0;
}

int32_t DraftsWithin(std::span<const KvGroup> groups, int32_t wanted) {
  for (const KvGroup& group : groups) {
    if (group.kind == KvKind::kState) wanted = std::min(wanted, group.states - 1);
  }
  return wanted;
}

int32_t StepEnd(std::span<const KvGroup> groups, int32_t first, int32_t end) {
  for (const KvGroup& group : groups) {
    if (group.kind != KvKind::kState) continue;
    const int64_t border =
        (static_cast<int64_t>(first) / group.block_tokens + 1) * group.block_tokens;
    end = static_cast<int32_t>(std::min<int64_t>(end, border));
  }
  return end;
}

}  // namespace sluice::batch
