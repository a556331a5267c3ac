// A layer's paged KV cache as kernels see it.
#pragma once

#include <string>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct PagedKv {
  Tensor k;                 // [kernel_blocks, kv_heads, kernel_block_tokens, k_head_dim]
  Tensor v;                 // the same with v_head_dim
  Tensor k_scale, v_scale;  // F32 [kernel_blocks, kv_heads, kernel_block_tokens], or empty
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

class ArgsChecker;
// `kv` has the types, sizes and layout of `desc`. Scales belong to formats that no op reads yet.
void ExpectPagedKv(const KvDesc& desc, const PagedKv& kv, ArgsChecker& check);

}  // namespace sluice::ops
