// StepRunner: what computes the plans of a scheduler. The engine sees no more of devices and models
// than this. Step: a step that was launched and not finished yet. Its model and its sampling are
// put on the device one after the other; where rows wait for masks, Step::Sample does the second,
// so that the masks may be made while the model runs.
//
// Both are for one thread at a time. Steps are finished in the order in which they were launched.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "batch/kv_group.h"
#include "batch/kv_sink.h"
#include "batch/mask_set.h"
#include "batch/plan.h"
#include "batch/result.h"
#include "experts/balancer.h"
#include "sluice/status.h"

namespace sluice::exec {

// What the host spent on a step, in microseconds.
struct StepCosts {
  int64_t prepare = 0;  // on its inputs
  // On putting sampling on the stream, or on all of it where the device is the host.
  int64_t sample = 0;
  // A part of it ran for the first or second time in its sizes, so that kernels were loaded or a
  // graph was captured: its time says nothing of those that follow.
  bool cold = false;
};

// Move-only. Dropping one waits for its work and forgets its results; steps launched behind it then
// fail.
class Step {
 public:
  // What the runner keeps of a step; it must outlive the Step.
  class Work {
   public:
    virtual bool ModelIsDone() = 0;
    virtual Status FetchLogits(std::span<const int32_t> rows) = 0;
    virtual std::span<const float> Logits(size_t i) const = 0;
    virtual Status Sample(const batch::MaskSet& masks) = 0;
    // Each of the two ends the step.
    virtual Status Finish(batch::StepResult* result) = 0;
    virtual void Drop() = 0;
    StepCosts costs;
    bool waits = false;  // for masks

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
  // Rows of the plan are masked and Sample has not been called.
  bool waits_for_masks() const { return work_->waits; }
  // Whether the device has come to the end of the model. REQUIRES: waits_for_masks().
  bool ModelIsDone() { return work_->ModelIsDone(); }
  // For what changes logits before they are sampled (MaskSet::replaced): the host wants those of
  // these rows of the plan. To be called once, behind Launch. Finish tells any error again.
  // REQUIRES: waits_for_masks(); the rows exist.
  Status FetchLogits(std::span<const int32_t> rows) { return work_->FetchLogits(rows); }
  // F32 [vocab_size] of the i-th of these rows, until Sample. REQUIRES: ModelIsDone().
  std::span<const float> Logits(size_t i) const { return work_->Logits(i); }
  // Puts sampling on the stream; `masks` is used during the call alone. kInvalidArgument when these
  // are not the masks that the plan waits for. Finish tells any error again. REQUIRES:
  // waits_for_masks().
  Status Sample(const batch::MaskSet& masks) { return work_->Sample(masks); }
  // Waits for the step and collects into *result, whose buffers are reused. An error of its work is
  // found here; the KV of its tokens is then undefined, its sink was told to abort (unless the
  // error is the sink's own), and steps behind it fail too. REQUIRES: no step launched before it is
  // unfinished, and Sample was called where rows wait for masks.
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
  int vocab_size = 0;       // of a row
  // Why no sequence may ask for Distribution::kFiltered; empty: they may.
  std::string no_filtered;
  bool draft_trees = false;  // PlanEntry::tree may be set
  // What the runner guesses comes with the results of steps, as trees (ResultEntry::guess_begin),
  // and plans never name it: the host chooses which nodes become drafts.
  bool guess_trees = false;
  int counted_slots = 0;  // slots below this may have steps with penalties in flight at once
  // Positions that the runner writes KV of behind those of its guesses, while it guesses.
  int draft_spare = 0;
  int expert_groups = 1;  // of each layer's experts, as the router has them
  int depth = 1;          // steps that may be unfinished at once
  // Where drafts come from, as --speculate takes it; never "auto", which was decided. With "mtp",
  // "model", "eagle", "eagle3" and "block" the runner makes them.
  std::string speculate;
  size_t weight_bytes = 0, kv_bytes = 0;
  std::string device_name, device_id, device_reason, isa;
  int threads = 0;  // compute units of the device
  std::vector<OpChoice> choices;
  // Sentences for people: what takes the memory, what was cut to fit, what graphs are for, which
  // ops run slowly and why.
  std::string memory, memory_note, graphs_note;
  std::vector<std::string> slow_fallbacks;
};

// Why a step whose model is of a graph's size is sampled without one.
enum class EagerSampling : uint8_t { kEdits, kMasks, kDistributions };
inline constexpr size_t kEagerSamplings = 3;

// Sums over all steps that are finished.
struct RunnerTotals {
  double busy_s = 0, idle_s = 0;  // of the device; zeros where it has no timers
  uint64_t kernels = 0, host_calls = 0;
  std::array<uint64_t, kEagerSamplings> eager_samplings = {};  // steps, by EagerSampling
  // Steps of a graph's size that told more block ids than it has room for.
  uint64_t eager_tables = 0;
  // What guesses met an error and guesses no more; answers go on without.
  bool drafts_failed = false;
  // Of what guesses, where the host computes; elsewhere it is a part of busy_s, and this is zero.
  double drafting_s = 0;
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;

  virtual const RunnerInfo& Info() const = 0;
  virtual RunnerTotals Totals() const = 0;
  // Of the weights that the next step computes with: it rises with each update, and what older ones
  // left in the KV cache is of no use to prompts from then on.
  virtual uint64_t WeightsVersion() const = 0;
  // How the model's experts are loaded, as of a step of some tenths of a second ago at most; null:
  // it has none.
  virtual const experts::Loads* ExpertLoads() const { return nullptr; }
  // The same of the slots that experts lie in, and what keeps them spread over ranks as they are
  // loaded; null: they stay where they are.
  virtual const experts::Loads* ExpertSlotLoads() const { return nullptr; }
  virtual experts::Balancer* ExpertBalancer() { return nullptr; }
  // Between steps, experts move by themselves. This carries on with it where no step is unfinished;
  // says whether more is left to do.
  virtual Result<bool> MoveExperts() { return false; }
  // Brings ExpertLoads() and ExpertSlotLoads() up to the last step, unless a step is unfinished.
  virtual Status ReadExpertLoads() { return OkStatus(); }
  // What stands in `count` blocks of a group of KV, from `first` on, is of no use any more, so that
  // their memory may be given back. REQUIRES: no step is unfinished.
  virtual void GiveBackKv(int32_t group, int32_t first, int32_t count) {
    (void)group, (void)first, (void)count;
  }
  // Puts the step behind those that were launched before: block copies, the model, and sampling
  // where no row waits for a mask. Takes the content of *plan and leaves the buffers of an earlier
  // one in it. `sink` may be null and must outlive the step. kInvalidArgument names what is wrong
  // with a plan; kFailedPrecondition when `depth` steps are unfinished, when one is and this or
  // that one has a sink, or when the one before waits for masks. After any other error the KV of
  // the plan's tokens is undefined and the sink was told to abort.
  virtual Result<Step> Launch(batch::BatchPlan* plan, batch::KvSink* sink) = 0;
};

}  // namespace sluice::exec
