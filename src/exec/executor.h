// Executor: the StepRunner of one device. Where the device works beside the host, two steps may be
// unfinished: while one runs, the next is put on the stream behind it; ids that the first draws
// reach the second on the device, which keeps the block tables of all sequences between steps. Step
// thread only.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/activation_dump.h"
#include "exec/draft_model_proposer.h"
#include "exec/expert_counter.h"
#include "exec/expert_mover.h"
#include "exec/graph_runner.h"
#include "exec/input_builder.h"
#include "exec/sink_observer.h"
#include "exec/step_runner.h"
#include "exec/step_timer.h"
#include "files/model_files.h"
#include "kvstore/kv_store.h"
#include "model/eagle/eagle_head.h"
#include "model/model.h"
#include "ops/place_tokens.h"
#include "sample/sampler.h"

namespace sluice::exec {

// How many tokens one pass of a head computes for a sequence of which it guesses `guesses`; 0 where
// the head computes one token at a time.
inline int BlockTokens(files::EagleForm form, int guesses) {
  if (form == files::EagleForm::kDiffusion) return guesses > 0 ? guesses + 1 : 0;
  return form == files::EagleForm::kParallel ? std::max(0, guesses - 1) : 0;
}

// What is to be loaded to guess beside a model: a second model, or a head of EAGLE's form;
// without either there is nothing.
struct DraftOf {
  const files::ModelConfig* model = nullptr;
  const files::EagleConfig* eagle = nullptr;
  model::ModelOptions options = {};
  // Whatever guesses, a head of the model too: DraftChain::Shared::drawn.
  int drawn = 0;
  int tokens = 0;  // guesses of a sequence behind a step, at most

  // Of a head with blocks: tokens of a sequence in the pass that computes one, at most; else 0.
  int block() const { return eagle == nullptr ? 0 : BlockTokens(eagle->form, tokens); }
  bool trees = false;  // Executor::Options::guess_trees
  int depths() const { return trees ? tokens : 0; }
  // Of the model or of the head's layers; null: nothing guesses.
  const files::ModelConfig* config() const { return eagle != nullptr ? &eagle->layer : model; }
};

class Executor : public StepRunner {
 public:
  struct Options {
    int max_num_seqs = 1;
    int depth = 0;  // steps that may be unfinished at once; 0: what the device is good for
    // Steps through captured graphs, as far as the device has them.
    device::GraphSupport graphs = device::GraphSupport::kFull;
    int graph_chunk_tokens = 0;  // of steps with chunks of prefill that have graphs, at most
    int draft_tokens = 0;        // of a sequence in a step, at most; graphs have room for them
    // Guesses behind each step, the one or the other; null: none does. Its KV lies in draft_store,
    // whose groups have as many blocks as the first group of full attention of the model. They must
    // outlive it. REQUIRES: the model has such a group, and none of states; the vocabulary is the
    // same; of a head, EagleConfig::hidden_layers are the model's.
    const model::Model* draft_model = nullptr;
    const model::EagleHead* eagle_head = nullptr;
    kvstore::KvStore* draft_store = nullptr;
    // Puts on the stream, behind each step, what writes guesses of the tokens that sequences draw
    // next; see sample::Sampler::lengths and tokens. They must be ids of the vocabulary. Null: the
    // draft model does so, or the model's head, if it was loaded; otherwise no plan asks for any.
    std::function<Status(device::Stream&, const ops::Tensor& lengths, const ops::Tensor& tokens)>
        propose;
    // Gets the hidden states of its layers behind each step; it must outlive the executor.
    // REQUIRES: no head guesses, and `depth` is 1. Null: nobody does.
    ActivationDump* dump = nullptr;
    // Moves the experts of the model; it must outlive the executor. Null: they lie in their order.
    ExpertMover* mover = nullptr;
    // Guesses are trees, which the results of steps bring. REQUIRES: ModelOptions::draft_trees of
    // the model and of what guesses; one head, at most, is the model's.
    bool guess_trees = false;
    bool rejects = false;       // drafts are verified by rejection: ops::SampleRow::guess_row
    double drafts_taken = 0.0;  // for load tests: ops::KeepDrawn::Args::taken
    bool time_steps = false;    // fill the times of Totals() where the device has timers
    // Of the model: they say what graphs cannot hold and what scratch memory to reserve. Those of
    // sampling are added. Null: nothing is reserved.
    std::vector<ops::BindRecord>* bindings = nullptr;
  };
  // `device`, `model` and `store` must outlive it.
  static Result<std::unique_ptr<Executor>> Make(device::Device& device, const model::Model& model,
                                                kvstore::KvStore& store, const Options& options);
  // Device memory that Make and the steps take on a device with memory of its own, the model's
  // workspace included.
  static size_t DeviceBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                            int max_num_seqs, const DraftOf& draft = {});
  // Device memory that ops take beside their tensors. Make reserves it; nothing grows in a step.
  static Result<size_t> ScratchBytes(const weights::WeightPlan& weight_plan,
                                     const files::ModelConfig& config, device::Device& device,
                                     const model::ModelOptions& options, int max_num_seqs);
  // An estimate of what all graphs that may be captured take.
  static size_t GraphBytes(const files::ModelConfig& config,
                           const model::ModelOptions& model_options,
                           const device::DeviceFacts& facts, const Options& options,
                           const DraftOf& draft = {});
  // REQUIRES: no step is unfinished.
  ~Executor() override;

