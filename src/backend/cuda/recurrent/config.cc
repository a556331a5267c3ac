#include "backend/cuda/recurrent/config.h"

#include "backend/cuda/by_type.h"
#include "backend/cuda/recurrent/params.h"

namespace sluice::cuda {
namespace {

// Of the second and third dimension of a grid.
constexpr int64_t kGridMax = 65535;

ops::Support FitsKernel(int k_head_dim, int v_heads) {
  if (StateRows(k_head_dim) == 0)
    return ops::Support::No(StrCat("k_head_dim is ", k_head_dim, ", above 256"));
  if (v_heads > kGridMax)
    return ops::Support::No(StrCat("has ", v_heads, " value heads, above ", kGridMax));
  return ops::Support::Yes();
}

}  // namespace

int StateRows(int k_head_dim) {
  for (const int rows : {8, 16, 32, 64}) {
    if (k_head_dim <= rows * static_cast<int>(kDeltaParts)) return rows;
  }
  return 0;
}

LaunchShape StateShape(int v_heads, int v_head_dim, int64_t sequences) {
  LaunchShape shape;
  shape.grid[0] = BlocksFor(v_head_dim, kDeltaColumns);
  shape.grid[1] = static_cast<unsigned>(v_heads);
  shape.grid[2] = static_cast<unsigned>(sequences);
  shape.block[0] = kDeltaWarps * 32;
  return shape;
}

LaunchShape ShortConvShape(int64_t count, int64_t channels) {
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(count);
  shape.grid[1] = BlocksFor(channels, kShortConvThreads);
  shape.block[0] = kShortConvThreads;
  return shape;
}

LaunchShape SelectiveScanShape(int64_t channels, int64_t sequences) {
  LaunchShape shape;
  shape.grid[0] = BlocksFor(channels, kScanThreads);
  shape.grid[1] = static_cast<unsigned>(sequences);
  shape.block[0] = kScanThreads;
  return shape;
}

int ScanSize(int state_size) { return state_size <= 16 ? 16 : state_size <= 64 ? 64 : 0; }

ops::Support ShortConvSupports(const ops::ShortConv::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.channels > kGridMax * kShortConvThreads)
    return ops::Support::No(
        StrCat("has ", desc.channels, " channels, above ", kGridMax * kShortConvThreads));
  return ops::RefShortConvSupports(desc, facts);
}

ops::Support GatedDeltaSupports(const ops::GatedDelta::Desc& desc,
                                const device::DeviceFacts& facts) {
  const ops::Support fits = FitsKernel(desc.k_head_dim, desc.v_heads);
  return fits.ok ? ops::RefGatedDeltaSupports(desc, facts) : fits;
}

ops::Support SsdSupports(const ops::Ssd::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support fits = FitsKernel(desc.k_head_dim, desc.v_heads);
  return fits.ok ? ops::RefSsdSupports(desc, facts) : fits;
}

ops::Support SelectiveScanSupports(const ops::SelectiveScan::Desc& desc,
                                   const device::DeviceFacts& facts) {
  if (ScanSize(desc.state_size) == 0)
    return ops::Support::No(StrCat("state_size is ", desc.state_size, ", above 64"));
  return ops::RefSelectiveScanSupports(desc, facts);
}

}  // namespace sluice::cuda
