// What every kernel stands on: no contraction, so that a fused multiply-add is where it is written.
#pragma OPENCL FP_CONTRACT OFF

#ifndef ITEMS
#define ITEMS 1  // of a work-group
#endif
#define SLUICE_KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) kernel void

#define SLUICE_CAT_(a, b) a##b
#define SLUICE_CAT(a, b) SLUICE_CAT_(a, b)
