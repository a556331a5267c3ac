// What a figure of speed has to read and to multiply at least, and the share of a device's ceilings
// that it reaches. Pure arithmetic; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "files/model_files.h"

namespace sluice::cli {

struct ModelWork {
  double weight_bytes = 0;   // read by a step of decoding: all but the rows of an embedding table
  double layer_macs = 0;     // multiply-adds per token in the matrices of the layers
  double output_macs = 0;    // per row of logits
  double pair_macs = 0;      // per layer, for one query and one key and value
  double kv_bytes = 0;       // of one token in one layer
  std::vector<int> windows;  // by layer with K and V: how many tokens it sees; 0: all
  // Of an indexer, which scores all tokens before the layer sees `windows` of them: as pair_macs
  // and kv_bytes.
  double index_macs = 0, index_bytes = 0;
  double state_macs = 0;   // of all layers with a state instead, per token
  double state_bytes = 0;  // that they read and write for one token of a sequence
};

// Bytes of the K, or of the V, of one token in one KV head: formats of codes keep a scale with it.
int64_t KvHeadBytes(DType dtype, int head_dim);

// Of one token in a layer with attention.
int64_t KvTokenBytes(const files::ModelConfig& config, DType dtype,
                     const files::LayerConfig& layer = {});

// `kv_token_bytes`: as KvTokenBytes. Of a model with experts weight_bytes has all of them, and the
// products of layers count as if there were none.
ModelWork WorkOf(const files::ModelConfig& config, const files::TensorSource& tensors,
                 int64_t kv_token_bytes);

// The number format of most weight bytes in the layers, whose kernel is the one that prefill stands
// on.
DType LayerFormat(const files::ModelConfig& config, const files::TensorSource& tensors);

// Multiply-adds of prefilling `tokens` from an empty cache, one row of logits included.
double PrefillMacs(const ModelWork& work, int tokens);
// Bytes that are read in one step in which `batch` sequences decode, each with `context` tokens in
// the cache, the new one's own included.
double DecodeBytes(const ModelWork& work, double context, int batch);

// Decoding begins with `context` tokens in the cache and is timed for `output` more: the mean.
inline double MeanContext(int context, int output) {
  return (context > 0 ? context : 1) + (output + 1) / 2.0;
}

// The share of `ceiling` per second that `need` per `seconds` is; 0 where there is no ceiling.
inline double ShareOfCeiling(double need, double seconds, double ceiling) {
  return ceiling > 0 && seconds > 0 ? need / seconds / ceiling : 0;
}

}  // namespace sluice::cli
