// KvGroup: what a group of layers keeps of every sequence. Layers of a group share block ids; each
// group has a pool of its own. The model says what its layers keep, the memory plan how many blocks
// there are, and every stage behind them reads this one value. Plain data, constant after start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "sluice/status.h"

namespace sluice::batch {

enum class KvKind : uint8_t {
  kFull,    // K and V of every earlier token
  kWindow,  // K and V; a query at position p reads positions (p - window, p], older blocks are let
            // go
  kState,   // one running state. Block i holds the states behind the last computed tokens of
           // positions [i * block_tokens, (i + 1) * block_tokens), as many as `states` says. A step
           // reads the block of the token before its first and writes the block of its last, and
           // crosses no border between blocks, so that a block that is left holds the state at the
           // border: a snapshot that other sequences may go on from
};

struct KvGroup {
  KvKind kind = KvKind::kFull;
  // Tokens of a cache block: the same in all groups but those of states, which have a multiple.
  int32_t block_tokens = 16;
  int32_t kernel_block_tokens = 16;  // divides block_tokens; equal to it for kState, where an id
                                     // stands for a whole state
  int32_t window = 0;                // kWindow: > 0; else 0
  int32_t num_blocks = 0;            // cache blocks in the group's pool; set by the memory plan

  std::vector<int> layers;  // of the model, ascending
  DType dtype = DType::kF16;
  int kv_heads = 0;
  // Numbers that a token has in a head. Latent attention's V is a part of K; an indexer has its
  // keys in V's place. kState: those that a sequence has; K is the state of the recurrence, or of a
  // convolution that stands alone, and V that of the convolution before a recurrence.
  int k_head_dim = 0;
  int v_head_dim = 0;
  // kState: what a step may go back to. A step with at most so many tokens of a sequence leaves the
  // state behind each, so that it may verify one draft less: the next goes on behind any of them.
  int32_t states = 1;

  // Kernel blocks per cache block: cache block b is kernel blocks [b * ratio, (b + 1) * ratio).
  int32_t ratio() const { return block_tokens / kernel_block_tokens; }
  friend bool operator==(const KvGroup&, const KvGroup&) = default;
};

// The group that others are measured by, since a prefix is shared in its blocks: the first that is
// no group of states, or the first. REQUIRES: !groups.empty().
const KvGroup& FinestGroup(std::span<const KvGroup> groups);

// kInvalidArgument naming the value and the flag when the groups cannot be served. ValidateSizes
// leaves out num_blocks, for groups that the memory plan has not seen yet.
Status ValidateSizes(std::span<const KvGroup> groups);
Status Validate(std::span<const KvGroup> groups);

// Blocks of `block_tokens` tokens that hold `length` tokens.
constexpr int32_t BlocksFor(int64_t length, int32_t block_tokens) {
  return static_cast<int32_t>((length + block_tokens - 1) / block_tokens);
}
// Entries of a sequence's table of kernel blocks: those that were let go are counted, too.
inline int32_t TableWidth(const KvGroup& group, int64_t length) {
  return BlocksFor(length, group.kernel_block_tokens);
}

// The most cache blocks that a sequence of `length` tokens holds at once when no step computes more
// than `chunk` of its tokens.
int32_t PeakBlocks(const KvGroup& group, int32_t length, int32_t chunk);

// The first position that a step which begins at position `first` still reads; 0 when it reads all.
int32_t FirstNeededPosition(const KvGroup& group, int32_t first);
// Its cache block: those below may be let go.
inline int32_t FirstNeededBlock(const KvGroup& group, int32_t first) {
  return FirstNeededPosition(group, first) / group.block_tokens;
}

// Of `wanted` drafts of a sequence in a step, those that the groups' states can be taken back by.
int32_t DraftsWithin(std::span<const KvGroup> groups, int32_t wanted);

// How far a step that begins at `first` may compute towards `end`.
int32_t StepEnd(std::span<const KvGroup> groups, int32_t first, int32_t end);

}  // namespace sluice::batch
