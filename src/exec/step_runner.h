// StepRunner: what computes the plans of a scheduler. The engine sees no more of devices and models
// than this. Step: a step that was launched and not finished yet.
//
// Both are for one thread at a time. Steps are finished in the order in which they were launched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch/kv_group.h"
#include "batch/kv_sink.h"
#include "batch/mask_source.h"
#include "batch/plan.h"
#include "batch/result.h"
#include "sluice/status.h"

namespace sluice::exec {

// What the host spent on a step, in microseconds.
struct StepCosts {
  int64_t prepare = 0;  // on its inputs
  // On putting sampling on the stream, or on all of it where the device is the host. Nothing where
  // it cannot be told from the model, as in a graph.
  std::optional<int64_t> sample;
};

// Move-only. Dropping one waits for its work and forgets its results; steps launched behind it then
// fail.
class Step {
 public:
  // What the runner keeps of a step; it must outlive the Step.
  class Work {
   public:
    // Each of the two ends the step.
    virtual Status Finish(batch::StepResult* result) = 0;
    virtual void Drop() = 0;
    StepCosts costs;

   protected:
    ~Work() = default;
  };

  Step() = default;
  explicit Step(Work* work) : work_(work) {}
  Step(Step&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  Step& operator=(Step&& other) noexcept {
    std::swap(work_, other.work_);
    return *this;
  }
  ~Step() {
    if (work_ != nullptr) work_->Drop();
  }

  // REQUIRES: launched and not finished.
  const StepCosts& costs() const { return work_->costs; }
  // Waits for the step and collects into *result, whose buffers are reused. An error of its work is
  // found here; the KV of its tokens is then undefined, its sink was told to abort (unless the
  // error is the sink's own), and steps behind it fail too. REQUIRES: no step launched before it is
  // unfinished.
  Status Finish(batch::StepResult* result) { return std::exchange(work_, nullptr)->Finish(result); }
  bool launched() const { return work_ != nullptr; }

 private:
  Work* work_ = nullptr;
};

// How an op is computed: the implementation, and why better ones declined.
struct OpChoice {
  std::string op, shape, chosen;
  std::vector<std::string> declined;  // "name: reason"
};

// What does not change while a runner lives.
struct RunnerInfo {
  std::vector<batch::KvGroup> kv_groups;
  int max_model_len = 0;    // tokens of a sequence
  int max_logits_rows = 0;  // of a step
  int depth = 1;            // steps that may be unfinished at once
  size_t weight_bytes = 0, kv_bytes = 0;
  std::string device_name, device_id, device_reason, isa;
  int threads = 0;  // compute units of the device
  std::vector<OpChoice> choices;
  // Sentences for people: what takes the memory, what was cut to fit, what graphs are for, which
  // ops run slowly and why.
  std::string memory, memory_note, graphs_note;
  std::vector<std::string> slow_fallbacks;
};

// Sums over all steps that are finished.
struct RunnerTotals {
  double busy_s = 0, idle_s = 0;  // of the device; zeros where it has no timers
  uint64_t kernels = 0, host_calls = 0;
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;

  virtual const RunnerInfo& Info() const = 0;
  virtual RunnerTotals Totals() const = 0;
  // Of the weights that the next step computes with: it rises with each update, and what older ones
  // left in the KV cache is of no use to prompts from then on.
  virtual uint64_t WeightsVersion() const = 0;
  // Puts the step behind those that were launched before: block copies, the model, sampling. Takes
  // the content of *plan and leaves the buffers of an earlier one in it. `masks` and `sink` may be
  // null and must outlive the step. kInvalidArgument names what is wrong with a plan;
  // kFailedPrecondition when `depth` steps are unfinished, or when one is and this or that one has
  // a sink. After any other error the KV of the plan's tokens is undefined and the sink was told to
  // abort.
  virtual Result<Step> Launch(batch::BatchPlan* plan, batch::MaskSource* masks,
                              batch::KvSink* sink) = 0;
};

}  // namespace sluice::exec
