// Executor: runs BatchPlans on one device, in the order in which they are launched. Up to two steps
// are in flight: while one runs, the next is prepared and put on the stream behind it; ids that the
// first draws reach the second on the device. Prepare may run on another thread than the rest; each
// of the two is called by one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "batch/kv_sink.h"
#include "batch/mask_source.h"
#include "batch/result.h"
#include "exec/graph_runner.h"
#include "exec/input_builder.h"
#include "exec/step_timer.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "sample/sampler.h"

namespace sluice::exec {

class Executor {
 public:
  struct Options {
    int max_num_seqs = 1;
    bool graphs = true;       // decode through captured graphs where the device has them
    bool time_steps = false;  // fill step_times() where the device has timers
    // Of the model: any may forbid graphs. Those of sampling are added.
    std::vector<ops::BindRecord>* bindings = nullptr;
  };
  // `device`, `model` and `store` must outlive it.
  static Result<std::unique_ptr<Executor>> Make(device::Device& device, const model::Model& model,
                                                kvstore::KvStore& store, const Options& options);
  // Device memory that Make and the steps take on a device with memory of its own, the model's
  // workspace included.
  static size_t DeviceBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                            int max_num_seqs);
  // Steps still in flight are waited for and forgotten.
  ~Executor();

  // Runs the smallest steps through and forgets them, so that what a device does at first use
  // (compiling kernels, scratch memory, the smallest graph) is done before a request waits for it.
  // Writes over the first blocks of every group and counts for nothing: to be called before any
  // plan, while those blocks are free. Nothing where a step is too small for it.
  Status WarmUp();

  // Takes the content of *plan and leaves the buffers of an earlier plan in it.
  Result<PreparedBatch> Prepare(batch::BatchPlan* plan);

  // Puts the step on the device's stream: block copies, the model, sampling. `masks` and `sink` may
  // be null and must outlive the step. kFailedPrecondition when the batch was not synced, when two
  // steps are in flight, or when one is and this or that one has a sink: its steps run alone. After
  // any other error the KV of the plan's tokens is undefined, and the sink was told to abort
  // (unless the error is its own Begin's). After an error the step is not in flight. A plan without
  // tokens has no forward pass, so the sink hears nothing of it.
  Status Launch(PreparedBatch batch, batch::MaskSource* masks, batch::KvSink* sink);
  // Waits for the oldest step in flight and collects into *result, whose buffers are reused. An
  // error of its work is found here; the KV of its tokens is then undefined, the sink was told to
  // abort (unless the error is its own Finish's), and a step behind it fails too.
  // REQUIRES: in_flight() > 0.
  Status Finish(batch::StepResult* result);
  // Launch and Finish. REQUIRES: in_flight() == 0.
  Status Execute(PreparedBatch batch, batch::MaskSource* masks, batch::KvSink* sink,
                 batch::StepResult* result);

  int in_flight() const { return count_; }
  // Whether the device works while the host goes on, so that it pays to launch a step before the
  // one before it is finished.
  bool overlaps() const { return device_.facts().runs_beside_host; }
  // One sentence: for how many sequences steps may run as graphs, or why none does.
  const std::string& graphs_note() const { return graphs_note_; }
  // The buckets captured so far.
  std::vector<int> captured() const { return graphs_ ? graphs_->captured() : std::vector<int>(); }
  // Of the last step that was finished: what the host spent on putting sampling on the stream; all
  // of sampling where the device is the host. Nothing where a graph held it together with the
  // model.
  std::optional<int64_t> sample_us() const { return sample_us_; }
  // Zeros unless Options::time_steps asked for them and the device has timers.
  StepTimes step_times() const { return timer_ ? timer_->times() : StepTimes(); }
  // What all steps have submitted so far, their copies included; the warm-up left out.
  device::SubmitCounts submitted() const;

 private:
  struct Flight {
    PreparedBatch batch;
    batch::KvSink* sink = nullptr;
    std::unique_ptr<device::Event> done;
    Status status;  // of what came before it
    std::optional<int64_t> sample_us;
  };
  static constexpr int kInFlightMax = sample::Sampler::kStepsMax;
  static constexpr int kWarmUpSteps = 4;

  Executor(device::Device& device, const model::Model& model, kvstore::KvStore& store)
      : device_(device), model_(model), store_(store) {}
  Flight& flight(int index) { return flights_[(oldest_ + index) % kInFlightMax]; }
  // The work of the step is all on the stream.
  Status EndStep(Flight* flight);
  Status CheckLaunch(const PreparedBatch& batch, const batch::KvSink* sink);
  Status CheckReferences(const batch::BatchPlan& plan) const;
  Status MakeGraphs(const Options& options);
  Status Enqueue(batch::MaskSource* masks, Flight* flight);
  Status EnqueueModel(Flight* flight);
  Status EnqueueSampling(const batch::BatchPlan& plan);
  Status EnqueueGraph(Flight* flight);  // model and sampling, which was built
  // A bucket's inputs as they lie on the host.
  device::View BucketSource(const PreparedBatch& batch) const;
  // What a graph holds: ids, the model, sampling.
  Status RunBucket(device::Stream& stream, int bucket);
  ops::Tensor Logits(int64_t rows) const;
  batch::BatchPlan WarmUpPlan(int index, int first, int tokens) const;
  Status CopyBlocks(const batch::BatchPlan& plan);
  Status ResolveTokens(const PreparedBatch& batch);
  model::ForwardContext Context(device::Stream& stream) const;
  Status RunModel(Flight* flight, const ops::Tensor& logits);

  device::Device& device_;
  const model::Model& model_;
  kvstore::KvStore& store_;
  std::unique_ptr<InputBuilder> builder_;
  std::unique_ptr<sample::Sampler> sampler_;
  std::unique_ptr<device::Stream> stream_, prepare_stream_;
  std::vector<std::unique_ptr<device::Event>> layer_events_;  // for sinks
  std::vector<ops::PagedKv> kv_;                              // by layer
  device::Buffer workspace_, logits_;
  std::vector<kvstore::BlockMove> moves_;

  // A bucket's inputs on the device; the sampler's lie behind the model's.
  struct BucketInputs {
    model::DeviceBatch model;
    device::View sampling;
    int64_t edits = 0;  // that fit
    size_t bytes = 0;   // of both
  };
  std::vector<BucketInputs> bucket_inputs_;
  std::unique_ptr<GraphRunner> graphs_;  // null: none
  std::string graphs_note_;

  std::unique_ptr<StepTimer> timer_;  // null: off
  device::SubmitCounts warm_up_;      // what it submitted
  static_assert(kInFlightMax <= StepTimer::kInFlightMax);
  std::array<Flight, kInFlightMax> flights_;
  int oldest_ = 0, count_ = 0;
  uint64_t last_step_ = 0;           // launched
  uint64_t failed_step_ = 0;         // the last that failed, or will because the one before has
  std::vector<uint8_t> last_draws_;  // by its logits row: whether it draws a token
  std::optional<int64_t> sample_us_;
};

}  // namespace sluice::exec
