#include "backend/xpu/pieces/base.cl"
// What sampling needs of F64 on devices without it: products of 53-bit integers rounded as F64
// rounds them, and numbers in two floats with about 46 bits for log-probs.

// floor (up 0) or ceiling (up 1) of a * b * 2^-shift, where a * b has first been rounded to 53
// bits, to the nearest even. REQUIRES: 0 <= shift.
ulong rounded_product(ulong a, ulong b, int shift, int up) {
  const ulong high = mul_hi(a, b), low = a * b;
  const int length = high != 0 ? 128 - (int)clz(high) : 64 - (int)clz(low);
  const int drop = max(0, length - 53);
  ulong q = low;
  if (drop > 0) {
    q = drop >= 64 ? high >> (drop - 64) : low >> drop | (high << 1) << (63 - drop);
    const int at = drop - 1;  // of the first bit that goes
    const ulong first = at >= 64 ? high >> (at - 64) & 1 : low >> at & 1;
    const ulong rest = at >= 64 ? low | (high & ((1UL << (at - 64)) - 1)) : low & ((1UL << at) - 1);
    if (first != 0 && (rest != 0 || (q & 1) != 0)) ++q;
  }
  if (drop >= shift) return q << (drop - shift);
  const int left = shift - drop;
  if (left >= 64) return up != 0 && q != 0 ? 1 : 0;
  return (q >> left) + (up != 0 && (q & ((1UL << left) - 1)) != 0 ? 1 : 0);
}

typedef struct {
  float hi, lo;
} Wide;

Wide wide(float hi, float lo) {
  Wide r;
  r.hi = hi + lo;
  r.lo = lo - (r.hi - hi);
  return r;
}
Wide wide_add(Wide a, Wide b) {
  const float s = a.hi + b.hi;
  const float v = s - a.hi;
  const float e = (a.hi - (s - v)) + (b.hi - v);
  return wide(s, e + (a.lo + b.lo));
}
Wide wide_mul(Wide a, Wide b) {
  const float p = a.hi * b.hi;
  return wide(p, fma(a.hi, b.hi, -p) + (a.hi * b.lo + a.lo * b.hi));
}
Wide wide_div(Wide a, Wide b) {
  const float q = a.hi / b.hi;
  const Wide back = wide_mul(wide(q, 0.0f), b);
  const float left = ((a.hi - back.hi) - back.lo) + a.lo;
  return wide(q, left / b.hi);
}
Wide wide_difference(float a, float b) {
  const float s = a - b;
  const float v = s - a;
  return wide(s, (a - (s - v)) - (b + v));
}

// ln(m * 2^exponent) for a whole m > 0.
Wide wide_log(ulong m, int exponent) {
  const int bits = 64 - (int)clz(m);
  // 24 bits and the rest, scaled to [0.5, 1).
  const ulong top = bits > 24 ? m >> (bits - 24) : m << (24 - bits);
  const ulong rest = bits > 24 ? m & ((1UL << (bits - 24)) - 1) : 0;
  Wide x = wide((float)top * 0x1p-24f, (float)rest * ldexp(1.0f, -bits));
  int power = exponent + bits;
  if (x.hi < 0.70710678f) {
    x.hi *= 2.0f;
    x.lo *= 2.0f;
    --power;
  }
  // ln x = 2 (s + s^3 / 3 + s^5 / 5 ...), s = (x - 1) / (x + 1), |s| < 0.172.
  const Wide one = wide(1.0f, 0.0f);
  const Wide s = wide_div(wide_add(x, wide(-1.0f, 0.0f)), wide_add(x, one));
  const Wide square = wide_mul(s, s);
  Wide series = wide_div(one, wide(21.0f, 0.0f));
  for (int n = 19; n >= 1; n -= 2)
    series = wide_add(wide_mul(series, square), wide_div(one, wide((float)n, 0.0f)));
  Wide result = wide_mul(series, s);
  result.hi *= 2.0f;
  result.lo *= 2.0f;
  const Wide ln2 = {0x1.62e43p-1f, -0x1.05c61p-29f};
  return wide_add(wide_mul(wide((float)power, 0.0f), ln2), result);
}
