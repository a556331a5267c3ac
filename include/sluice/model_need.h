// What a model would take of the memory of its device, told before anything is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice {

struct ModelNeed {
  std::string model_name;  // that clients use, as EngineInfo has it
  // Bytes: of the weights, of the KV cache, and of the buffers of a step.
  int64_t weight_bytes = 0, kv_bytes = 0, step_bytes = 0;

  int64_t bytes() const { return weight_bytes + kv_bytes + step_bytes; }
};

// Reads the files of the model, and plans its memory as Engine::Open would now. Errors are those of
// Engine::Open: among them kOutOfMemory, where the device has no room for it. Any thread.
Result<ModelNeed> NeedOf(const EngineOptions& options);

}  // namespace sluice
