// Sampler: the logits of a step's rows to its StepResult. Keeps the state of every running sequence
// by slot. Step thread only.
#pragma once

#include <memory>
#include <vector>

#include "batch/mask_source.h"
#include "batch/plan.h"
#include "batch/result.h"
#include "ops/sampling.h"
#include "sample/slot_state.h"

namespace sluice::sample {

class Sampler {
 public:
  struct Options {
    int64_t vocab = 0;
    int slots = 0;     // sequences that run at once
    int rows_max = 0;  // logits rows of one step
    int top_logprobs_max = 20;
  };

  static Result<std::unique_ptr<Sampler>> Make(device::Device& device, const Options& options);

  // Takes the starts of the plan; to be called once per plan, before Run.
  void Begin(const batch::BatchPlan& plan);
  // `logits`: F32 [plan rows, vocab], readable by the device of `stream`. `masks` may be null.
  // *result is overwritten, its buffers are reused.
  // A verify entry's rows are drawn in turn: row i counts only while every row before it drew the
  // draft token that follows, so the tokens are those of one-by-one decoding.
  Status Run(device::Stream& stream, const batch::BatchPlan& plan, const ops::Tensor& logits,
             batch::MaskSource* masks, batch::StepResult* result);

 private:
  Sampler(const Options& options) : options_(options), slots_(options.slots) {}
  Status BuildRows(const batch::BatchPlan& plan, batch::MaskSource* masks);
  Status BuildEntryRows(const batch::BatchPlan& plan, const batch::PlanEntry& entry,
                        batch::MaskSource* masks);
  void Collect(const batch::BatchPlan& plan, batch::StepResult* result);
  batch::ResultToken Token(int64_t row, batch::StepResult* result) const;

  const Options options_;
  ops::Bound<ops::Sample> sample_;
  std::vector<SlotState> slots_;
  // Reused by every step.
  std::vector<ops::SampleRow> rows_;
  std::vector<ops::LogitEdit> edits_;
  std::vector<ops::SampleOutput> outputs_;
  std::vector<uint32_t> mask_words_;
  int mask_rows_ = 0;
  int distribution_rows_ = 0;
  std::vector<float> distributions_;
  device::Buffer top_ids_, top_logprobs_;
};

}  // namespace sluice::sample
