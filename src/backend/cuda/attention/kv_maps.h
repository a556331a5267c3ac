// What kernels take that ask the copy engine for K and V, beside AttentionParams: a parameter of
// its own, because only its address is ever taken. Shared by host and device.
#pragma once

#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

// Of [kernel_blocks, kv_heads, block_tokens, head_dim], boxes of a page's rows.
struct KvMaps {
  TensorMap k, v;
};

}  // namespace sluice::cuda
