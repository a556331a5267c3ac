// Runtime: a device, a model on it, its KV memory and the executor over them, opened from the
// options of an engine. The engine's only view of everything below. Open and close on one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"
#include "exec/executor.h"
#include "exec/memory_plan.h"
#include "files/model_files.h"
#include "sluice/options.h"

namespace sluice::exec {

class Runtime {
 public:
  // `progress(done, total)`: bytes of weights; may be empty.
  static Result<std::unique_ptr<Runtime>> Open(const files::ModelFiles& files,
                                               const EngineOptions& options,
                                               std::function<void(int64_t, int64_t)> progress);

  // What the weights would take of the memory of `device`; nothing is loaded.
  static Result<size_t> WeightBytesOn(device::Device& device, const files::ModelFiles& files);

  // The backends in this program, as --device names them.
  static std::vector<std::string> Backends();

  Executor& executor() { return *executor_; }
  const model::Model& model() const { return *model_; }
  const device::DeviceFacts& facts() const { return device_->facts(); }
  const MemoryPlan& memory() const { return memory_; }
  size_t weight_bytes() const { return model_->parameters().bytes(); }
  DType kv_dtype() const { return memory_.groups.front().dtype; }
  const std::string& device_reason() const { return device_reason_; }
  // Which implementation each op got and why the better ones declined, in the order of binding.
  const std::vector<ops::BindRecord>& bindings() const { return bindings_; }

 private:
  Runtime() = default;

  // In the order in which they depend on one another.
  std::unique_ptr<device::Device> device_;
  std::vector<ops::BindRecord> bindings_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<kvstore::KvStore> store_;
  std::unique_ptr<Executor> executor_;
  MemoryPlan memory_;
  std::string device_reason_;
};

}  // namespace sluice::exec
