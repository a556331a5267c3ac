// Executor: runs BatchPlans on one device, one after another. Prepare may run on another thread
// than Execute, on a stream of its own; each of the two is called by one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "batch/kv_sink.h"
#include "batch/mask_source.h"
#include "batch/result.h"
#include "exec/input_builder.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "sample/sampler.h"

namespace sluice::exec {

class Executor {
 public:
  // `device`, `model` and `store` must outlive it.
  static Result<std::unique_ptr<Executor>> Make(device::Device& device, const model::Model& model,
                                                kvstore::KvStore& store, int max_num_seqs);

  // Takes the content of *plan and leaves the buffers of an earlier plan in it.
  Result<PreparedBatch> Prepare(batch::BatchPlan* plan);

  // Copies blocks, runs the model, samples into *result, whose buffers are reused. `masks` and
  // `sink` may be null. kFailedPrecondition when the batch was not synced. After any other error
  // the KV of the plan's tokens is undefined, and the sink was told to abort (unless the error is
  // its own Begin's or Finish's). A plan without tokens has no forward pass, so the sink hears
  // nothing of it.
  Status Execute(PreparedBatch batch, batch::MaskSource* masks, batch::KvSink* sink,
                 batch::StepResult* result);

  // Of the last Execute: from the model's last op to the end; an asynchronous device's work falls
  // into it.
  int64_t sample_us() const { return sample_us_; }

 private:
  Executor(const model::Model& model, kvstore::KvStore& store) : model_(model), store_(store) {}
  Status ResolveTokens(PreparedBatch* batch) const;
  Status RunModel(PreparedBatch* batch, batch::KvSink* sink, ops::Tensor* logits);

  const model::Model& model_;
  kvstore::KvStore& store_;
  std::unique_ptr<InputBuilder> builder_;
  std::unique_ptr<sample::Sampler> sampler_;
  std::unique_ptr<device::Stream> stream_, prepare_stream_;
  std::unique_ptr<device::Event> layer_event_;
  std::vector<ops::PagedKv> kv_;  // by layer
  device::Buffer workspace_, logits_;
  std::vector<kvstore::BlockMove> moves_;
  uint64_t last_step_ = 0;
  int64_t sample_us_ = 0;
  std::vector<int32_t> last_row_tokens_;  // by logits row of the last step
};

}  // namespace sluice::exec
