// The kernels of products in F8, for the .cu file that defines them and for f8_config.cc that
// chooses among them: KERNEL(tokens, groups, cluster, unit_ns, tile_ns) is
// f8_linear_<tokens>x<groups>_rows and ..._blocks, where `groups` warpgroups have 64 rows of W each
// and the thread blocks of a cluster share x. A tile takes unit_ns for 128 of k, and tile_ns more:
// lines through times at k = 4096 to 14336 with block scales, measured on an H200.
#pragma once

#define F8_LINEAR_LIST(KERNEL) \
  KERNEL(8, 1, 1, 180, 300)    \
  KERNEL(16, 1, 1, 190, 300)   \
  KERNEL(32, 1, 1, 235, 300)   \
  KERNEL(64, 1, 1, 315, 500)   \
  KERNEL(128, 1, 1, 520, 1000) \
  KERNEL(128, 2, 2, 520, 400)  \
  KERNEL(256, 2, 2, 1060, 800)
