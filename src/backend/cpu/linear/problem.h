// One product of rows of x with a packed matrix, cut into tiles of rows and groups of outputs: what
// linear has one of in a call, and grouped_linear one for each expert. Plain values; the functions
// may be called from any thread of a job, for different tiles and parts.
#pragma once

#include "backend/cpu/linear/packed.h"
#include "backend/cpu/linear/row_split.h"
#include "backend/cpu/thread_pool.h"
#include "ops/linear.h"

namespace sluice::cpu {

inline constexpr int kLanesMax = 16;

struct Problem {
  const LinearKernels* kernels = nullptr;
  const ops::Linear::Desc* desc = nullptr;
  const ops::BlockFormat* format = nullptr;  // null: a plain format
  int kernel = 0;                            // index into RowKernels::block or ::plain
  int64_t steps = 0;                         // of the kernels
  size_t row_bytes = 0;                      // of a tile, per row
  size_t group_bytes = 0;
  int64_t groups = 0;

  // Of m rows, by SetRows.
  int64_t m = 0;
  RowSplit split;
  size_t unpacked_bytes = 0;  // of a group; 0: no kernel wants one
  int64_t pass_groups = 1;    // that meet a tile of x one after the other, or together
  bool pairs = false;         // together, two at a time

  const float* x = nullptr;         // rows are `x_stride` apart
  const int32_t* x_rows = nullptr;  // which of them; null: the first m
  int64_t x_stride = 0;
  const std::byte* weight = nullptr;
  const float* scales = nullptr;   // of the weight, or null
  int64_t scales_stride = 0;       // between rows of blocks
  const int32_t* order = nullptr;  // of the weight's columns, or null
  const float* bias = nullptr;
  const float* residual = nullptr;  // may be null
  float* out = nullptr;
  int64_t residual_stride = 0, out_stride = 0;
  float tensor_scales[kLanesMax] = {};  // of a weight with one scale, for each lane

  size_t tile_bytes() const {
    return row_bytes * static_cast<size_t>(kernels->by_rows[split.full].rows);
  }
  size_t pass_bytes() const { return unpacked_bytes * static_cast<size_t>(pass_groups); }
};

// All that does not depend on the rows. `desc` is kept; `weight` lies on the host.
Problem MakeProblem(const LinearKernels& kernels, const ops::Linear::Desc& desc,
                    const ops::PackedWeight& weight);
// REQUIRES: m >= 1.
void SetRows(int64_t m, Problem* problem);

// The contents of tile `index` of x. `gathered` has room for its rows where x_rows or order is set.
void MakeTile(const Problem& p, int64_t index, std::byte* out, float* gathered);

// Tiles [tiles.begin, tiles.end), whose contents stand one after the other in `in`, times the
// groups [groups.begin, groups.end). `unpacked` is this thread's memory for pass_bytes(). `next`:
// the group that this or another thread probably begins with afterwards, or groups.end.
void MultiplyTiles(const Problem& p, Share groups, Share tiles, const std::byte* in,
                   std::byte* unpacked, int64_t next);

// Around a thread's calls of MultiplyTiles, where groups are unpacked: sets its matrix tiles.
void BeginUnpacked(const Problem& p);
void EndUnpacked(const Problem& p);

}  // namespace sluice::cpu
