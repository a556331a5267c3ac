// What Gemma 3n's config.json says in words of its own. Pure.
#pragma once

#include "files/json_fields.h"
#include "files/model_config.h"

namespace sluice::files {

// Residual streams, Laurel, widths and sparse gates of feed-forward parts, what layers are given of
// a token, and whose KV they read. REQUIRES: `config` has the layers, sizes and RoPE.
Status ReadHfGemma3n(const JsonFields& fields, ModelConfig* config);

// How many standard deviations above its mean a normal distribution has the share `below`, between
// 0 and 1, of it below.
double NormalQuantile(double below);

}  // namespace sluice::files
