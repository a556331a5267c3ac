#include "backend/xpu/pieces/base.cl"
// Exact sums, in 16 lanes, of products of four codes 0..15 with four signed bytes -127..127.
// Products has partial sums of 16 bits: up to eight calls of add_products fit; lane_sums puts them
// together.
//
// The compiler finds no byte products in plain vector code, so x86 processors get theirs by name;
// -D WITHOUT_AVX512BW and WITHOUT_AVX2 leave them out.
#if defined(__AVX512BW__) && !defined(WITHOUT_AVX512BW)
typedef char Bytes64 __attribute__((ext_vector_type(64)));
typedef short Shorts32 __attribute__((ext_vector_type(32)));
typedef Shorts32 Products;
Products no_products() { return (Products)(0); }
Products add_products(Products sums, uint16 codes, uint bytes) {
  return sums +
         __builtin_astype(__builtin_ia32_pmaddubsw512(__builtin_astype(codes, Bytes64),
                                                      __builtin_astype((uint16)(bytes), Bytes64)),
                          Shorts32);
}
int16 lane_sums(Products sums) {
  return __builtin_astype(__builtin_ia32_pmaddwd512(sums, (Shorts32)(1)), int16);
}
#elif defined(__AVX2__) && !defined(WITHOUT_AVX2)
typedef char Bytes32 __attribute__((ext_vector_type(32)));
typedef struct {
  short16 low, high;  // of eight lanes each
} Products;
Products no_products() {
  Products none = {0, 0};
  return none;
}
short16 byte_products(uint8 codes, uint bytes) {
  return __builtin_astype(__builtin_ia32_pmaddubsw256(__builtin_astype(codes, Bytes32),
                                                      __builtin_astype((uint8)(bytes), Bytes32)),
                          short16);
}
Products add_products(Products sums, uint16 codes, uint bytes) {
  sums.low += byte_products(codes.lo, bytes);
  sums.high += byte_products(codes.hi, bytes);
  return sums;
}
int8 eight_sums(short16 sums) {
  return __builtin_astype(__builtin_ia32_pmaddwd256(sums, (short16)(1)), int8);
}
int16 lane_sums(Products sums) { return (int16)(eight_sums(sums.low), eight_sums(sums.high)); }
#else
typedef int16 Products;
Products no_products() { return (Products)(0); }
Products add_products(Products sums, uint16 codes, uint bytes) {
  const char4 b = as_char4(bytes);
  sums += as_int16(codes & 255u) * (int)b.x + as_int16(codes >> 8 & 255u) * (int)b.y;
  return sums + as_int16(codes >> 16 & 255u) * (int)b.z + as_int16(codes >> 24) * (int)b.w;
}
int16 lane_sums(Products sums) { return sums; }
#endif
