#include "backend/xpu/pieces/element.cl"
// Rows of D numbers, of activations and of KV (-D KV), as vectors of 16.
#define load_kv SLUICE_CAT(load_, KV)
#define load16_kv SLUICE_CAT(load16_, KV)
#define VECTORS ((D + 15) / 16)

// Lanes of a vector of a row; what lies past the row is not read and counts as 0.
float16 kv_lanes(Bytes row, ulong at, int vector) {
#if D % 16 != 0
  if (vector == VECTORS - 1) {
    float lanes[16];
    for (int i = 0; i < 16; ++i)
      lanes[i] = vector * 16 + i < D ? load_kv(row, at + vector * 16 + i) : 0.0f;
    return vload16(0, lanes);
  }
#endif
  return load16_kv(row, at + vector * 16);
}
float16 act_lanes(Bytes row, ulong at, int vector) {
#if D % 16 != 0
  if (vector == VECTORS - 1) {
    float lanes[16];
    for (int i = 0; i < 16; ++i)
      lanes[i] = vector * 16 + i < D ? load_act(row, at + vector * 16 + i) : 0.0f;
    return vload16(0, lanes);
  }
#endif
  return load16_act(row, at + vector * 16);
}
