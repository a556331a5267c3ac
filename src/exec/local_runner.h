// LocalRunner: the runner of one device in this process: the device, a model on it, its KV memory
// and the executor over them. Opens and closes on one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/backend.h"
#include "exec/draft_files.h"
#include "exec/executor.h"
#include "exec/plan_target.h"
#include "exec/step_runner.h"
#include "files/model_files.h"
#include "sluice/options.h"

namespace sluice::exec {

class LocalRunner : public StepRunner {
 public:
  // As OpenRunner.
  static Result<std::unique_ptr<LocalRunner>> Open(const files::ModelFiles& files,
                                                   const DraftFiles& draft,
                                                   const EngineOptions& options,
                                                   std::function<void(int64_t, int64_t)> progress);

  // As PlanRunner.
  static Result<MemoryPlan> Plan(const files::ModelFiles& files, const DraftFiles& draft,
                                 const EngineOptions& options);

  const RunnerInfo& Info() const override { return info_; }
  RunnerTotals Totals() const override { return executor_->Totals(); }
  uint64_t WeightsVersion() const override { return executor_->WeightsVersion(); }
  const experts::Loads* ExpertLoads() const override { return executor_->ExpertLoads(); }
  const experts::Loads* ExpertSlotLoads() const override { return executor_->ExpertSlotLoads(); }
  experts::Balancer* ExpertBalancer() override { return executor_->ExpertBalancer(); }
  Result<bool> MoveExperts() override { return executor_->MoveExperts(); }
  Status ReadExpertLoads() override { return executor_->ReadExpertLoads(); }
  void GiveBackKv(int32_t group, int32_t first, int32_t count) override {
    executor_->GiveBackKv(group, first, count);
  }
  Result<Step> Launch(batch::BatchPlan* plan, batch::KvSink* sink) override {
    return executor_->Launch(plan, sink);
  }

  device::Device& device() { return *device_; }
  // As Executor::Observe.
  void Observe(ops::CallObserver* observer) { executor_->Observe(observer); }

 private:
  // A model that is to be loaded, with what guesses beside it.
  struct Planned {
    model::ModelOptions options;
    weights::WeightPlan weights;
    std::optional<weights::WeightPlan> host_weights;  // of options.host_layers
    DraftPlan draft;
    ExpertRanks ranks;
  };

  LocalRunner() = default;
  // Opens the device. Gives the options with what they leave to the model and the device.
  Result<EngineOptions> OpenAndDecide(const files::ModelFiles& files, const DraftFiles& draft,
                                      const EngineOptions& options);
  // Tries `attempt` with less and less that nobody has asked for on the device, until it fits:
  // first without the checkpoint's head, which *decided then says, then with experts on the host,
  // at last with sequences that are shorter than the model declares.
  Status UntilItFits(const files::ModelFiles& files, const EngineOptions& asked,
                     EngineOptions* decided, const std::function<Status()>& attempt);
  // All but what memory decides.
  Result<Planned> PrepareModel(const files::ModelFiles& files, const DraftFiles& draft,
                               const EngineOptions& options);
  // Plans weights and memory of the device for experts where planned->options has them.
  Status PlanMemoryOf(const files::ModelFiles& files, const EngineOptions& options,
                      Planned* planned);
  // The same with the experts of as few first layers on the host as it takes.
  Status FitExperts(const files::ModelFiles& files, const EngineOptions& options, Planned* planned);
  // What the host has left beside what is planned there. kOutOfMemory where it is too small.
  // REQUIRES: planned.host_weights.
  Result<size_t> RoomOnHost(const files::ModelConfig& config, const Planned& planned) const;
  Status OpenHost(const EngineOptions& options);
  // Plans the memory, too.
  Result<Planned> PlanModel(const files::ModelFiles& files, const DraftFiles& draft,
                            const EngineOptions& options);
  Status LoadModel(const files::ModelFiles& files, const DraftFiles& draft,
                   const EngineOptions& options, std::function<void(int64_t, int64_t)> progress);
  Status LoadDraft(DraftPlan plan, const EngineOptions& options);
  Status MakeExecutor(const EngineOptions& options);
  // As EngineOptions::dump_activations says, before anything is loaded.
  Status MakeDump(const files::ModelFiles& files, const EngineOptions& options);
  void FillInfo();

  // In the order in which they depend on one another.
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Device> host_;   // that computes experts; null: none is to
  bool fits_experts_ = false;              // FitExperts is to be called
  bool finds_length_ = false;              // PlanLongest::shorter
  std::vector<ops::BindRecord> bindings_;  // in the order of binding
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::Model> draft_model_;     // null: none
  std::unique_ptr<model::EagleHead> eagle_head_;  // null: none
  std::unique_ptr<ExpertMover> mover_;            // null: experts stay where they are
  std::unique_ptr<kvstore::KvStore> store_, draft_store_;
  std::unique_ptr<ActivationDump> dump_;  // null: none
  std::unique_ptr<Executor> executor_;
  MemoryPlan memory_;
  RunnerInfo info_;
  std::string speculate_;  // RunnerInfo::speculate
};

// What the weights, a head's included, would take of the memory of `device`; nothing is loaded.
Result<size_t> WeightBytesOn(device::Device& device, const files::ModelFiles& files);

}  // namespace sluice::exec
