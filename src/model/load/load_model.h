// From checked files to a model on a device, in two steps: planned, then placed. Any thread; the
// Device must outlive the model.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "files/model_files.h"
#include "model/model.h"
#include "weights/manifest.h"

namespace sluice::model {

// What the files of this model must hold; with `mtp_heads` also for ModelOptions::mtp_heads, and
// with ModelOptions::expert_slots.
std::vector<weights::ParamSpec> Params(const files::ModelConfig& config, int mtp_heads = 0,
                                       int expert_slots = 0);

// What LoadModel will place; reads no weight bytes. The files must outlive it. kBadModel where they
// do not fit the config; kUnimplemented where the device lacks a Linear for them. Without the
// experts of ModelOptions::host_layers, which PlanHostExperts has.
Result<weights::WeightPlan> PlanWeights(const files::ModelFiles& files,
                                        const device::Device& device, DType activation,
                                        int mtp_heads = 0, int expert_slots = 0,
                                        std::span<const int> host_layers = {});

// Likewise what LoadModel will place on ModelOptions::host. REQUIRES: `host_layers` ascend.
Result<weights::WeightPlan> PlanHostExperts(const files::ModelFiles& files,
                                            const device::Device& host,
                                            std::span<const int> host_layers);

// How LoadModel will bind the ops that take scratch memory: the plan's linears, and attention.
// kUnimplemented as LoadModel.
Result<std::vector<ops::BindRecord>> ScratchBindings(const weights::WeightPlan& plan,
                                                     const files::ModelConfig& config,
                                                     const device::Device& device,
                                                     const ModelOptions& options);

// Whether all attention of the model takes drafts that are trees, as ModelOptions::draft_trees
// says.
bool TakesDraftTrees(const files::ModelConfig& config, const device::Device& device,
                     const ModelOptions& options);

// Model::workspace_bytes() of a model that is not loaded yet, and what it takes on its device
// beside that where layers have their experts on the host.
size_t WorkspaceBytes(const files::ModelConfig& config, const ModelOptions& options);
size_t HostExpertBytes(const ModelOptions& options);
// What steps take of the host there, beside the weights of these experts. REQUIRES: options.host is
// set where there are such layers.
size_t HostExpertBuffers(const files::ModelConfig& config, const ModelOptions& options);

// Loads the weights onto `device` and binds every op. kOutOfMemory (before anything is allocated)
// where the device is too small; kUnimplemented where the device lacks an op for this model.
// REQUIRES: the plan was made for the device, for files of this config, options.activation,
// options.mtp_heads, options.expert_slots and options.host_layers; `host_plan` is there where there
// are such layers, and made for these and options.host.
Result<std::unique_ptr<Model>> LoadModel(const files::ModelConfig& config, weights::WeightPlan plan,
                                         device::Device& device, const ModelOptions& options,
                                         std::optional<weights::WeightPlan> host_plan = {});

}  // namespace sluice::model
