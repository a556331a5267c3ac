#include "backend/xpu/pieces/element.cl"
// What the linear kernels share: the end of an output, scales of packed weights (-D SCALE: f16,
// f32) and asking for weights before they are used (-D AHEAD: so many bytes before; 0: not).
#define store_out SLUICE_CAT(store_, OUT)
#define store16_out SLUICE_CAT(store16_, OUT)

#ifdef SCALE
#define SCALE_BYTES_f16 32
#define SCALE_BYTES_f32 64
#define SCALE_BYTES SLUICE_CAT(SCALE_BYTES_, SCALE)
#define load16_scale SLUICE_CAT(load16_, SCALE)
#endif

void finish(float16 sum, Bytes bias, Bytes residual, ulong residual_at, BytesOut out, ulong out_at,
            int first, int n) {
  if (first + 16 <= n) {
    if (BIAS) sum += load16_act(bias, first);
    if (RESIDUAL) sum += load16_act(residual, residual_at + first);
    store16_out(out, out_at + first, sum);
    return;
  }
  float lanes[16];
  vstore16(sum, 0, lanes);
  for (int i = 0; first + i < n; ++i) {
    float value = lanes[i];
    if (BIAS) value += load_act(bias, first + i);
    if (RESIDUAL) value += load_act(residual, residual_at + first + i);
    store_out(out, out_at + first + i, value);
  }
}

// Asks for what lies AHEAD of bytes [from, end) of w, whole lines of a cache; spread over the steps
// of a sub-block, because a burst of them waits for the memory itself. OpenCL's own prefetch() does
// nothing where it matters, on a CPU through PoCL; the compiler's takes pointers without an address
// space. What lies past the weight is asked for in vain.
#if AHEAD > 0 && defined(__clang__)
#define ASK_AHEAD(w, from, end)                                                             \
  _Pragma("unroll") for (int line = ((from) + 63) / 64 * 64; line < (int)(end); line += 64) \
      __builtin_prefetch((const void*)((size_t)(w) + AHEAD + line));
#else
#define ASK_AHEAD(w, from, end)
#endif

#define EACH(t, rows) _Pragma("unroll") for (int t = 0; t < (rows); ++t)
