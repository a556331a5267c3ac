// A layer's paged KV cache as kernels see it. Plain values.
//
// F8_E4M3 and I8 keep codes of one byte and one F32 scale for the head_dim numbers that a token has
// in a KV head, K and V apart: the number is code * scale. A row's codes and scale are written
// once, from that row alone, and never touched again, so that they don't depend on what is beside
// it.
#pragma once

#include <string>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct PagedKv {
  Tensor k;                 // [kernel_blocks, kv_heads, kernel_block_tokens, k_head_dim]
  Tensor v;                 // the same with v_head_dim
  Tensor k_scale, v_scale;  // F32 [kernel_blocks, kv_heads, kernel_block_tokens]; empty: no scales
  KvLayoutId layout = KvLayoutId::kHeadsTokensDim;
};

// What the KV of one layer looks like, known at load.
struct KvDesc {
  DType dtype = DType::kF16;
  int kv_heads = 0;
  int k_head_dim = 0, v_head_dim = 0;
  int kernel_block_tokens = 0;
  KvLayoutId layout = KvLayoutId::kHeadsTokensDim;
  std::string ToString() const;
};

// Whether K and V are codes with scales beside them.
bool KvHasScales(DType dtype);
// What a KV cache may be made of: F32, F16, BF16, F8_E4M3, I8.
bool IsKvFormat(DType dtype);
// The largest code, which the largest number of a row becomes: 448 or 127. REQUIRES: KvHasScales.
float KvCodeMax(DType dtype);

// The scale of a row: its largest magnitude over KvCodeMax. NaN if the row has a NaN or an
// infinity, and then all of the row is NaN to its readers. 0 for a row of zeros, or of numbers so
// small that the scale rounds to 0. REQUIRES: KvHasScales(dtype).
float KvRowScale(DType dtype, const float* values, int count);
// Writes a row: values[i] goes to element `first` + i of `data`. With scales it is divided by the
// row's, which goes to *scale, and rounded to the nearest code, ties to even; where the scale is 0
// or NaN the codes are 0. REQUIRES: IsKvFormat(dtype).
void StoreKvRow(DType dtype, const float* values, int count, std::byte* data, int64_t first,
                float* scale);

class ArgsChecker;
// `kv` has the types, sizes and layout of `desc`, and scales where its format has them.
void ExpectPagedKv(const KvDesc& desc, const PagedKv& kv, ArgsChecker& check);

}  // namespace sluice::ops
