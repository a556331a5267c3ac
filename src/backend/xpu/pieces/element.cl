#include "backend/xpu/pieces/base.cl"
// Elements of plain floating-point formats and of codes, one or 16 at a time. `i` counts elements;
// nothing needs to be aligned to more than an element.

typedef global const uchar* Bytes;
typedef global uchar* BytesOut;

float load_f32(Bytes p, ulong i) { return ((global const float*)p)[i]; }
float load_f16(Bytes p, ulong i) { return vload_half(i, (global const half*)p); }
float load_bf16(Bytes p, ulong i) { return as_float((uint)((global const ushort*)p)[i] << 16); }
float load_i8(Bytes p, ulong i) { return (float)((global const char*)p)[i]; }

// Codes of four exponent and three mantissa bits without infinities. Moved into F32's places the
// value is 2^-120 of what it means, subnormals included.
float decode_f8(uint code) {
  if ((code & 0x7fu) == 0x7fu) return NAN;
  return as_float((code & 0x80u) << 24 | (code & 0x7fu) << 20) * 0x1p120f;
}
float load_f8(Bytes p, ulong i) { return decode_f8(p[i]); }

float16 load16_f32(Bytes p, ulong i) { return vload16(0, (global const float*)p + i); }
float16 load16_f16(Bytes p, ulong i) { return vload_half16(0, (global const half*)p + i); }
float16 load16_bf16(Bytes p, ulong i) {
  return as_float16(convert_uint16(vload16(0, (global const ushort*)p + i)) << 16);
}
float16 load16_i8(Bytes p, ulong i) {
  return convert_float16(vload16(0, (global const char*)p + i));
}
float16 load16_f8(Bytes p, ulong i) {
  const uint16 code = convert_uint16(vload16(0, p + i));
  const float16 value =
      as_float16((code & (uint16)(0x80u)) << 24 | (code & (uint16)(0x7fu)) << 20) * 0x1p120f;
  return select(value, (float16)(NAN), (code & (uint16)(0x7fu)) == (uint16)(0x7fu));
}

void store_f32(BytesOut p, ulong i, float x) { ((global float*)p)[i] = x; }
void store_f16(BytesOut p, ulong i, float x) { vstore_half_rte(x, i, (global half*)p); }
ushort encode_bf16(float x) {
  const uint bits = as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)(bits >> 16 | 0x40u);
  return (ushort)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
void store_bf16(BytesOut p, ulong i, float x) { ((global ushort*)p)[i] = encode_bf16(x); }
void store_i8(BytesOut p, ulong i, float x) {
  const float near = isnan(x) ? 0.0f : clamp(x, -127.0f, 127.0f);
  ((global char*)p)[i] = (char)rint(near);
}
uchar encode_f8(float x) {
  const uint sign = as_uint(x) >> 24 & 0x80u;
  const float magnitude = fabs(x);
  if (isnan(x)) return (uchar)(sign | 0x7fu);
  if (magnitude >= 448.0f) return (uchar)(sign | 0x7eu);
  // Below 2^-6 steps of 2^-9; above, rounded to three bits of mantissa. Carries move the exponent.
  if (magnitude < 0.015625f) return (uchar)(sign | (uint)rint(magnitude * 512.0f));
  const uint bits = as_uint(magnitude);
  const uint rounded = (bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20;
  return (uchar)(sign | (rounded - (120u << 3)));
}
void store_f8(BytesOut p, ulong i, float x) { p[i] = encode_f8(x); }

void store16_f32(BytesOut p, ulong i, float16 x) { vstore16(x, 0, (global float*)p + i); }
void store16_f16(BytesOut p, ulong i, float16 x) { vstore_half16_rte(x, 0, (global half*)p + i); }
void store16_bf16(BytesOut p, ulong i, float16 x) {
  const uint16 bits = as_uint16(x);
  const uint16 near = (bits + (uint16)(0x7fffu) + (bits >> 16 & (uint16)(1u))) >> 16;
  const uint16 nan = bits >> 16 | (uint16)(0x40u);
  const int16 is_nan = (bits & (uint16)(0x7fffffffu)) > (uint16)(0x7f800000u);
  vstore16(convert_ushort16(select(near, nan, is_nan)), 0, (global ushort*)p + i);
}

// The activation type: -D ACT=f32, f16 or bf16.
#ifdef ACT
#define load_act SLUICE_CAT(load_, ACT)
#define load16_act SLUICE_CAT(load16_, ACT)
#define store_act SLUICE_CAT(store_, ACT)
#define store16_act SLUICE_CAT(store16_, ACT)
#define round_f32(x) (x)
#define round_f16(x) round_to_f16(x)
#define round_bf16(x) as_float((uint)encode_bf16(x) << 16)
float round_to_f16(float x) {
  ushort stored[1];
  vstore_half_rte(x, 0, (half*)stored);
  return vload_half(0, (half*)stored);
}
#define round_act SLUICE_CAT(round_, ACT)
#endif
