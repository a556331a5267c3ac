#include "backend/xpu/pieces/element.cl"
// The experts of a token, a work-item each. -D ITEMS, EXPERTS: the most that there is room for,
// SCORING: RouterScoring of ops/experts.h.
#define SIGMOID (SCORING == 1)
#define BIASED_SOFTMAX (SCORING == 2)

// The index of the largest key that is not taken yet, of equals the first.
int best_of(const float* keys, const uchar* taken, int count) {
  int best = -1;
  for (int i = 0; i < count; ++i) {
    if (!taken[i] && (best < 0 || keys[i] > keys[best])) best = i;
  }
  return best;
}

// The sum of the two largest of `keys`, or the largest alone: with a softmax, or of one.
float group_key(const float* keys, int count) {
  float first = -INFINITY, second = -INFINITY;
  for (int i = 0; i < count; ++i) {
    if (keys[i] > first) {
      second = first;
      first = keys[i];
    } else if (keys[i] > second) {
      second = keys[i];
    }
  }
  return count > 1 && SIGMOID ? first + second : first;
}

// Work-group (ITEMS tokens).
SLUICE_KERNEL any_f32_route_experts(global const float* logits, ulong logits_stride,
                                    global const float* bias, global int* ids, ulong ids_stride,
                                    global float* weights, ulong weights_stride, int tokens,
                                    int experts, int top_k, int groups, int groups_kept,
                                    int renormalize, float scale, global const float* scales) {
  const int token = get_global_id(0);
  if (token >= tokens) return;
  logits += token * logits_stride;
  ids += token * ids_stride;
  weights += token * weights_stride;
  float keys[EXPERTS], group_keys[EXPERTS];
  uchar taken[EXPERTS];
  float largest = -INFINITY, sum = 0.0f;
  if (!SIGMOID) {
    for (int e = 0; e < experts; ++e) largest = fmax(largest, logits[e]);
    for (int e = 0; e < experts; ++e) sum += exp(logits[e] - largest);
  }
  for (int e = 0; e < experts; ++e) {
    const float logit = logits[e];
    const float score = SIGMOID          ? 1.0f / (1.0f + exp(-logit))
                        : BIASED_SOFTMAX ? exp(logit - largest) / sum
                                         : logit;
    const float key = bias != 0 ? score + bias[e] : score;
    keys[e] = isnan(key) ? -INFINITY : key;
    taken[e] = groups > 1;
  }
  if (groups > 1) {
    const int size = experts / groups;
    uchar kept[EXPERTS];
    for (int g = 0; g < groups; ++g) {
      group_keys[g] = group_key(keys + g * size, size);
      kept[g] = 0;
    }
    for (int i = 0; i < groups_kept; ++i) {
      const int g = best_of(group_keys, kept, groups);
      kept[g] = 1;
      for (int e = g * size; e < (g + 1) * size; ++e) taken[e] = 0;
    }
  }
  float of_taken = 0.0f;
  for (int i = 0; i < top_k; ++i) {
    const int e = best_of(keys, taken, experts);
    taken[e] = 1;
    const float logit = logits[e];
    const float score = SIGMOID ? 1.0f / (1.0f + exp(-logit)) : exp(logit - largest) / sum;
    ids[i] = e;
    weights[i] = score;
    of_taken += score;
  }
  const float divisor = renormalize ? of_taken + 1e-20f : 1.0f;
  for (int i = 0; i < top_k; ++i) {
    weights[i] = weights[i] / divisor * scale;
    if (scales != 0) weights[i] *= scales[ids[i]];
  }
}
