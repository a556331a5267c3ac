// ActivationDump: writes what chosen layers gave in chosen steps to files, for those who write
// kernels and look for the layer where two programs part. One thread.
//
// A step's file is FOLDER/step-000007.safetensors, steps counted from 0 since the start. It has
// token_ids, positions and sequences (I32 [tokens], the last a number that the tokens of a sequence
// share), and layers.N.hidden ([tokens, hidden size], in the type of the residual stream), what the
// stream holds behind layer N.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "batch/plan.h"
#include "device/device.h"
#include "files/model_config.h"
#include "ops/tensor.h"
#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice::exec {

// What EngineOptions::dump_activations asks for: FOLDER:LAYERS:STEPS, layers as "0,5,11", steps as
// "3" or "0-3".
struct DumpWanted {
  std::string folder;
  std::vector<int> layers;  // ascending
  int64_t first_step = 0, last_step = 0;

  int64_t steps() const { return last_step - first_step + 1; }
};

// kInvalidArgument with the field dump-activations. REQUIRES: `text` is not empty.
Result<DumpWanted> ParseDump(const std::string& text);

// Of all files together, at most.
inline constexpr int64_t kDumpBytesMax = int64_t{1} << 30;

// Whether the model has these layers, the files stay below kDumpBytesMax, and nothing else in
// `options` needs the same outputs of the model: kInvalidArgument or kUnimplemented.
Status CheckDump(const DumpWanted& wanted, const files::ModelConfig& config,
                 const EngineOptions& options);

class ActivationDump {
 public:
  // Tries the folder, which must exist. `device` must outlive it.
  static Result<std::unique_ptr<ActivationDump>> Make(device::Device& device, DumpWanted wanted);

  const std::vector<int>& layers() const { return wanted_.layers; }
  // Of a step that is done: `hidden` is [tokens, layers * hidden size] on the device. Writes the
  // step's file if it is a chosen one; an error is logged, and nothing more is written.
  void Take(device::Stream& stream, const batch::BatchPlan& plan, const ops::Tensor& hidden);

 private:
  ActivationDump(device::Device& device, DumpWanted wanted)
      : device_(device), wanted_(std::move(wanted)) {}
  Status Write(device::Stream& stream, const batch::BatchPlan& plan, const ops::Tensor& hidden);

  device::Device& device_;
  const DumpWanted wanted_;
  device::Buffer staging_;
  int64_t steps_ = 0;  // that it was given
  bool failed_ = false;
};

}  // namespace sluice::exec
