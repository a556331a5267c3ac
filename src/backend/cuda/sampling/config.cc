#include "backend/cuda/sampling/config.h"

#include <algorithm>

#include "backend/cuda/sampling/params.h"

namespace sluice::cuda {

ops::Support SampleSupports(const ops::Sample::Desc& desc, const device::DeviceFacts&) {
  if (desc.vocab < 1) return ops::Support::No(StrCat("a vocabulary of ", desc.vocab));
  if (desc.filtered) return ops::Support::No("it tells distributions before the filters alone");
  if (SampleSharedBytes(desc.vocab) > kSampleSharedMax)
    return ops::Support::No(StrCat("a vocabulary of ", desc.vocab,
                                   " does not fit the shared memory of ", kSampleCluster, " SMs"));
  if (std::min<int64_t>(desc.top_logprobs_max, desc.vocab) > kSampleTopMax)
    return ops::Support::No(
        StrCat(desc.top_logprobs_max, " top log-probs, at most ", kSampleTopMax));
  return ops::Support::Yes();
}

}  // namespace sluice::cuda
