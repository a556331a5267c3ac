// Which kernel attention runs and on what grid: a pure function of the descriptor and of the sizes
// of a call's tensors, so that a captured launch stays right when lengths change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/attention/params.h"
#include "ops/attention.h"

namespace sluice::cuda {

// Numbers that a kernel multiplies in.
enum class AttentionProducts { kF32, kF16, kBF16 };

// The sizes of a call's tensors.
struct AttentionSizes {
  int64_t tokens = 0, sequences = 0, blocks_max = 0;
  bool operator==(const AttentionSizes&) const = default;
};

// The kernel for sequences of many query rows, which leaves the others to the one that takes all.
struct WideConfig {
  const char* module = "";
  std::string function;
  int rows = 0, threads = 0, shared_bytes = 0;
  unsigned thread_blocks = 0;  // 0: it is not launched
};

// A kernel of decode alone, which leaves other sequences to the one that takes all.
struct StreamConfig {
  const char* module = "";
  std::string function;
  int threads = 0, shared_bytes = 0;
  int tokens = 0;              // it takes the sequences of at most so many query tokens
  bool all = false;            // there are no others
  bool joins = false;          // it combines splits, so that no other kernel does
  unsigned thread_blocks = 0;  // 0: it is not launched
};

struct AttentionConfig {
  const char* module = "";
  std::string function;
  int rows = 0, threads = 0, shared_bytes = 0;
  int blocks_per_unit = 1;  // that its registers allow on an SM
  // Thread blocks, which share the items of the step's plan; 0: there is nothing to do.
  unsigned thread_blocks = 0;
  // What a token's heads leave for one split: there is room for so many.
  int64_t slots_max = 0;
  // Scratch; the last: sums that a thread block's registers have no room for.
  size_t partial_bytes = 0, state_bytes = 0, kept_bytes = 0;
  unsigned combine_blocks = 0;  // of the last launch; 0: there is none
  WideConfig wide;
  StreamConfig stream;  // launched where the tensors are aligned for it

  std::string ToString() const;
};

// What a step's partial results are made of.
struct AttentionHeads {
  int q_heads = 0, kv_heads = 0;
  int values = 0;  // of a head's output
  int parts = 1;   // that a head is combined in, each with a state of its own
  int block_tokens = 1;
  int split_tokens = kSplitTokens;
};

// Thread blocks and room for partial results, for a kernel whose rows, shared memory and registers
// `config` has. REQUIRES: there are tokens and sequences.
void ShareWork(const AttentionHeads& heads, const AttentionSizes& sizes, int compute_units,
               AttentionConfig& config);

// Matrix kernels exist for heads of 64, 96, 128 and 256 numbers; smaller heads are padded with
// zeros there. REQUIRES: AttentionSupports(products, desc) is ok.
AttentionConfig ConfigureAttention(AttentionProducts products, const ops::Attention::Desc& desc,
                                   const AttentionSizes& sizes, int compute_units);

// Of the rows aside of the first branches of trees, each of which is a sequence of its own: at most
// limits::kDraftTokensMax of each sequence of a step of these sizes.
AttentionSizes AsideSizes(const AttentionSizes& sizes);

// The same as ConfigureAttention for these rows.
AttentionConfig ConfigureAside(AttentionProducts products, const ops::Attention::Desc& desc,
                               const AttentionSizes& sizes, int compute_units);

ops::Support AttentionSupports(AttentionProducts products, const ops::Attention::Desc& desc,
                               const device::DeviceFacts& facts);

}  // namespace sluice::cuda
