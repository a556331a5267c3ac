// What attention's kernel is compiled for and over which groups it runs: pure functions of the
// descriptor, the sizes of a call's tensors and the device's facts.
#pragma once

#include <string>

#include "backend/xpu/launch_shape.h"
#include "ops/attention.h"
#include "ops/index_scores.h"
#include "ops/latent_attention.h"

namespace sluice::xpu {

struct AttentionConfig {
  std::string options;  // the program's: the same for every call of a layer
  LaunchShape shape;
  int32_t table_tokens = 0;  // positions that a row of the block table has room for
};

AttentionConfig ConfigureAttention(const ops::Attention::Desc& desc, int64_t tokens,
                                   int64_t blocks_max, const device::DeviceFacts& facts);

AttentionConfig ConfigureLatentAttention(const ops::LatentAttention::Desc& desc, int64_t tokens,
                                         int64_t blocks_max, const device::DeviceFacts& facts);

AttentionConfig ConfigureIndexScores(const ops::IndexScores::Desc& desc, int64_t rows,
                                     int64_t positions, int64_t blocks_max,
                                     const device::DeviceFacts& facts);

// A work-group has a row.
AttentionConfig ConfigureTopK(int64_t rows, const device::DeviceFacts& facts);

ops::Support AttentionSupports(const ops::Attention::Desc& desc, const device::DeviceFacts& facts);

}  // namespace sluice::xpu
