// The positions of the largest scores of each row: of as many scores as the row has, which differs
// from row to row. What a row takes depends on its scores alone.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

struct TopK {
  static constexpr std::string_view kName = "top_k";
  struct Desc {
    int k = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor scores;  // F32 [rows, width]
    // I32 [rows]: only so many of a row's scores are read. In 0 to width; where it lies in host
    // memory another is kInvalidArgument, elsewhere it counts as the nearest.
    Tensor lengths;
    // I32 [rows, k]: positions of the k largest scores, ascending; of equal scores the lower
    // position is taken first. Zeros of both signs are equal, and so are NaNs, which are
    // below all numbers and infinities. A row with fewer takes all, and -1 follows; of one that has
    // none nothing is read.
    Tensor positions;
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const TopK::Desc& desc, const TopK::Args& args);
// REQUIRES: CheckArgs is ok; host memory.
Status CheckIndices(const TopK::Desc& desc, const TopK::Args& args);

Support RefTopKSupports(const TopK::Desc& desc, const device::DeviceFacts& facts);
Status RefTopK(device::Stream& stream, const TopK::Desc& desc, const TopK::Args& args);

}  // namespace sluice::ops
