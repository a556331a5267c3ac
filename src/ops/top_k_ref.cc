#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/top_k.h"

namespace sluice::ops {

Support RefTopKSupports(const TopK::Desc& desc, const device::DeviceFacts&) {
  return desc.k > 0 ? Support::Yes() : Support::No(StrCat("k is ", desc.k));
}

Status RefTopK(device::Stream&, const TopK::Desc& desc, const TopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  for (int64_t row = 0; row < args.scores.dims[0]; ++row) {
    const float* scores = args.scores.ptr<float>() + row * args.scores.strides[0];
    int32_t* out = args.positions.ptr<int32_t>() + row * args.positions.strides[0];
    std::vector<int32_t> order(static_cast<size_t>(args.lengths.ptr<int32_t>()[row]));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (std::isnan(scores[b])) return !std::isnan(scores[a]);
      return scores[a] > scores[b];
    });
    order.resize(std::min(order.size(), static_cast<size_t>(desc.k)));
    std::sort(order.begin(), order.end());
    order.resize(static_cast<size_t>(desc.k), -1);
    std::copy(order.begin(), order.end(), out);
  }
  return OkStatus();
}

}  // namespace sluice::ops
