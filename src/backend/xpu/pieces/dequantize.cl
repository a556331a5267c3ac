#include "backend/xpu/pieces/element.cl"
// Element i of a row in a stored format: value_<format>(row, i). Bit layouts are those of
// ops/formats/format.h; every product of scale and code is exact, so an element is rounded once.

#define value_f32 load_f32
#define value_f16 load_f16
#define value_bf16 load_bf16
#define value_f8_e4m3 load_f8

float half_at(Bytes p) { return vload_half(0, (global const half*)p); }
uint nibble32(Bytes codes, uint i) { return i < 16 ? codes[i] & 15u : (uint)codes[i - 16] >> 4; }
uint word_at(Bytes p) { return (uint)p[0] | (uint)p[1] << 8 | (uint)p[2] << 16 | (uint)p[3] << 24; }

float value_q8_0(Bytes row, ulong e) {
  Bytes b = row + e / 32 * 34;
  return half_at(b) * (float)((global const char*)b)[2 + e % 32];
}
float value_q4_0(Bytes row, ulong e) {
  Bytes b = row + e / 32 * 18;
  return half_at(b) * (float)((int)nibble32(b + 2, e % 32) - 8);
}
float value_q4_1(Bytes row, ulong e) {
  Bytes b = row + e / 32 * 20;
  return half_at(b) * (float)nibble32(b + 4, e % 32) + half_at(b + 2);
}
float value_q5_0(Bytes row, ulong e) {
  Bytes b = row + e / 32 * 22;
  const uint code = nibble32(b + 6, e % 32) | (word_at(b + 2) >> (e % 32) & 1u) << 4;
  return half_at(b) * (float)((int)code - 16);
}
float value_q5_1(Bytes row, ulong e) {
  Bytes b = row + e / 32 * 24;
  const uint code = nibble32(b + 8, e % 32) | (word_at(b + 4) >> (e % 32) & 1u) << 4;
  return half_at(b) * (float)code + half_at(b + 2);
}

constant uchar kIq4NlValues[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                   129, 141, 153, 166, 181, 197, 217, 241};
constant uchar kMxfp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

float value_iq4_nl(Bytes row, ulong e) {
  Bytes b = row + e / 32 * 18;
  return half_at(b) * (float)((int)kIq4NlValues[nibble32(b + 2, e % 32)] - 128);
}
// 2^(e - 128); the two smallest are subnormal.
float e8m0_half(uint exponent) {
  return as_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}
float value_mxfp4(Bytes row, ulong e) {
  Bytes b = row + e / 32 * 17;
  return e8m0_half(b[0]) * (float)((int)kMxfp4Values[nibble32(b + 1, e % 32)] - 12);
}

// Half of an E4M3 scale without its sign; the code that is no number counts as 0.
float half_e4m3(uint code) {
  return (code & 0x7fu) == 0x7fu ? 0.0f : 0.5f * decode_f8(code & 0x7fu);
}
float value_nvfp4(Bytes row, ulong e) {
  Bytes b = row + e / 64 * 36;
  const uint sub = e % 64 / 16, i = e % 16, both = b[4 + sub * 8 + i % 8];
  return half_e4m3(b[sub]) * (float)((int)kMxfp4Values[i < 8 ? both & 15u : both >> 4] - 12);
}
float value_iq4_xs(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 136;
  const uint e = at % 256, i = e / 32;
  const uint scale = (b[4 + i / 2] >> (i % 2 * 4) & 15u) | (b[2 + i / 4] >> (i % 4 * 2) & 3u) << 4;
  const int value = (int)kIq4NlValues[nibble32(b + 8 + i * 16, e % 32)] - 128;
  return half_at(b) * (float)((int)scale - 32) * (float)value;
}

uint pair256(Bytes codes, uint e) {
  return codes[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3u;
}
float value_q2_k(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 84;
  const uint e = at % 256, sub = b[e / 16];
  return half_at(b + 80) * (float)(sub & 15u) * (float)pair256(b + 16, e) +
         -half_at(b + 82) * (float)(sub >> 4);
}
float value_q3_k(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 110;
  const uint e = at % 256, i = e / 16;
  Bytes scales = b + 96;
  const uint code = pair256(b + 32, e) | (b[e % 32] >> (e / 32) & 1u) << 2;
  const uint low = i < 8 ? scales[i] & 15u : (uint)scales[i - 8] >> 4;
  const int scale = (int)(low | (scales[8 + i % 4] >> (i / 4 * 2) & 3u) << 4) - 32;
  return half_at(b + 108) * (float)scale * (float)((int)code - 4);
}
uint six_bit_scale(Bytes s, uint i) {
  return i < 4 ? s[i] & 63u : (s[i + 4] & 15u) | (uint)(s[i - 4] >> 6) << 4;
}
uint six_bit_minimum(Bytes s, uint i) {
  return i < 4 ? s[i + 4] & 63u : (uint)(s[i + 4] >> 4) | (uint)(s[i] >> 6) << 4;
}
uint low_nibble256(Bytes low, uint e) {
  const uint both = low[e / 64 * 32 + e % 32];
  return e % 64 < 32 ? both & 15u : both >> 4;
}
float value_q4_k(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 144;
  const uint e = at % 256, i = e / 32;
  return half_at(b) * (float)six_bit_scale(b + 4, i) * (float)low_nibble256(b + 16, e) +
         -half_at(b + 2) * (float)six_bit_minimum(b + 4, i);
}
float value_q5_k(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 176;
  const uint e = at % 256, i = e / 32;
  const uint code = low_nibble256(b + 48, e) | (b[16 + e % 32] >> i & 1u) << 4;
  return half_at(b) * (float)six_bit_scale(b + 4, i) * (float)code +
         -half_at(b + 2) * (float)six_bit_minimum(b + 4, i);
}
float value_q6_k(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 210;
  const uint e = at % 256, halves = e / 128, quarter = e % 128 / 32, i = e % 32;
  const uint low = b[halves * 64 + quarter % 2 * 32 + i];
  const uint high = b[128 + halves * 32 + i];
  const uint code = (quarter < 2 ? low & 15u : low >> 4) | (high >> (quarter * 2) & 3u) << 4;
  return half_at(b + 208) * (float)((global const char*)b)[192 + e / 16] * (float)((int)code - 32);
}
float value_tq2_0(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 66;
  return half_at(b + 64) * (float)((int)pair256(b, at % 256) - 1);
}
// Digits to the base 3: the first digits of 32 bytes, then the second ones, and so on.
float value_tq1_0(Bytes row, ulong at) {
  Bytes b = row + at / 256 * 54;
  uint e = at % 256, byte, digit;
  if (e < 160) {
    byte = e % 32;
    digit = e / 32;
  } else if (e < 240) {
    byte = 32 + (e - 160) % 16;
    digit = (e - 160) / 16;
  } else {
    byte = 48 + (e - 240) % 4;
    digit = (e - 240) / 4;
  }
  uint fraction = b[byte];
  for (uint i = 0; i < digit; ++i) fraction = fraction * 3 & 255u;
  return half_at(b + 52) * (float)((int)(fraction * 3 >> 8) - 1);
}
