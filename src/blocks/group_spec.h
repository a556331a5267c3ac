// GroupSpec: what the KV of one layer group looks like to the bookkeeping. Layers of a group share
// block ids; each group has its own pool. Plain data, constant after start.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/status.h"

namespace sluice::blocks {

enum class GroupKind : uint8_t {
  kFull,    // every earlier token is kept
  kWindow,  // a query at position p reads positions (p - window, p]; older blocks are let go
  kLatent,  // like kFull, for layers that keep one latent vector per token
  kState,   // one block per sequence holds a running state; it cannot be shared or rolled back
};

struct GroupSpec {
  GroupKind kind = GroupKind::kFull;
  int32_t block_tokens = 16;         // tokens of a cache block; the same in all groups
  int32_t kernel_block_tokens = 16;  // tokens of a kernel block; divides block_tokens
  int32_t window = 0;                // kWindow: > 0; else 0
  int32_t num_blocks = 0;            // cache blocks in the group's pool

  // Kernel blocks per cache block: cache block b is kernel blocks [b * ratio, (b + 1) * ratio).
  int32_t ratio() const { return block_tokens / kernel_block_tokens; }
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

// kInvalidArgument naming the value and the flag when the specs cannot be served.
Status Validate(std::span<const GroupSpec> groups);

// The most blocks that a sequence of `length` tokens holds at once in the group when no step
// computes more than `chunk` of its tokens.
int32_t PeakBlocks(const GroupSpec& group, int32_t length, int32_t chunk);

// First block that a query at position `first` still reads; the blocks below may be let go.
int32_t FirstNeededBlock(const GroupSpec& group, int32_t first);

}  // namespace sluice::blocks
