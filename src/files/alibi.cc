#include "files/alibi.h"

#include <cmath>

namespace sluice::files {

std::vector<float> AlibiSlopes(int heads, float bias_max) {
  int power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<float> slopes;
  for (int head = 0; head < power; ++head) {
    slopes.push_back(static_cast<float>(std::exp2(-double{bias_max} * (head + 1) / power)));
  }
  for (int head = 0; power + head < heads; ++head) {
    slopes.push_back(
        static_cast<float>(std::exp2(-double{bias_max} * (2 * head + 1) / (2 * power))));
  }
  return slopes;
}

void UseAlibi(float bias_max, float factor, ModelConfig* config) {
  config->alibi_slopes = AlibiSlopes(config->num_heads, bias_max);
  for (float& slope : config->alibi_slopes) slope *= factor;
  for (LayerConfig& layer : config->layers) layer.use_rope = false;
}

}  // namespace sluice::files
