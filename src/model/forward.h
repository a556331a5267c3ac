// What one forward pass reads and writes. exec fills a DeviceBatch for each step; its tensors are
// views of device memory that exec owns and keeps alive until the stream has passed the forward.
// Used by one thread at a time.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"

namespace sluice::model {

// The KV addresses of a step in one layer group (Model::groups()).
struct GroupInputs {
  // I32 [tokens]: kernel_block * kernel_block_tokens + offset where the token's K and V go; -1:
  // not written (padding). Of a group of states -1 throughout: its layers find their block by the
  // table and the context.
  ops::Tensor slots;
  // I32 [sequences, blocks_max]: kernel-block ids by position; -1 where a window layer or a state
  // dropped it.
  ops::Tensor block_table;
};

// Tokens of all sequences of a step, packed; sequence s owns rows [query_start[s],
// query_start[s + 1]). Rows past query_start[sequences] are padding: token 0, position 0, slot -1.
struct DeviceBatch {
  ops::Tensor token_ids;            // I32 [tokens]
  ops::Tensor positions;            // I32 [tokens], each below ModelOptions::max_model_len
  ops::Tensor query_start;          // I32 [sequences + 1]
  ops::Tensor context;              // I32 [sequences]: KV tokens, this step's own included
  ops::Tensor logits_rows;          // I32 [rows]: which tokens need logits; may have no rows
  ops::Tensor token_types;          // I32 [tokens]; empty where the model has no types
  ops::Tensor paths;                // ops::Attention::Args::paths; may be empty
  std::vector<GroupInputs> groups;  // one per layer group

  int64_t tokens() const { return token_ids.dims[0]; }
  int64_t sequences() const { return context.dims[0]; }
  int64_t rows() const { return logits_rows.empty() ? 0 : logits_rows.dims[0]; }
};

// What a call wants of a forward pass, and where it goes.
struct Outputs {
  ops::Tensor logits;  // F32 [rows, vocabulary] of DeviceBatch::logits_rows; may be empty for none
  // [tokens, hidden size] of the residual stream's type: hidden states of all tokens before the
  // final norm; may be empty.
  ops::Tensor hidden = {};
  // [tokens, layers * hidden size] of the same type: hidden states behind each of `layers`, which
  // ascend, side by side. REQUIRES: the blocks of those layers add to the residual stream by
  // themselves (no norm stands behind them).
  ops::Tensor layers_hidden = {};
  std::span<const int> layers = {};
  // F32 [sequences, ModelConfig::vector_size()] of a model that embeds: of each sequence the vector
  // of its tokens in the batch.
  ops::Tensor vectors = {};
};

// What a pass of the head that guesses tokens gives; both are empty where the batch has no rows.
struct DraftOutputs {
  ops::Tensor logits;  // F32 [rows, vocabulary]
  ops::Tensor hidden;  // [rows, hidden size] of the activation type, behind the head's final norm
  ops::Tensor every;   // [tokens, hidden size], the same of every token; may be empty
};

// Told after each layer's KV write was put on the stream, layers in ascending order. An error ends
// the forward pass and becomes its result.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual Status LayerWritten(int layer, int group) = 0;
};

// What a forward pass runs with, the same from step to step.
struct ForwardContext {
  device::Stream* stream = nullptr;
  device::View workspace;            // >= Model::workspace_bytes(); at device::kAlignment
  std::span<const ops::PagedKv> kv;  // by layer
  // By group, I32: memory for Attention::Args::plan of the most sequences; may be empty.
  std::span<const ops::Tensor> attention_plans;
  // I32 [layers with experts, experts]: grows by the choices of each layer's tokens, modulo 2^32;
  // empty: nobody counts them.
  ops::Tensor expert_counts = {};
  // Of a model with ModelOptions::expert_slots: I32 [layers with experts, numbers of a map], as
  // ops::MapExperts reads it; and I32 [layers with experts, slots], which grows by the choices that
  // went to each slot, or empty.
  ops::Tensor expert_maps = {}, expert_slot_counts = {};
  LayerObserver* observer = nullptr;  // may be null
};

}  // namespace sluice::model
