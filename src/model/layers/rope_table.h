// The rotation of every position, made once per load. All scalings of RoPE end here as one inverse
// frequency per pair and one factor on cos and sin.
//
// Two scalings depend on the length of the sequence in their reference implementation
// (transformers): dynamic NTK changes the base, LongRoPE picks its short or long factors, and both
// then rotate old and new keys differently. Here the choice is made once, from max_model_len: past
// the original context the model's long form is used for every sequence, otherwise the short form.
// So a row never depends on how long its sequence will become, and a sequence within the original
// context agrees with transformers when max_model_len does not exceed it.
#pragma once

#include <vector>

#include "device/device.h"
#include "files/model_config.h"
#include "model/model.h"
#include "ops/tensor.h"

namespace sluice::model::layers {

struct RopeFrequencies {
  std::vector<double> inverse;  // rotary_dims / 2, radians per position
  double scale = 1.0;           // of cos and sin
};

// `context_length`: what the model declares; `max_model_len`: positions that will be used.
RopeFrequencies ComputeRopeFrequencies(const files::RopeConfig& rope, int context_length,
                                       int64_t max_model_len);

// F32 [positions, rotary_dims] on the device.
class RopeTable {
 public:
  static Result<RopeTable> Make(device::Device& device, const RopeFrequencies& frequencies,
                                int64_t positions);
  const ops::Tensor& tensor() const { return tensor_; }

 private:
  device::Buffer buffer_;
  ops::Tensor tensor_;
};

// Those of a model, of which the second is for layers with local_rope; empty where no layer has
// any.
struct RopeTables {
  // For the positions of options.max_model_len.
  static Result<RopeTables> Make(const files::ModelConfig& config, const ModelOptions& options,
                                 device::Device& device);
  // Empty where the layer does not rotate.
  ops::Tensor Of(const files::LayerConfig& layer) const;

  RopeTable model, local;
};

}  // namespace sluice::model::layers
