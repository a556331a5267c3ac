// Whether a phase has a residual is known when it runs; none has a bias.
#define BIAS 0
#define RESIDUAL (residual != 0)
#include "backend/xpu/pieces/int8_rows.cl"
// Up to four linears, one after another, each perhaps with the norm or the gated activation before
// it: one launch, where a launch and the waking of another processor for it cost as much as the
// work. Each output is made by the steps of any_int8_linear. -D as in pieces/int8_rows.cl, OUT.
//
// A phase's outputs are divided into tasks that work-groups take by counting; when the last task of
// a phase is done, the next phase begins. Nobody waits for a work-group that has not begun: one
// alone does everything, and one that comes late joins the phase that it finds. So it ends wherever
// work-groups that have begun all get on, as on threads of an operating system.
//
// `state`: counters, zeros before and after. Of phase p: [p * 32] tasks taken, [p * 32 + 16] done.
#define PHASES 4
#define LEFT (PHASES * 32)  // work-groups that have ended

#if defined(__clang__) && !defined(__SPIR__)
#define order_memory() __sync_synchronize()
#else
#define order_memory() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif
#if defined(__x86_64__)
#define rest() __builtin_ia32_pause()
#else
#define rest()
#endif

typedef struct {
  BytesOut x;
  Bytes weight, residual;
  BytesOut out;
  ulong x_stride, group_bytes, residual_stride, out_stride;
  int n, K, groups_each;
  From from;
} Phase;

#define PHASE_PARAMS(i)                                                                       \
  BytesOut x##i, ulong x_stride##i, Bytes weight##i, ulong group_bytes##i, Bytes residual##i, \
      ulong residual_stride##i, BytesOut out##i, ulong out_stride##i, int n##i, int K##i,     \
      int groups_each##i, int kind##i, Bytes source##i, ulong source_stride##i,               \
      global const float *norm_weight##i, float eps##i
#define PHASE_OF(i)                                                                        \
  {                                                                                        \
    x##i, weight##i, residual##i, out##i, x_stride##i, group_bytes##i, residual_stride##i, \
        out_stride##i, n##i, K##i, groups_each##i, {                                       \
      kind##i, source##i, source_stride##i, norm_weight##i, eps##i                         \
    }                                                                                      \
  }

#define SLUICE_INT8_CHAIN(name, ROWS)                                                           \
  void name##_phase(volatile global int* state, const Phase* phase, int m) {                    \
    const int groups = (phase->n + 15) / 16, K = phase->K;                                      \
    const int pieces = (groups + phase->groups_each - 1) / phase->groups_each;                  \
    const int tasks = pieces * ((m + ROWS - 1) / ROWS);                                         \
    Rounded rows[ROWS];                                                                         \
    int rounded = -1;                                                                           \
    for (int task = atomic_inc(state); task < tasks; task = atomic_inc(state)) {                \
      const int row = task / pieces * ROWS;                                                     \
      const bool writes = task % pieces == 0;                                                   \
      if (rounded != row || writes) {                                                           \
        for (int t = 0; t < ROWS; ++t) {                                                        \
          const ulong at = (ulong)min(row + t, m - 1);                                          \
          round_row(phase->x, at * phase->x_stride, &phase->from, at, writes && row + t < m, K, \
                    &rows[t]);                                                                  \
        }                                                                                       \
        rounded = row;                                                                          \
      }                                                                                         \
      const int begin = task % pieces * phase->groups_each;                                     \
      const int end = min(begin + phase->groups_each, groups);                                  \
      for (int group = begin; group < end; ++group) {                                           \
        Bytes w = phase->weight + group * phase->group_bytes;                                   \
        SLUICE_INT8_PRODUCTS(ROWS)                                                              \
        EACH(t, ROWS)                                                                           \
        if (row + t < m)                                                                        \
          finish(acc[t], 0, phase->residual, (row + t) * phase->residual_stride, phase->out,    \
                 (row + t) * phase->out_stride, group * 16, phase->n);                          \
      }                                                                                         \
      order_memory();                                                                           \
      atomic_inc(state + 16);                                                                   \
    }                                                                                           \
    while (atomic_or(state + 16, 0) < tasks) rest();                                            \
    order_memory();                                                                             \
  }                                                                                             \
  SLUICE_KERNEL name(volatile global int* state, int m, int phases, PHASE_PARAMS(0),            \
                     PHASE_PARAMS(1), PHASE_PARAMS(2), PHASE_PARAMS(3)) {                       \
    const Phase all[PHASES] = {PHASE_OF(0), PHASE_OF(1), PHASE_OF(2), PHASE_OF(3)};             \
    for (int p = 0; p < phases; ++p) name##_phase(state + p * 32, &all[p], m);                  \
    if (atomic_inc(state + LEFT) + 1 < (int)get_num_groups(0)) return;                          \
    for (int p = 0; p < PHASES; ++p) {                                                          \
      atomic_xchg(state + p * 32, 0);                                                           \
      atomic_xchg(state + p * 32 + 16, 0);                                                      \
    }                                                                                           \
    atomic_xchg(state + LEFT, 0);                                                               \
  }

SLUICE_INT8_CHAIN(any_int8_linear_chain_1, 1)
SLUICE_INT8_CHAIN(any_int8_linear_chain_4, 4)
