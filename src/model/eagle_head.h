// EagleHead: a head of EAGLE-3's form on a device, beside the model that it guesses for. One
// decoder layer, with KV of its own, over the embedding of a token and what three layers of the
// model gave for the token before it; or, applied again, what it gave for that one itself.
// Immutable; the Device and the model must outlive it, whose embedding it reads where its
// checkpoint has none. One stream at a time per workspace.
#pragma once

#include <memory>
#include <vector>

#include "files/eagle_files.h"
#include "model/layers/attention.h"
#include "model/layers/fused_linear.h"
#include "model/layers/gated_mlp.h"
#include "model/layers/norm.h"
#include "model/layers/rope_table.h"
#include "model/layers/token_embedding.h"
#include "model/model.h"
#include "weights/plan.h"

namespace sluice::model {

class EagleHead {
 public:
  // The options of a head beside a model of these: its residual stream is of the type of that
  // model's.
  static ModelOptions OptionsFor(ModelOptions of_model);
  // What Load will place, as model::PlanWeights.
  static Result<weights::WeightPlan> PlanWeights(const files::EagleFiles& files,
                                                 const device::Device& device, DType activation);
  // Loads the weights and binds every op; errors as LoadModel. REQUIRES: `plan` was made for the
  // device, for files of this config and options.activation; options are of OptionsFor.
  static Result<std::unique_ptr<EagleHead>> Load(const files::EagleConfig& config,
                                                 weights::WeightPlan plan, device::Device& device,
                                                 const ModelOptions& options, const Model& target);

  const files::EagleConfig& config() const { return config_; }
  const ModelOptions& options() const { return options_; }
  const weights::ParameterMap& parameters() const { return parameters_; }
  // One, of one layer; without num_blocks.
  const std::vector<batch::KvGroup>& groups() const { return groups_; }
  size_t workspace_bytes() const { return WorkspaceBytes(config_.layer, options_); }

  // As Model::Draft. `hidden` is Outputs::layers_hidden of a step of the model, or of a pass of its
  // own what that gave: [tokens, hidden size], before the final norm. Logits are of guesses, by
  // EagleConfig::target_ids.
  Status Draft(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& hidden,
               const DraftOutputs& outputs) const;

 private:
  EagleHead(const files::EagleConfig& config, const ModelOptions& options)
      : config_(config), options_(options), groups_(LayerGroups(config.layer, options)) {}
  Status Bind(const device::Device& device, const Model& target);

  const files::EagleConfig config_;
  const ModelOptions options_;  // max_model_len resolved
  const std::vector<batch::KvGroup> groups_;
  weights::ParameterMap parameters_;
  layers::TokenEmbedding embedding_;
  layers::RopeTable rope_;
  layers::FusedLinear join_layers_;
  ops::Bound<ops::Norm> norm_;  // into columns of Activations::joined
  ops::Tensor hidden_weight_, token_weight_;
  layers::Attention attention_;
  layers::Norm mlp_norm_;
  layers::GatedMlp mlp_;
  layers::LogitsHead logits_;
};

}  // namespace sluice::model
