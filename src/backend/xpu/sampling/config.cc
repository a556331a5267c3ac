#include "backend/xpu/sampling/config.h"

#include "backend/xpu/kernel_support.h"

namespace sluice::xpu {
namespace {

constexpr int kItemsOnGpu = 64;
constexpr int64_t kVocabMax = int64_t{1} << 29;

}  // namespace

SampleConfig ConfigureSample(const ops::Sample::Desc& desc, int64_t rows,
                             const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu);
  SampleConfig config;
  config.options = StrCat("-D ITEMS=", items);
  config.shape = {{static_cast<size_t>(rows), 1, 1}, static_cast<size_t>(items)};
  config.chunk = ((desc.vocab + items - 1) / items + 15) / 16 * 16;
  config.scratch_bytes = static_cast<size_t>(rows * 2 * config.chunk * items) * sizeof(float);
  return config;
}

ops::Support SampleSupports(const ops::Sample::Desc& desc, const device::DeviceFacts&) {
  if (desc.vocab < 1 || desc.vocab > kVocabMax)
    return ops::Support::No(StrCat("a vocabulary of ", desc.vocab));
  return ops::Support::Yes();
}

}  // namespace sluice::xpu