  const RunnerInfo& Info() const override { return info_; }
  RunnerTotals Totals() const override;
  uint64_t WeightsVersion() const override { return model_.parameters().version(); }
  const experts::Loads* ExpertLoads() const override {
    return expert_counter_ ? &expert_counter_->loads() : nullptr;
  }
  const experts::Loads* ExpertSlotLoads() const override {
    return expert_counter_ ? expert_counter_->slot_loads() : nullptr;
  }
  experts::Balancer* ExpertBalancer() override {
    return mover_ != nullptr ? &mover_->balancer() : nullptr;
  }
  Result<bool> MoveExperts() override;
  Status ReadExpertLoads() override;
  void GiveBackKv(int32_t group, int32_t first, int32_t count) override {
    store_.GiveBack(group, first, count);
  }
  Result<Step> Launch(batch::BatchPlan* plan, batch::KvSink* sink) override;

  // Runs the smallest steps through and forgets them, so that what a device does at first use
  // (compiling kernels, scratch memory, the smallest graph) is done before a request waits for it.
  // Writes over the first blocks of every group and counts for nothing: to be called before any
  // plan, while those blocks are free. Nothing where a step is too small for it.
  Status WarmUp();

  // Is told of each op of the steps that are launched from here on, but for those that graphs
  // replay; null: nobody is.
  void Observe(ops::CallObserver* observer) { stream_->Observe(observer); }

  int in_flight() const { return static_cast<int>(unfinished_.size()); }
  // The buckets captured so far.
  std::vector<BucketShape> captured() const {
    return graphs_ ? graphs_->captured() : std::vector<BucketShape>();
  }

 private:
  // A step in flight. Its buffers are used again by later ones.
  class Flight final : public Step::Work {
   public:
    explicit Flight(Executor& executor) : executor_(executor) {}
    bool ModelIsDone() override { return modelled->Done(); }
    Status FetchLogits(std::span<const int32_t> wanted) override {
      return executor_.FetchLogits(this, wanted);
    }
    std::span<const float> Logits(size_t i) const override {
      return executor_.FetchedLogits(*this, i);
    }
    Status Sample(const batch::MaskSet& masks) override { return executor_.Sample(this, masks); }
    Status Finish(batch::StepResult* result) override { return executor_.Finish(this, result); }
    void Drop() override { executor_.Drop(this); }

    PreparedBatch batch;
    sample::Sampler::Step rows;
    batch::KvSink* sink = nullptr;
    sample::Sampler::Misfit misfit = sample::Sampler::Misfit::kNone;  // of a bucket's step
    std::unique_ptr<device::Event> modelled;  // recorded where rows wait for masks
    std::vector<int32_t> fetched;             // rows whose logits the host wants
    // Staging of these, and behind them of those that come instead; unused where the host's memory
    // is the device's.
    device::Buffer row_logits;
    // Staging of the nodes that were guessed behind it, of all sequences; unused as row_logits.
    device::Buffer nodes;
    std::unique_ptr<device::Event> done;
    StepTimer::Marks marks;
    bool counts_experts = false;  // ExpertCounter::Fetch was called for it
    Status status;                // of what came before it

