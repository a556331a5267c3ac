// The kernels of products in F8, for the .cu file that defines them and for f8_config.cc that
// chooses among them: KERNEL(tokens, groups, cluster) is f8_linear_<tokens>x<groups>_rows
// and ..._blocks, where `groups` warpgroups have 64 rows of W each.
#pragma once

#define F8_LINEAR_LIST(KERNEL) \
  KERNEL(8, 1, 1)              \
  KERNEL(16, 1, 2)             \
  KERNEL(32, 1, 4)             \
  KERNEL(64, 1, 4)             \
  KERNEL(128, 1, 4)            \
  KERNEL(128, 2, 2)            \
  KERNEL(256, 2, 2)
