// The kernels of products in 16 bits by warpgroups, for the .cu files that define them and for
// wgmma_config.cc that chooses among them: KERNEL(tokens, groups, unit_ns) is
// <type>_wgmma_<tokens>x<groups>, where `groups` warpgroups have 64 rows of W each. A tile takes
// unit_ns for 64 of k: from 96 tokens on as measured on an H200 with tiles for nearly all
// multiprocessors, of fewer by how they compared on an H100.
#pragma once

#define WGMMA_LIST(KERNEL) \
  KERNEL(8, 1, 170)        \
  KERNEL(16, 1, 170)       \
  KERNEL(32, 1, 175)       \
  KERNEL(64, 1, 185)       \
  KERNEL(96, 1, 198)       \
  KERNEL(128, 1, 212)      \
  KERNEL(128, 2, 375)      \
  KERNEL(192, 2, 530)      \
  KERNEL(256, 2, 720)
