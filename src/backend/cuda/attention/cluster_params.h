// Sizes of the kernel in which a cluster of thread blocks shares a split, for host and device.
#pragma once

#include "backend/cuda/attention/params.h"

namespace sluice::cuda {

// A thread block makes the scores of 64 positions and a quarter of the columns. Three run on a
// multiprocessor.
inline constexpr int kClusterBlocks = 4, kClusterThreads = 128, kClusterBlocksPerUnit = 3;
// Query tokens' KV heads, or where a group has more than kStreamRows heads, parts of them, of a
// step that it takes.
inline constexpr int kClusterRowsMax = 16;
// Splits of all of these that their tables have room for, which in graphs is that of the longest
// sequences: where there may be more, a warp of the
// kernel that streams takes a split by itself (stream_attention.cuh), in less time of the device.
inline constexpr int kClusterItemsMax = 128;
// A warp looks at a step's sequences at once.
inline constexpr int kClusterSequences = 32;
constexpr int ClusterSharedBytes(int dim, bool codes) {
  const int bytes = codes ? 1 : 2, parts = kSplitTokens / 16;
  const int row_of_k = (dim * bytes / 16 | 1) * 16, row_of_v = (dim * bytes / 64 | 1) * 16;
  const int of_k = kSplitTokens / kClusterBlocks * row_of_k, weighed = parts * 32 * 12;
  return 2 * parts * (32 * 16 + kStreamRows * 4) + kSplitTokens * row_of_v +
         (of_k > weighed ? of_k : weighed) + (codes ? 5 * kSplitTokens : 32) + 32;
}

}  // namespace sluice::cuda
