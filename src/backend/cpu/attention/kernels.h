// The attention kernels of each instruction set, and the plain values that they work on.
//
// Arithmetic, the same for prefill, chunk, decode and verify and for every tiling: positions are
// cut at absolute multiples of kSplitTokens, splits at multiples of kBlockTokens. A score is one
// chain of multiply-adds over ascending dims. Inside a split, blocks are folded in ascending
// order by the online softmax, each row's V sum being one chain over ascending positions that the
// row sees; then splits are merged in ascending order. So a row's bits depend on its query, its
// position and the KV that it sees alone.
//
// avx2 and avx512 compute in F32 and give the same bits. amx multiplies in bf16 and adds in F32:
// other bits, the same for every row in whatever company.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cpu {

inline constexpr int kBlockTokens = 64;
inline constexpr int kSplitTokens = 256;

// K or V in the paged cache. Strides are elements between kernel blocks.
struct AttentionCache {
  const void* data = nullptr;     // [blocks, kv_heads, block_tokens, head_dim]
  const float* scales = nullptr;  // [blocks, kv_heads, block_tokens] where data is codes
  int64_t stride = 0, scale_stride = 0;
};

struct AttentionCall {
  const float* q = nullptr;  // [tokens, q_heads * head_dim]
  float* out = nullptr;
  const float* sinks = nullptr;   // [q_heads]: a score beside those of positions; or null
  const float* slopes = nullptr;  // [q_heads], as ops/attention.h has them; or null
  // [q_heads, 2 * bias_tokens]: what is added to scaled scores, by position less that of the row
  // from -bias_tokens on; or null. bias_tokens is a multiple of kBlockTokens.
  const float* bias = nullptr;
  int64_t bias_tokens = 0;
  AttentionCache k, v;
  int64_t q_stride = 0, out_stride = 0;       // elements between tokens
  int64_t block_tokens = 0;                   // of a kernel block
  int group = 0, kv_heads = 0, head_dim = 0;  // group: query heads of a KV head
  int out_from = 0;                           // numbers of a head's result that are left out
  int rows_max = 0;                           // of a tile
  float scale = 0.0f, soft_cap = 0.0f;        // soft_cap 0: none
  bool causal = true;
  int64_t window = 0;     // 0: all
  bool chunked = false;   // window begins at its multiples
  int growth_tokens = 0;  // as in ops/attention.h
  float growth_scale = 0.0f;
};

// Consecutive query tokens of one sequence, for all query heads of one KV head. Row r is token
// r / group and query head kv_head * group + r % group.
//
// With a list the tile is of one token, which sees listed positions alone: what is called a
// position everywhere here is then a place in the list, and the token stands at its last.
struct AttentionTile {
  const int32_t* blocks = nullptr;  // the sequence's row of the block table
  const int32_t* listed = nullptr;  // positions of the sequence, ascending; null: all
  int64_t token = 0;                // the first row of q
  int64_t position = 0;             // of that token
  int64_t context = 0;              // of the sequence
  // Of a token aside of the first branch of a tree, which is a tile by itself: the KV of position
  // path_from + i lies path[i] places behind it (ops/attention.h). Null: none lies elsewhere.
  const int32_t* path = nullptr;
  int64_t path_from = 0;
  int tokens = 0;
  int kv_head = 0;
};

// The functions here are always inlined: an out-of-line copy compiled for one instruction set could
// be linked into code that runs on another.
#define SLUICE_KERNEL_INLINE [[gnu::always_inline]] inline

// The positions that a row sees, and those that any row of a tile sees.
struct Visible {
  int64_t first = 0, end = 0;
};
SLUICE_KERNEL_INLINE Visible VisibleOf(const AttentionCall& call, const AttentionTile& tile,
                                       int64_t position) {
  const int64_t cut = call.chunked ? position - position % call.window : position - call.window + 1;
  const int64_t behind = position + call.window;
  const bool cuts = call.window > 0 && behind < tile.context;
  return {call.window > 0 && cut > 0 ? cut : 0,
          call.causal ? position + 1 : (cuts ? behind : tile.context)};
}
SLUICE_KERNEL_INLINE Visible VisibleOfTile(const AttentionCall& call, const AttentionTile& tile) {
  const Visible last = VisibleOf(call, tile, tile.position + tile.tokens - 1);
  return {VisibleOf(call, tile, tile.position).first, last.end};
}

