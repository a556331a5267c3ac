#include "backend/xpu/pieces/base.cl"
// Positions of the k largest scores of a row, ascending; a work-group has a row. The k-th largest
// is found digit by digit; then each work-item writes what a part of the row gives, behind what the
// parts before it give.

#define DIGITS 256

// Grows with the score: NaN is below all, and the zeros are equal.
uint key_of(float score) {
  if (isnan(score)) return 0;
  const uint bits = as_uint(score == 0.0f ? 0.0f : score);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Whether the key agrees with the border above the digit at `shift`.
bool agrees(uint key, uint border, int shift) {
  return shift == 24 || (key ^ border) >> (shift + 8) == 0;
}

SLUICE_KERNEL any_f32_top_k(global const float* scores, ulong scores_stride,
                            global const int* lengths, global int* positions,
                            ulong positions_stride, int width, int k) {
  const int row = get_group_id(0), item = get_local_id(0);
  const int length = clamp(lengths[row], 0, width);
  global const float* from = scores + row * scores_stride;
  global int* to = positions + row * positions_stride;
  if (length <= k) {
    for (int i = item; i < k; i += ITEMS) to[i] = i < length ? i : -1;
    return;
  }
  local uint counts[DIGITS];
  local uint border;  // the k-th largest key, as far as it is known
  local int left;     // of keys that agree with it, those that belong to the k largest
  if (item == 0) {
    border = 0;
    left = k;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = item; i < DIGITS; i += ITEMS) counts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int p = item; p < length; p += ITEMS) {
      const uint key = key_of(from[p]);
      if (agrees(key, border, shift)) atomic_inc(&counts[key >> shift & (DIGITS - 1)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
      uint digit = DIGITS - 1;
      while (counts[digit] < (uint)left) left -= counts[digit--];
      border |= digit << shift;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  local int above[ITEMS], equal[ITEMS];
  const int part = (length + ITEMS - 1) / ITEMS;
  const int begin = min(item * part, length), end = min(begin + part, length);
  above[item] = equal[item] = 0;
  for (int p = begin; p < end; ++p) {
    const uint key = key_of(from[p]);
    above[item] += key > border;
    equal[item] += key == border;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  int at = 0, equals = 0;
  for (int i = 0; i < item; ++i) {
    at += above[i];
    equals += equal[i];
  }
  at += min(equals, left);
  for (int p = begin; p < end; ++p) {
    const uint key = key_of(from[p]);
    if (key > border || (key == border && equals++ < left)) to[at++] = p;
  }
}
