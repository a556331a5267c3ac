#include "model/layers/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/rope_kv.h"

namespace sluice::model::layers {
namespace {

using files::RopeConfig;
using files::RopeScaling;

constexpr double kTwoPi = 2.0 * std::numbers::pi;

std::vector<double> PlainFrequencies(double theta, int dims) {
  std::vector<double> inverse(static_cast<size_t>(dims / 2));
  for (size_t i = 0; i < inverse.size(); ++i) {
    inverse[i] = 1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / dims);
  }
  return inverse;
}

// Published as "dynamic NTK" by /u/emozilla; the formula of transformers.
double DynamicNtkTheta(const RopeConfig& rope, int64_t length) {
  if (length <= rope.original_context || rope.rotary_dims <= 2) return rope.theta;
  const double factor = rope.factor;
  const double stretch =
      factor * static_cast<double>(length) / rope.original_context - (factor - 1.0);
  return rope.theta * std::pow(stretch, rope.rotary_dims / (rope.rotary_dims - 2.0));
}

// "YaRN: Efficient Context Window Extension of Large Language Models", section 3.
void ApplyYarn(const RopeConfig& rope, std::vector<double>* inverse) {
  const int dims = rope.rotary_dims;
  auto pair_of = [&](double rotations) {
    return dims * std::log(rope.original_context / (rotations * kTwoPi)) /
           (2.0 * std::log(static_cast<double>(rope.theta)));
  };
  double low = pair_of(rope.beta_fast), high = pair_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inverse->size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    double& f = (*inverse)[i];
    f = f / rope.factor * interpolated + f * (1.0 - interpolated);
  }
}

double YarnScale(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  auto magnitude = [&](double scale) {
    return rope.factor <= 1.0f ? 1.0 : 0.1 * scale * std::log(double{rope.factor}) + 1.0;
  };
  if (rope.mscale.value_or(0.0f) != 0.0f && rope.mscale_all_dim.value_or(0.0f) != 0.0f) {
    return magnitude(*rope.mscale) / magnitude(*rope.mscale_all_dim);
  }
  return magnitude(1.0);
}

// Gemma 4: the first pairs turn, the others don't.
void ApplyProportional(const RopeConfig& rope, std::vector<double>* inverse) {
  const auto turning = static_cast<size_t>(double{rope.portion} * rope.rotary_dims / 2.0);
  for (size_t i = 0; i < inverse->size(); ++i)
    (*inverse)[i] = i < turning ? (*inverse)[i] / rope.factor : 0.0;
}

// Llama 3.1: long waves are slowed by the factor, short ones kept, those between blended.
void ApplyLlama3(const RopeConfig& rope, std::vector<double>* inverse) {
  const double low_wave = rope.original_context / static_cast<double>(rope.low_freq_factor);
  const double high_wave = rope.original_context / static_cast<double>(rope.high_freq_factor);
  for (double& f : *inverse) {
    const double wave = kTwoPi / f;
    if (wave < high_wave) continue;
    if (wave > low_wave) {
      f /= rope.factor;
      continue;
    }
    const double smooth = (rope.original_context / wave - rope.low_freq_factor) /
                          (rope.high_freq_factor - rope.low_freq_factor);
    f = (1.0 - smooth) * f / rope.factor + smooth * f;
  }
}

void Divide(const std::vector<float>& factors, std::vector<double>* inverse) {
  for (size_t i = 0; i < inverse->size(); ++i) (*inverse)[i] /= factors[i];
}

double LongRopeScale(const RopeConfig& rope, int context_length) {
  if (rope.attention_factor) return *rope.attention_factor;
  const double factor = rope.factor > 1.0f
                            ? rope.factor
                            : static_cast<double>(context_length) / rope.original_context;
  if (factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(factor) / std::log(rope.original_context));
}

}  // namespace

RopeFrequencies ComputeRopeFrequencies(const RopeConfig& rope, int context_length,
                                       int64_t max_model_len) {
  RopeFrequencies out;
  const bool dynamic = rope.scaling == RopeScaling::kDynamicNtk;
  out.inverse = PlainFrequencies(dynamic ? DynamicNtkTheta(rope, max_model_len) : rope.theta,
                                 rope.rotary_dims);
  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamicNtk:
      break;
    case RopeScaling::kLinear:
      for (double& f : out.inverse) f /= rope.factor;
      break;
    case RopeScaling::kYarn:
      ApplyYarn(rope, &out.inverse);
      out.scale = YarnScale(rope);
      break;
    case RopeScaling::kProportional:
      ApplyProportional(rope, &out.inverse);
      break;
    case RopeScaling::kLlama3:
      ApplyLlama3(rope, &out.inverse);
      break;
    case RopeScaling::kLongRope:
      Divide(max_model_len > rope.original_context ? rope.long_factor : rope.short_factor,
             &out.inverse);
      out.scale = LongRopeScale(rope, context_length);
      break;
  }
  if (!rope.frequency_factors.empty()) Divide(rope.frequency_factors, &out.inverse);
  return out;
}

Result<RopeTable> RopeTable::Make(device::Device& device, const RopeFrequencies& frequencies,
                                  int64_t positions) {
  const int64_t width = 2 * static_cast<int64_t>(frequencies.inverse.size());
  const size_t bytes = static_cast<size_t>(positions * width) * sizeof(float);
  RopeTable table;
  SLUICE_ASSIGN_OR_RETURN(table.buffer_, device.Allocate(bytes, device::MemoryKind::kDevice));
  table.tensor_ = ops::Dense(table.buffer_.view(), DType::kF32, {positions, width});
  if (!device.facts().device_memory) {
    ops::FillRopeTable(frequencies.inverse, frequencies.scale, positions,
                       table.tensor_.ptr<float>());
    return table;
  }
  SLUICE_ASSIGN_OR_RETURN(device::Buffer staging,
                          device.Allocate(bytes, device::MemoryKind::kHost));
  ops::FillRopeTable(frequencies.inverse, frequencies.scale, positions,
                     reinterpret_cast<float*>(staging.data()));
  SLUICE_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  const device::CopyItem item{table.buffer_.view(), staging.view()};
  SLUICE_RETURN_IF_ERROR(device.Copy(*stream, {&item, 1}));
  SLUICE_RETURN_IF_ERROR(stream->Synchronize());
  return table;
}

Result<RopeTables> RopeTables::Make(const files::ModelConfig& config, const ModelOptions& options,
                                    device::Device& device) {
  const int64_t positions = options.max_model_len;
  const auto table = [&](const files::RopeConfig& rope) {
    return RopeTable::Make(device, ComputeRopeFrequencies(rope, config.context_length, positions),
                           positions);
  };
  RopeTables tables;
  const bool any = std::any_of(config.layers.begin(), config.layers.end(),
                               [](const files::LayerConfig& layer) { return layer.use_rope; });
  if (!any) return tables;
  SLUICE_ASSIGN_OR_RETURN(tables.model, table(config.rope));
  const bool local = std::any_of(config.layers.begin(), config.layers.end(),
                                 [](const files::LayerConfig& layer) { return layer.local_rope; });
  if (local) {
    SLUICE_ASSIGN_OR_RETURN(tables.local, table(config.local_rope));
  }
  return tables;
}

ops::Tensor RopeTables::Of(const files::LayerConfig& layer) const {
  if (!layer.use_rope) return {};
  return layer.local_rope ? local.tensor() : model.tensor();
}

}  // namespace sluice::model::layers