// The part of a block of positions that a row sees, as offsets into the block.
struct BlockRange {
  int first = 0, end = 0;
  SLUICE_KERNEL_INLINE bool empty() const { return first >= end; }
  SLUICE_KERNEL_INLINE bool full() const { return first == 0 && end == kBlockTokens; }
};
SLUICE_KERNEL_INLINE int OffsetInBlock(int64_t offset) {
  return static_cast<int>(offset < 0 ? 0 : offset < kBlockTokens ? offset : kBlockTokens);
}
// What query token number `token` of the tile sees of the block of positions that begins at
// `block`.
SLUICE_KERNEL_INLINE BlockRange RangeOf(const AttentionCall& call, const AttentionTile& tile,
                                        int token, int64_t block) {
  const Visible v = VisibleOf(call, tile, tile.position + token);
  return {OffsetInBlock(v.first - block), OffsetInBlock(v.end - block)};
}

// Calls body(offset, kernel_block, row, count) for each run of `count` offsets of `range`, in the
// block of positions that begins at `block`, that lie one after the other in the cache: from row
// number `row` of [kv_heads, block_tokens] on. Listed positions are a run each.
template <class Body>
SLUICE_KERNEL_INLINE void ForRuns(const AttentionCall& call, const AttentionTile& tile,
                                  int64_t block, BlockRange range, const Body& body) {
  for (int i = range.first; i < range.end;) {
    int64_t place = block + i, most = range.end - i;
    if (tile.listed != nullptr) {
      place = tile.listed[place];
      most = 1;
    } else if (tile.path != nullptr) {
      const int64_t before = tile.path_from - place;
      if (before <= 0) place += tile.path[-before];
      most = before <= 0 ? 1 : before < most ? before : most;
    }
    const int64_t offset = place % call.block_tokens, left = call.block_tokens - offset;
    const int count = static_cast<int>(left < most ? left : most);
    body(i, tile.blocks[place / call.block_tokens], tile.kv_head * call.block_tokens + offset,
         count);
    i += count;
  }
}

// The block that a thread comes to after a split, to be asked for in time; no tile: none.
struct AttentionAhead {
  const AttentionTile* tile = nullptr;
  int64_t block = 0;
};

// Floats of the state of a tile's rows: largest score and weight sum of each, then their sums of V.
SLUICE_KERNEL_INLINE int64_t StateFloats(const AttentionCall& call) {
  return int64_t{call.rows_max} * (2 + call.head_dim);
}
#undef SLUICE_KERNEL_INLINE

// `work` is memory of the thread that runs a tile, with room for WorkFloats.
struct AttentionKernel {
  // Comes before the first `split` of a tile on a thread; `work` is left alone in between.
  void (*begin)(const AttentionCall& call, const AttentionTile& tile, float* work);
  // Attends to the positions of split number `split`; `state` becomes that of the rows that see
  // some of them.
  void (*split)(const AttentionCall& call, const AttentionTile& tile, int64_t split,
                const AttentionAhead& ahead, float* state, float* work);
  // Folds the state of split number `split` into `total`, the state of the splits before it.
  void (*merge)(const AttentionCall& call, const AttentionTile& tile, int64_t split, float* state,
                float* total);
  // Writes the rows of `out`.
  void (*finish)(const AttentionCall& call, const AttentionTile& tile, float* total);
};

// Consecutive rows of one sequence of a call of index_scores, whose queries and keys are those of
// an AttentionCall, and some of the positions that they have scores for.
struct IndexTile {
  AttentionTile rows;
  const float* weights = nullptr;  // [tokens, group]
  float* scores = nullptr;         // [tokens, positions]
  int64_t weights_stride = 0, scores_stride = 0;
  int64_t first = 0;  // a multiple of kSplitTokens, from which so many positions are scored
};

// Writes the scores of a tile's rows for positions [first, first + kSplitTokens) up to each row's
// own. A product of q and k is one chain of multiply-adds over ascending dims, and a score one
// over ascending heads, whatever is in the tile. `work` has room for IndexWorkFloats.
struct IndexKernels {
  using Score = void (*)(const AttentionCall& call, const IndexTile& tile, float* work);
  Score f32, f16, bf16, f8, i8;  // by the type of the KV
};
inline constexpr int kIndexTileTokens = 16;

extern const IndexKernels kAvx2IndexKernels, kAvx512IndexKernels;

// How many rows (query tokens times the group) the kernels want in a tile.
struct AttentionTiling {
  int rows = 0;        // enough that preparing K and V is a small part of the work, few enough that
                       // the state stays in the L2 cache
  int rows_small = 0;  // below this, more tiles save nothing
  int rows_step = 1;   // rows_max is a multiple of it
};

struct AttentionKernels {
  AttentionKernel f32, f16, bf16, f8, i8;  // by the type of the KV; null where not supported
  AttentionTiling tiling;
  int64_t (*work_floats)(const AttentionCall& call);
};

extern const AttentionKernels kAvx2AttentionKernels, kAvx512AttentionKernels, kAmxAttentionKernels;

}  // namespace sluice::cpu
