#include "blocks/group_spec.h"

#include <algorithm>

#include "base/str_cat.h"

namespace sluice::blocks {
namespace {

constexpr int32_t kMaxBlockTokens = 1024;
constexpr size_t kMaxGroups = 64;

int32_t CeilDivide(int64_t value, int32_t divisor) {
  return static_cast<int32_t>((value + divisor - 1) / divisor);
}

}  // namespace

Status Validate(std::span<const GroupSpec> groups) {
  if (groups.empty() || groups.size() > kMaxGroups) {
    return InvalidArgument(StrCat("A model has 1 to ", kMaxGroups,
                                  " layer groups with KV blocks, not ", groups.size(), "."));
  }
  for (const GroupSpec& group : groups) {
    if (group.block_tokens < 1 || group.block_tokens > kMaxBlockTokens) {
      return InvalidArgument(StrCat("A KV block holds 1 to ", kMaxBlockTokens, " tokens, not ",
                                    group.block_tokens, "; change --block-size."),
                             "block-size");
    }
    if (group.block_tokens != groups[0].block_tokens) {
      return InvalidArgument(StrCat("All layer groups must have the same block size; there are ",
                                    groups[0].block_tokens, " and ", group.block_tokens, "."),
                             "block-size");
    }
    if (group.kernel_block_tokens < 1 || group.block_tokens % group.kernel_block_tokens != 0) {
      return InvalidArgument(
          StrCat("The block size ", group.block_tokens,
                 " is not a multiple of the kernel's block size ", group.kernel_block_tokens,
                 "; change --block-size or --kernel-block-size."),
          "kernel-block-size");
    }
    if ((group.kind == GroupKind::kWindow) != (group.window > 0) || group.window < 0) {
      return InvalidArgument(
          StrCat("A layer group has a window exactly when it is a window group, but one has ",
                 group.window, "."));
    }
    if (group.num_blocks < 1) {
      return InvalidArgument(StrCat("A layer group has ", group.num_blocks,
                                    " KV blocks; give it memory with --kv-memory."),
                             "kv-memory");
    }
  }
  return OkStatus();
}

int32_t PeakBlocks(const GroupSpec& group, int32_t length, int32_t chunk) {
  if (length <= 0) return 0;
  if (group.kind == GroupKind::kState) return 1;
  const int32_t all = CeilDivide(length, group.block_tokens);
  if (group.kind != GroupKind::kWindow) return all;
  const int64_t span = static_cast<int64_t>(group.window) - 1 + chunk;
  return std::min(all, CeilDivide(span, group.block_tokens) + 1);
}

int32_t FirstNeededBlock(const GroupSpec& group, int32_t first) {
  if (group.kind != GroupKind::kWindow) return 0;
  return std::max(0, first - group.window + 1) / group.block_tokens;
}

}  // namespace sluice::blocks
