#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
// Places for the tokens of each expert, in one work-group: a work-item counts and then places those
// of some experts, tokens ascending. `counts` and `counted` may be null. -D ITEMS, EXPERTS: the
// most that there is room for.
SLUICE_KERNEL any_group_experts(global const int* ids, ulong ids_stride, global int* starts,
                                global int* tokens, global int* places, ulong places_stride,
                                global uint* counts, global const int* counted, int count,
                                int experts, int top_k) {
  local int next[EXPERTS];
  const int each = (experts + ITEMS - 1) / ITEMS;
  const int begin = get_local_id(0) * each, end = min(begin + each, experts);
  for (int e = begin; e < end; ++e) next[e] = 0;
  // Padding stands behind the tokens that are counted.
  const int real = counted == 0 ? count : min(*counted, count);
  for (int t = 0; t <= count; ++t) {
    if (t == real && counts != 0) {
      for (int e = begin; e < end; ++e) counts[e] += next[e];
    }
    for (int i = 0; i < top_k && t < count; ++i) {
      const int e = ids[t * ids_stride + i];
      if (e >= begin && e < end) ++next[e];
    }
  }
  group_barrier();
  if (get_local_id(0) == 0) {
    int place = 0;
    for (int e = 0; e < experts; ++e) {
      const int taken = next[e];
      starts[e] = next[e] = place;
      place += taken;
    }
    starts[experts] = place;
  }
  group_barrier();
  for (int t = 0; t < count; ++t) {
    for (int i = 0; i < top_k; ++i) {
      const int e = ids[t * ids_stride + i];
      if (e < begin || e >= end) continue;
      const int place = next[e]++;
      tokens[place] = t;
      places[t * places_stride + i] = place;
    }
  }
}