   private:
    Executor& executor_;
  };
  // Where a device works beside the host: one step runs while the next waits behind it.
  static constexpr int kDepthBesideHost = 2;
  static constexpr int kWarmUpSteps = 4;

  Executor(device::Device& device, const model::Model& model, kvstore::KvStore& store)
      : device_(device), model_(model), store_(store) {}
  Status MakeTables(const InputLimits& limits, std::vector<ops::BindRecord>* records);
  Status MakeVectors(int max_num_seqs);
  void CollectVectors(const batch::BatchPlan& plan, batch::StepResult* result) const;
  // Sequences of a plan that get guesses as trees; 0: none does.
  int64_t GuessedTrees(const batch::BatchPlan& plan) const;
  // The nodes that were guessed: what Flight::nodes is; on the stream; and into the result.
  Result<device::Buffer> NodesStaging(int max_num_seqs) const;
  Status FetchNodes(Flight* flight);
  void CollectNodes(const Flight& flight, batch::StepResult* result) const;
  Status MakeProposer(const Options& options);
  Status MakeDump(const Options& options);
  Status MakeHead(const Options& options);
  Status MakeEagle(const Options& options);
  Status MakeHidden(int64_t width);
  Status MakeDraftModel(const Options& options);
  DraftChain::Shared ChainOver(int group, const Options& options) const;
  // By what a step's guesses are drawn.
  void WriteGuessRows(Flight* flight);
  Status MakeFlights(int depth, int max_num_seqs);
  Status Sample(Flight* flight, const batch::MaskSet& masks);
  Status FetchLogits(Flight* flight, std::span<const int32_t> rows);
  std::span<const float> FetchedLogits(const Flight& flight, size_t i) const;
  Status ReplaceLogits(Flight* flight, const batch::MaskSet& masks);
  // A row of logits_.
  device::View LogitsRow(int32_t row) const;
  Status Finish(Flight* flight, batch::StepResult* result);
  void Drop(Flight* flight);
  // Waits for the oldest step, and takes it off the list of the unfinished ones.
  Status Land(Flight* flight);
  // The counts that the step brings, if it does, have come or are lost.
  void EndCounting(Flight* flight, bool ok);
  // The steps launched behind `step` fail for `why`.
  void FailBehind(uint64_t step, const Status& why);
  // Takes back what a step held; what a failed one told is to be told again.
  void Reclaim(Flight* flight, bool failed);
  // A launch came to nothing.
  Status Abandon(Flight* flight, const Status& status);
  // What was put on the stream last met `status`; waits for the stream.
  void TellStepBefore(const Flight* flight, const Status& status);
  Status CheckLaunch(const batch::BatchPlan& plan, const batch::KvSink* sink);
  Status MakeGraphs(const Options& options);
  Status MakeBuckets(const Options& options, device::GraphSupport level);
  Status Enqueue(Flight* flight);
  int64_t ColdRuns() const;
  Status EnqueueModel(Flight* flight);
  Status EnqueueSampling(Flight* flight);
  // What a step reads on the device: a bucket's always lies at the same place.
  struct Inputs {
    StepInputs given;
    model::DeviceBatch model;
    // The sampler's rows and edits, behind what is given; none where the device reads the host's.
    device::View sampling;
    int64_t edits = 0;  // that there is room for
    size_t bytes = 0;   // of a bucket: what every step of it copies, all but the edits
  };
  // Returns the bytes that are given.
  size_t Carve(const device::View& given, const InputShape& shape, Inputs* inputs) const;
  // Carve in parameters_, with room for the sampler behind, which the result does not count.
  size_t CarveStaged(const InputShape& shape, Inputs* inputs) const;
  // The sampler's rows and edits behind the inputs on the host, if there is room. Returns the bytes
  // that they take there.
  size_t WriteRows(Flight* flight, const Inputs& inputs) const;
  // The inputs of a bucket's step as the host has them.
  Status WriteBucket(Flight* flight, device::View* source);
  Status EnqueueEager(Flight* flight);
  // Tokens of the step before are filled in, and positions, contexts and block tables are made.
  Status Place(device::Stream& stream, const Inputs& inputs, bool names_rows);
  // What the graphs of a bucket hold: Place and the model, and sampling.
  Status RunModelOf(device::Stream& stream, int bucket);
  Status RunSamplingOf(device::Stream& stream, int bucket, int guesses, batch::KvSink* sink);
  // Guesses behind what a step with these inputs has drawn, as BatchPlan::guesses says.
  Status Propose(device::Stream& stream, const Inputs& inputs, int guesses, batch::KvSink* sink);
  ops::Tensor Logits(int64_t rows) const;
  model::Outputs OutputsOf(const model::DeviceBatch& inputs, int64_t rows) const;
  batch::BatchPlan WarmUpPlan(int index, int first, int tokens) const;
  Status CopyBlocks(const batch::BatchPlan& plan);
  model::ForwardContext Context(device::Stream& stream) const;
  Status RunModel(Flight* flight, const model::DeviceBatch& inputs, int64_t rows);
  // What tells the sink of each layer; null without one.
  Result<SinkObserver*> Observe(batch::KvSink* sink);

