#include "backend/xpu/pieces/element.cl"
// Choices of experts in perfect balance, a work-item each. -D ITEMS.
SLUICE_KERNEL any_fake_balance_experts(global int* ids, ulong ids_stride, global float* weights,
                                       ulong weights_stride, int tokens, int experts, int top_k) {
  const long choice = get_global_id(0);
  const long token = choice / top_k, i = choice % top_k;
  if (token >= tokens) return;
  ids[token * ids_stride + i] = (int)(choice % experts);
  weights[token * weights_stride + i] = 1.0f / (float)top_k;
}
