// EagleHead: a head of EAGLE's or DFlash's form on a device, beside the model that it guesses for.
// Layers with KV of their own, over the embedding of a token and what the model gave for the token
// before it, in the way of files::EagleForm; or, applied again, what the head gave for that one
// itself. Immutable; the Device and the model must outlive it, whose embedding it reads where its
// checkpoint has none, and of the first form also its final norm and output matrix. One stream at a
// time per workspace.
#pragma once

#include <memory>
#include <vector>

#include "files/eagle_files.h"
#include "model/layers/activations.h"
#include "model/layers/attention.h"
#include "model/layers/fused_linear.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/layers/rope_table.h"
#include "model/layers/token_embedding.h"
#include "model/model.h"
#include "weights/plan.h"

namespace sluice::model {

class EagleHead {
 public:
  // Whose hidden states a pass reads. Of the parallel form, behind what the model has given, those
  // that stand for all that are not known; of DFlash's form there a block reads tokens alone.
  enum class Of { kModel, kItself, kMask, kBlock };

  // The options of a head beside a model of these. One of the third form works in the type of that
  // model's residual stream.
  static ModelOptions OptionsFor(ModelOptions of_model, files::EagleForm form);
  // Device memory that Load takes beside the weights and the tables of angles.
  static size_t DeviceBytes(const files::EagleConfig& config, const ModelOptions& options);
  // What Load will place, as model::PlanWeights.
  static Result<weights::WeightPlan> PlanWeights(const files::EagleFiles& files,
                                                 const device::Device& device, DType activation);
  // Loads the weights and binds every op; errors as LoadModel. REQUIRES: `plan` was made for the
  // device, for files of this config and options.activation; options are of OptionsFor; the model
  // has the vocabulary and the width of hidden states that the config says, and one of the first
  // form generates and does not scale its logits.
  static Result<std::unique_ptr<EagleHead>> Load(const files::EagleConfig& config,
                                                 weights::WeightPlan plan, device::Device& device,
                                                 const ModelOptions& options, const Model& target);

  const files::EagleConfig& config() const { return config_; }
  const ModelOptions& options() const { return options_; }
  const weights::ParameterMap& parameters() const { return parameters_; }
  // One, of all layers; without num_blocks.
  const std::vector<batch::KvGroup>& groups() const { return groups_; }
  size_t workspace_bytes() const { return layers::Activations::Bytes(config_.layer, options_); }

  // As Model::Draft. `hidden` is of a step of the model, Outputs::hidden of it for the first form
  // and Outputs::layers_hidden for the third; or what an earlier pass gave: [tokens, hidden size]
  // of the residual stream's type, before a final norm; empty of kMask, where token ids are the
  // mask token's. A head that norms it does so in place. Logits are of guesses, by
  // EagleConfig::target_ids.
  //
  // Of DFlash's form a pass kModel keeps K and V alone, at the positions of the step's tokens, and
  // has no rows. In one of kBlock each sequence has equally many tokens, a block, and all see one
  // another; `hidden` is I32 [sequences], the token that each begins with, whatever its id says;
  // or empty, where the ids say it.
  Status Draft(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& hidden, Of of,
               const DraftOutputs& outputs) const;

 private:
  struct Layer {
    layers::Norm input_norm;  // unbound: attention reads Activations::joined
    layers::Attention attention;
    layers::Norm mlp_norm;
    layers::Mlp mlp;
  };

  EagleHead(const files::EagleConfig& config, const ModelOptions& options)
      : config_(config), options_(options), groups_(LayerGroups(config.layer, options)) {}
  // Of EAGLE-3's form, or of the parallel one.
  bool third() const {
    return files::ReadsLayers(config_.form) && !files::UsesModelsOutput(config_.form);
  }
  Status Bind(const device::Device& device, const Model& target);
  // What is read by the first form, and by the third.
  Status BindFirst(const layers::Binder& binder, const device::Device& device, const Model& target);
  Status BindThird(const layers::Binder& binder);
  Status BindDiffusion(const layers::Binder& binder, const device::Device& device,
                       const Model& target);
  // Draft of DFlash's form, of the model's and of a block.
  Status ReadModel(ForwardContext& context, const DeviceBatch& batch,
                   const ops::Tensor& hidden) const;
  Status DraftBlock(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& begin,
                    const DraftOutputs& outputs) const;
  // What of the parallel form is the same in every pass.
  Status MakeMask(const layers::Binder& binder, device::Device& device);
  // In place.
  Status NormRead(device::Stream& stream, const ops::Tensor& hidden) const;
  // Puts the tokens beside `hidden`, as the first layer reads them; gives what it adds to.
  Result<ops::Tensor> Join(device::Stream& stream, const DeviceBatch& batch,
                           const ops::Tensor& hidden, Of of, const layers::Activations& a) const;
  struct Mask {
    ops::Tensor states;  // [1, hidden]: what stands for hidden states, joined
    ops::Tensor rows;    // I32 [tokens], zeros: by which every token reads them
  };
  static size_t Carve(const device::View& view, const files::EagleConfig& config,
                      const ModelOptions& options, Mask* mask);

  const files::EagleConfig config_;
  const ModelOptions options_;  // max_model_len resolved
  const std::vector<batch::KvGroup> groups_;
  weights::ParameterMap parameters_;
  layers::TokenEmbedding embedding_;
  layers::RopeTable rope_;
  layers::FusedLinear join_;
  // Into columns of Activations::joined; those of the first form copy, but for the model's.
  layers::Norm token_norm_, hidden_norm_;
  layers::Norm model_norm_;   // unbound: the third form
  layers::Norm states_norm_;  // of what the model's norm gave; unbound: nothing norms that again
  layers::Norm copy_;         // of those that read layers; norms nothing
  ops::Bound<ops::Norm> read_norm_;
  std::vector<ops::Tensor> read_norms_;  // its weights, of columns side by side; may be empty
  layers::Norm output_norm_;             // in place; unbound where nothing is normed again
  layers::Norm joined_norm_;             // of DFlash's form alone
  DType output_reads_ = DType::kF32;     // of that form, whose output matrix is the model's
  std::vector<Layer> layers_;
  layers::LogitsHead logits_;
  device::Buffer mask_memory_;
  Mask mask_;  // in mask_memory_; of the parallel form alone
  ops::Bound<ops::GatherRows> gather_;
};

}  // namespace sluice::model
