// The table of architectures: what they are called, by us and in both kinds of file, and what holds
// where the file is silent. The enum stands in model_config.h. Any thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "files/model_config.h"

namespace sluice::files {

// What transformers 5.23 takes for a key that config.json does not have.
struct HfDefaults {
  int vocab, hidden, intermediate, layers, heads;
  int kv_heads = 0;  // 0: as many as heads
  int head_dim = 0;  // 0: hidden / heads
  int context;
  float norm_eps = 1e-6f;
  float rope_theta = 10000.0f;
  int window = 0;                // 0: none
  int bos_id = -1, eos_id = -1;  // -1: none
  bool tied = false;
};

struct HfName {
  std::string_view class_name;  // in "architectures"
  std::string_view model_type;
};

struct ArchitectureInfo {
  Architecture architecture;
  std::string_view name;           // ours
  std::array<HfName, 2> hf_names;  // the second may be empty
  HfDefaults hf_defaults;
  std::string_view gguf_name;  // general.architecture
  // GGUF's converter has permuted the rows of q and k, so that pairs of RoPE stand side by side.
  bool gguf_interleaved = false;
  bool qk_norm = false;
};

// One row for each value of the enum, in its order.
std::span<const ArchitectureInfo> Architectures();
const ArchitectureInfo& InfoOf(Architecture architecture);

}  // namespace sluice::files