  device::Device& device_;
  const model::Model& model_;
  kvstore::KvStore& store_;
  std::unique_ptr<InputBuilder> builder_;
  std::unique_ptr<sample::Sampler> sampler_;
  decltype(Options::propose) propose_;
  int guesses_ = 0;           // of a sequence behind a step; 0: nothing guesses
  int sampling_buckets_ = 0;  // that sampling has graphs for, for each number of guesses
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::unique_ptr<device::Event>> layer_events_;  // for sinks
  std::vector<ops::PagedKv> kv_;                              // by layer
  std::optional<SinkObserver> observer_;                      // of the step that is put there
  device::Buffer workspace_, logits_, plan_memory_;
  device::Buffer hidden_memory_;
  device::Buffer vector_memory_;
  ops::Tensor vectors_;  // model::Outputs::vectors, in vector_memory_; empty of one that generates
  // What a head, or dump_, reads of a step, in hidden_memory_: model::Outputs::layers_hidden of
  // hidden_layers_, or without these Outputs::hidden. Empty without a head.
  ops::Tensor hidden_;
  std::vector<int> hidden_layers_;
  ActivationDump* dump_ = nullptr;            // may be null
  std::unique_ptr<DeviceProposer> proposer_;  // may be null
  StepInputs on_host_;                        // scratch of WriteGuessRows
  // A step's inputs where the device cannot read the host's, and what is made of them. Steps follow
  // one another on the stream, so one of each does.
  device::Buffer parameters_, placed_;
  device::Buffer table_memory_;                      // of tables_; steps tell what changes
  std::vector<ops::Tensor> tables_;                  // by group, I32 [slots, blocks_max]
  std::vector<ops::Bound<ops::PlaceTokens>> place_;  // by group
  std::vector<ops::Tensor> attention_plans_;         // by group, in plan_memory_

  std::vector<Inputs> bucket_inputs_;
  Inputs eager_;                                  // of the step that is being launched
  std::unique_ptr<GraphRunner> graphs_;           // of the model; null: none
  std::unique_ptr<GraphRunner> sampling_graphs_;  // but of chunks; read what the model was given
  std::array<uint64_t, kEagerSamplings> eager_samplings_ = {};
  uint64_t eager_tables_ = 0;
  int64_t drafting_us_ = 0;

  std::unique_ptr<ExpertCounter> expert_counter_;  // null: the model has no experts
  ExpertMover* mover_ = nullptr;                   // may be null
  std::unique_ptr<StepTimer> timer_;               // null: off
  device::SubmitCounts warm_up_;                   // what it submitted
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> idle_, unfinished_;  // oldest first
  uint64_t last_step_ = 0;                  // launched
  uint64_t failed_step_ = 0;  // the last that failed, or will because the one before has
  RunnerInfo info_;
};

}  // namespace sluice::exec
