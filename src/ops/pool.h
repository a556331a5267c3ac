// Pool: one vector for each sequence of a step, made of the hidden states of its tokens in the
// step.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

enum class PoolKind : uint8_t { kFirst, kMean, kLast };
// All of them: what conformance and tests go through.
inline constexpr PoolKind kPoolKinds[] = {PoolKind::kFirst, PoolKind::kMean, PoolKind::kLast};

// out[s] = the first, the mean or the last of x[query_start[s]] to x[query_start[s + 1] - 1]; of a
// sequence without tokens its row is left as it is. A mean is the sum in F32, tokens ascending,
// over their number.
struct Pool {
  static constexpr std::string_view kName = "pool";
  struct Desc {
    PoolKind kind = PoolKind::kMean;
    DType activation = DType::kF32;  // of x
    int64_t width = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor x;            // [tokens, width], rows may be strided
    Tensor query_start;  // I32 [sequences + 1], ascending, within the tokens
    Tensor out;          // F32 [sequences, width]; may not overlap x
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const Pool::Desc& desc, const Pool::Args& args);
// query_start makes sense. REQUIRES: CheckArgs is ok; it lies in host memory.
Status CheckIndices(const Pool::Desc& desc, const Pool::Args& args);

Support RefPoolSupports(const Pool::Desc& desc, const device::DeviceFacts& facts);
Status RefPool(device::Stream& stream, const Pool::Desc& desc, const Pool::Args& args);

}  // namespace sluice::ops
