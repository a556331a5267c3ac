#include "backend/xpu/recurrent/config.h"

#include "backend/xpu/kernel_support.h"

namespace sluice::xpu {
namespace {

// A work-item on a GPU holds an eighth of a column in registers: 32 numbers of the widest head.
constexpr int kKeyDimMax = 256;
constexpr int kPartsOnGpu = 8, kItemsOnGpu = 128;

}  // namespace

GatedDeltaConfig ConfigureGatedDelta(const ops::GatedDelta::Desc& desc, int64_t sequences,
                                     const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu), parts = ItemsFor(facts, kPartsOnGpu);
  // One work-item that has whole columns takes them by vectors, where they fill them.
  const int columns = items == 1 && desc.v_head_dim % 16 == 0 ? 16 : 1;
  const int slice = items / parts * columns;
  GatedDeltaConfig config;
  config.options = StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation),
                          " -D DK=", desc.k_head_dim, " -D COLS=", columns, " -D PARTS=", parts);
  config.shape = {{static_cast<size_t>((desc.v_head_dim + slice - 1) / slice),
                   static_cast<size_t>(desc.v_heads), static_cast<size_t>(sequences)},
                  static_cast<size_t>(items)};
  return config;
}

ops::Support GatedDeltaSupports(const ops::GatedDelta::Desc& desc,
                                const device::DeviceFacts& facts) {
  if (desc.k_head_dim > kKeyDimMax)
    return ops::Support::No(StrCat("k_head_dim is ", desc.k_head_dim, ", above ", kKeyDimMax));
  return ops::RefGatedDeltaSupports(desc, facts);
}

}  // namespace sluice::xpu
