// From checked files to a model on a device. Any thread; the Device must outlive the model.
#pragma once

#include <memory>
#include <vector>

#include "files/model_files.h"
#include "model/model.h"
#include "weights/manifest.h"

namespace sluice::model {

// What the files of this model must hold.
std::vector<weights::ParamSpec> Params(const files::ModelConfig& config);

// Loads the weights onto `device` and binds every op. kBadModel where the files do not fit the
// config; kOutOfMemory (before anything is allocated) where the device is too small;
// kUnimplemented where the device lacks an op for this model.
Result<std::unique_ptr<Model>> LoadModel(const files::ModelFiles& files, device::Device& device,
                                         const ModelOptions& options);
// Bytes that the weights of LoadModel will take; reads no weight bytes.
Result<size_t> WeightBytes(const files::ModelFiles& files, device::Device& device,
                           const ModelOptions& options);

// How LoadModel will bind the ops that take scratch memory (linears and attention); reads no weight
// bytes. kUnimplemented as LoadModel.
Result<std::vector<ops::BindRecord>> ScratchBindings(const files::ModelFiles& files,
                                                     device::Device& device,
                                                     const ModelOptions& options);

}  // namespace sluice::model
