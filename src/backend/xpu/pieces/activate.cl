#include "backend/xpu/pieces/base.cl"
// -D KIND: 0 SiLU, 1 GELU by tanh, 2 GELU by erf, 3 squared ReLU, 4 the clamped SwiGLU of a gate.
#ifdef KIND
// Without the cancellation of 1 + tanh and 1 + erf near -1.
#define SLUICE_ACTIVATE(T, name)                                                       \
  T name(T x) {                                                                        \
    if (KIND == 0) return x / (1.0f + exp(-x));                                        \
    if (KIND == 1)                                                                     \
      return x / (1.0f + exp(-1.59576912160573071176f * (x + 0.044715f * x * x * x))); \
    if (KIND == 2) return 0.5f * x * erfc(-x * 0.70710678118654752440f);               \
    return x < 0.0f ? (T)(0.0f) : x * x;                                               \
  }
SLUICE_ACTIVATE(float, activate)
SLUICE_ACTIVATE(float16, activate16)

// Of a gate and the other half. The comparisons let NaN through.
#define SLUICE_ACTIVATE_GATE(T, name, activate)               \
  T name(T gate, T up) {                                      \
    if (KIND != 4) return activate(gate) * up;                \
    const T limit = (T)(7.0f);                                \
    gate = gate > limit ? limit : gate;                       \
    up = up > limit ? limit : up < -limit ? -limit : up;      \
    return gate / (1.0f + exp(-1.702f * gate)) * (up + 1.0f); \
  }
SLUICE_ACTIVATE_GATE(float, activate_gate, activate)
SLUICE_ACTIVATE_GATE(float16, activate_gate16, activate16)
#endif
