#include "backend/xpu/recurrent/config.h"

#include "backend/xpu/kernel_support.h"

namespace sluice::xpu {
namespace {

// A work-item on a GPU holds an eighth of a column in registers: 32 numbers of the widest head.
constexpr int kKeyDimMax = 256;
constexpr int kPartsOnGpu = 8, kItemsOnGpu = 128;
// Of a scan: a work-item holds a channel's state and rates in registers, and a work-item of a CPU
// goes through some channels one after the other.
constexpr int kScanStateMax = 128, kScanItemsOnGpu = 64, kScanPieceOnCpu = 64;

// Of a recurrence whose heads have states of [k_head_dim, v_head_dim].
template <class Desc>
StateConfig Configure(const Desc& desc, int64_t sequences, const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu), parts = ItemsFor(facts, kPartsOnGpu);
  // One work-item that has whole columns takes them by vectors, where they fill them.
  const int columns = items == 1 && desc.v_head_dim % 16 == 0 ? 16 : 1;
  const int slice = items / parts * columns;
  StateConfig config;
  config.options = StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation),
                          " -D DK=", desc.k_head_dim, " -D COLS=", columns, " -D PARTS=", parts);
  config.shape = {{static_cast<size_t>((desc.v_head_dim + slice - 1) / slice),
                   static_cast<size_t>(desc.v_heads), static_cast<size_t>(sequences)},
                  static_cast<size_t>(items)};
  return config;
}

ops::Support FitsRegisters(int k_head_dim) {
  if (k_head_dim <= kKeyDimMax) return ops::Support::Yes();
  return ops::Support::No(StrCat("k_head_dim is ", k_head_dim, ", above ", kKeyDimMax));
}

}  // namespace

StateConfig ConfigureGatedDelta(const ops::GatedDelta::Desc& desc, int64_t sequences,
                                const device::DeviceFacts& facts) {
  return Configure(desc, sequences, facts);
}

StateConfig ConfigureSsd(const ops::Ssd::Desc& desc, int64_t sequences,
                         const device::DeviceFacts& facts) {
  StateConfig config = Configure(desc, sequences, facts);
  config.options += StrCat(" -D STEPS=", desc.steps ? 1 : 0, " -D SKIP=", desc.skip ? 1 : 0);
  return config;
}

StateConfig ConfigureSelectiveScan(const ops::SelectiveScan::Desc& desc, int64_t sequences,
                                   const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kScanItemsOnGpu);
  const int64_t piece = items == 1 ? kScanPieceOnCpu : items;
  StateConfig config;
  config.options = StrCat("-D ITEMS=", items, " -D PIECE=", piece,
                          " -D ACT=", ClName(desc.activation), " -D SIZE=", desc.state_size);
  config.shape = {
      {static_cast<size_t>((desc.channels + piece - 1) / piece), static_cast<size_t>(sequences), 1},
      static_cast<size_t>(items)};
  return config;
}

ops::Support GatedDeltaSupports(const ops::GatedDelta::Desc& desc,
                                const device::DeviceFacts& facts) {
  const ops::Support fits = FitsRegisters(desc.k_head_dim);
  return fits.ok ? ops::RefGatedDeltaSupports(desc, facts) : fits;
}

ops::Support SsdSupports(const ops::Ssd::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support fits = FitsRegisters(desc.k_head_dim);
  return fits.ok ? ops::RefSsdSupports(desc, facts) : fits;
}

ops::Support SelectiveScanSupports(const ops::SelectiveScan::Desc& desc,
                                   const device::DeviceFacts& facts) {
  if (desc.state_size > kScanStateMax)
    return ops::Support::No(StrCat("state_size is ", desc.state_size, ", above ", kScanStateMax));
  return ops::RefSelectiveScanSupports(desc, facts);
}

}  // namespace sluice::xpu
