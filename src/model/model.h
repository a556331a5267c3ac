// A loaded model: weights on one device and the forward pass over them. Immutable but for weight
// updates (parameters()), which happen between steps. Forward may run on one stream at a time per
// workspace. The Device must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "batch/kv_group.h"
#include "files/model_config.h"
#include "model/forward.h"
#include "ops/op.h"
#include "ops/paged_kv.h"
#include "weights/place.h"

namespace sluice::model {

struct ModelOptions {
  int64_t max_tokens = 2048;     // of one step, padding included
  int64_t max_logits_rows = 64;  // of one step
  int64_t max_model_len = 0;     // positions; 0: what the model declares
  DType activation = DType::kF32;
  DType kv_dtype = DType::kF16;
  int block_tokens = 16;          // of a cache block
  int kernel_block_tokens = 16;   // of a kernel block; divides block_tokens
  int state_block_tokens = 2048;  // between snapshots of a state; a multiple of block_tokens
  int draft_tokens = 0;           // of a sequence in a step, which states can be taken back by
  bool draft_trees = false;       // these may be trees (DeviceBatch::paths)
  int mtp_heads = 0;              // so many of the checkpoint's heads, from the first, for Draft
  bool joins_hidden = false;      // an EagleHead's: Activations::joined is needed
  bool sees_behind = false;       // a token sees those behind it in its sequence, too
  // Of each layer's experts, as experts::MapShape::slots; 0: they lie in their order. Those of
  // heads always do.
  int expert_slots = 0;
  // Layers whose experts lie in the memory of the device `host`, which computes in the host's, and
  // are computed there. They ascend, and each has experts. REQUIRES: where there are some,
  // expert_slots is 0, and `host` outlives the model and is not the model's device.
  std::vector<int> host_layers = {};
  device::Device* host = nullptr;
  bool fake_balance_experts = false;  // tokens take experts in turn, whatever the router says
  weights::Progress progress;         // may be empty
  std::vector<ops::BindRecord>* records = nullptr;  // --explain-kernels; may be null
};

// What a model is built from; filled by LoadModel (load/load_model.h).
struct ModelParts {
  files::ModelConfig config;
  ModelOptions options;  // max_model_len resolved
  weights::ParameterMap parameters, host_parameters;
  device::Device* device = nullptr;
};

class Model {
 public:
  virtual ~Model() = default;

  const files::ModelConfig& config() const { return config_; }
  // With max_model_len resolved.
  const ModelOptions& options() const { return options_; }
  int vocab_size() const { return config_.vocab_size; }
  // Without num_blocks, which the memory plan sets.
  const std::vector<batch::KvGroup>& groups() const { return groups_; }
  // The group of a layer, or of the one whose KV it reads. Those of the heads come behind those of
  // the model.
  int group_of(int layer) const { return group_of_[layer]; }
  weights::ParameterMap& parameters() { return parameters_; }
  const weights::ParameterMap& parameters() const { return parameters_; }
  const weights::ParameterMap& host_parameters() const { return host_parameters_; }

  // Bytes that a forward pass of options().max_tokens needs for activations.
  virtual size_t workspace_bytes() const = 0;
  // Puts the pass on context.stream: writes the KV of every token and the outputs. The output
  // matrix runs on batch.logits_rows alone. REQUIRES: batch.tokens() <= max_tokens and batch.rows()
  // <= max_logits_rows. Zero tokens are legal and do nothing.
  virtual Status Forward(ForwardContext& context, const DeviceBatch& batch,
                         const Outputs& outputs) const = 0;
  // A pass of the head of number `head`, from 0 on, over tokens, each beside the hidden state of a
  // position before it, at which it stands: a row's logits are those of the token that comes
  // behind. The first head reads the tokens behind those of a step and what Forward gave as hidden
  // states; each further one the tokens behind these, and what the head before it gave for the same
  // positions (DraftOutputs::every); and a head that is applied again what it gave for the rows of
  // its last pass. `hidden` [tokens, hidden size] may be outputs.hidden, and not outputs.every.
  // REQUIRES: head < options().mtp_heads; as Forward.
  virtual Status Draft(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& hidden,
                       const DraftOutputs& outputs, int head = 0) const;

 protected:
  explicit Model(ModelParts parts);

  files::ModelConfig config_;
  ModelOptions options_;
  std::vector<batch::KvGroup> groups_;
  std::vector<int> group_of_;  // by layer
  weights::ParameterMap parameters_;
  weights::ParameterMap host_parameters_;  // of the experts of options_.host_layers
  device::Device& device_;
};

// Groups layers by what they keep and its shape, in order of their first layer; those that read the
// KV of others are in none. Needs no weights.
// The memory plan sets num_blocks.
std::vector<batch::KvGroup> LayerGroups(const files::ModelConfig& config,
                                        const ModelOptions& options);

// Of the longest sequence: as the options say, or else as the model declares.
int64_t Positions(const files::ModelConfig& config, const ModelOptions& options);

// What its tables of angles take on the device for options.max_model_len positions.
size_t RopeTableBytes(const files::ModelConfig& config, const ModelOptions& options);

}  // namespace sluice::model
