#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
// The rows of a token's experts times its weights, which become 1. -D ITEMS, ACT: type of x.
// Work-group (choice, token): the weight is read by all before one of them replaces it.
SLUICE_KERNEL any_f32_scale_experts(BytesOut x, ulong x_stride, global float* weights,
                                    ulong weights_stride, global const int* places,
                                    ulong places_stride, int width) {
  const ulong choice = get_group_id(0), token = get_group_id(1);
  weights += token * weights_stride + choice;
  const float weight = *weights;
  const ulong row = (ulong)places[token * places_stride + choice] * x_stride;
  for (int i = get_local_id(0); i < width; i += ITEMS)
    store_act(x, row + i, load_act(x, row + i) * weight);
  group_barrier();
  if (get_local_id(0) == 0) *weights = 1.0f;
}
