
#include "ops/check_args.h"
#include "ops/experts.h"
#include "ops/fake_balance_experts.h"
#include "ops/reference_support.h"

namespace sluice::ops {

Support RefFakeBalanceExpertsSupports(const FakeBalanceExperts::Desc& desc,
                                      const device::DeviceFacts&) {
  return SupportsTopExperts(desc.top_k, desc.experts);
}

Status RefFakeBalanceExperts(device::Stream&, const FakeBalanceExperts::Desc& desc,
                             const FakeBalanceExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.ids.dims[0]; ++t) {
    for (int i = 0; i < desc.top_k; ++i) {
      args.ids.ptr<int32_t>()[t * args.ids.strides[0] + i] =
          static_cast<int32_t>((t * desc.top_k + i) % desc.experts);
      args.weights.ptr<float>()[t * args.weights.strides[0] + i] =
          1.0f / static_cast<float>(desc.top_k);
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
