// The kernels of products in 16 bits by warpgroups, for the .cu files that define them and for
// wgmma_config.cc that chooses among them: KERNEL(tokens, groups, unit_ns) is
// <type>_wgmma_<tokens>x<groups>, where `groups` warpgroups have 64 rows of W each. A tile takes
// unit_ns for 64 of k, as measured on an H100 at k = 4096.
#pragma once

#define WGMMA_LIST(KERNEL) \
  KERNEL(8, 1, 200)        \
  KERNEL(16, 1, 200)       \
  KERNEL(32, 1, 205)       \
  KERNEL(64, 1, 215)       \
  KERNEL(128, 1, 250)      \
  KERNEL(128, 2, 480)      \
  KERNEL(256, 2, 830)
