#include "backend/cuda/norm/config.h"

#include <algorithm>

namespace sluice::cuda {

LaunchShape NormShape(int64_t tokens, int64_t hidden) {
  constexpr int64_t kGroup = 8, kWarp = 32, kThreadsMax = 512;
  const int64_t groups = (hidden + kGroup - 1) / kGroup;
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(tokens);
  shape.block[0] =
      static_cast<unsigned>(std::min((groups + kWarp - 1) / kWarp * kWarp, kThreadsMax));
  return shape;
}

}  // namespace sluice::cuda
