#include "backend/xpu/pieces/base.cl"
// Sums over 16 lanes and over a work-group, each in one fixed order.

float sum16(float16 x) {
  const float8 a = x.lo + x.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}
float max16(float16 x) {
  const float8 a = fmax(x.lo, x.hi);
  const float4 b = fmax(a.lo, a.hi);
  const float2 c = fmax(b.lo, b.hi);
  return fmax(c.x, c.y);
}

#if ITEMS == 1
#define SLUICE_LOCAL_SUMS(name)
#define group_sum(x, name) (x)
#define group_max(x, name) (x)
#define group_barrier()
#else
#define SLUICE_LOCAL_SUMS(name) local float name[ITEMS]
#define group_barrier() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
float reduce_sum(float x, local float* parts) {
  const int item = get_local_id(0);
  parts[item] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_items = ITEMS / 2; half_items > 0; half_items /= 2) {
    if (item < half_items) parts[item] += parts[item + half_items];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float sum = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}
float reduce_max(float x, local float* parts) {
  const int item = get_local_id(0);
  parts[item] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_items = ITEMS / 2; half_items > 0; half_items /= 2) {
    if (item < half_items) parts[item] = fmax(parts[item], parts[item + half_items]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float largest = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}
#define group_sum(x, name) reduce_sum(x, name)
#define group_max(x, name) reduce_max(x, name)
#endif

// Of n numbers whose squares sum to this, as the RMSNorm has it.
float inverse_rms(float squares, int n, float eps) { return 1.0f / sqrt(squares / (float)n + eps); }
