// What the wide attention kernel takes, shared by host and device.
#pragma once

#include "backend/cuda/attention/params.h"
#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

struct WideParams {
  TensorMap k, v;  // [kernel_blocks, kv_heads, block_tokens, head_dim], boxes of one page's rows
  AttentionParams attention;
};

}  // namespace sluice::cuda
