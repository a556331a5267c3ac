// A step of the whole loop (draw, commit, hand over, publish, plan, build the inputs) asks for no
// memory while the same sequences decode, with log-probs or without, with drafts or without.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/allocation_fixture.h"
#include "base/source_dir_fixture.h"
#include "engine/step.h"
#include "exec/null_model_fixture.h"

namespace sluice::engine {
namespace {

constexpr int kSequences = 64, kPromptTokens = 8, kContext = 512, kBlockTokens = 32;
// Buffers reach their sizes in the first steps.
constexpr int kWarmUp = 20, kCountedSteps = 200;
constexpr int kDrafts = 8;

class AllocationRig {
 public:
  explicit AllocationRig(std::optional<int> logprobs, const std::string& drafts = "none")
      : logprobs_(logprobs) {
    schedule::SchedulerOptions options;
    options.max_num_seqs = kSequences;
    options.max_batch_tokens = kSequences * kPromptTokens;
    options.max_model_len = kContext;
    options.queue_limit = kSequences;
    options.max_extra_rows = kSequences * kDrafts;
    std::unique_ptr<Drafter> drafter;
    if (drafts != "none") {
      options.max_draft_tokens = kDrafts;
      drafter =
          std::make_unique<Drafter>(speculate::MakeProposer(drafts, {kSequences, 2 * kContext}),
                                    DrafterOptions{.slots = kSequences,
                                                   .sequence_tokens = kContext,
                                                   .adapt = false,
                                                   .wait_us = 1'000'000});
    }
    loop_ = std::make_unique<StepLoop>(
        *null_.executor,
        std::move(schedule::Scheduler::Create(options, null_.store->groups()).value()), metrics_,
        std::move(drafter));
    TextContext context;
    context.text = text_.get();
    context.metrics = &metrics_;
    context.max_model_len = context.longest_sequence = kContext;
    context.add = [this](auto request, auto specs) {
      return loop_->Add(std::move(request), std::move(specs));
    };
    context.stop = [](auto, int) {};
    context.ended = [](RequestId) {};
    workers_ = std::make_unique<TextWorkers>(2, std::move(context));
    loop_->Start(workers_.get());
  }
  ~AllocationRig() {
    stopping_ = true;
    loop_->Stop();
    workers_->Stop();
  }

  // Of the step thread, in kCountedSteps steps in which all sequences decode.
  int64_t AllocationsOfDecoding() {
    // All at once: on a busy machine the first would end before the last has come.
    loop_->SetPaused(true);
    for (int i = 0; i < kSequences; ++i) {
      auto request = std::make_shared<RequestState>();
      request->id = static_cast<RequestId>(i + 1);
      request->request.prompt = std::vector<int32_t>(kPromptTokens, i % 50 + 5);
      request->request.max_tokens = kContext - kPromptTokens;
      request->request.ignore_eos = true;
      request->request.logprobs = logprobs_;
      request->request.sampling.temperature = 0;
      request->sink = [this](TextDelta&&) { ++delivered_; };
      workers_->Start(std::move(request));
    }
    while (loop_->state().waiting < kSequences) std::this_thread::yield();
    loop_->SetPaused(false);
    done_.wait(false);
    return allocations_;
  }
  int64_t verified() const { return verified_; }

 private:
  // On the step thread, in the place of the model.
  void Between(const model::DeviceBatch& batch) {
    const int64_t tokens = batch.tokens(), rows = batch.rows();
    const bool decodes = batch.sequences() == kSequences && tokens == rows;
    if (decodes && decoded_ < kWarmUp + kCountedSteps) verified_ += rows - kSequences;
    const int64_t now = thread_allocations;
    if (decodes && ++decoded_ > kWarmUp && decoded_ <= kWarmUp + kCountedSteps)
      allocations_ += now - left_;
    // The workers keep up, as they would beside a model that takes its time.
    while (delivered_ < expected_ && !stopping_) std::this_thread::yield();
    expected_ += std::min(rows, batch.sequences());
    if (decoded_ == kWarmUp + kCountedSteps) {
      done_ = true;
      done_.notify_all();
    }
    left_ = thread_allocations;
  }

  const std::optional<int> logprobs_;
  // Step thread; the rest reads them once done_ is true.
  int64_t left_ = 0, allocations_ = 0, expected_ = 0;
  int decoded_ = 0;
  int64_t verified_ = 0;  // drafts
  std::atomic<bool> done_ = false, stopping_ = false;
  std::atomic<int64_t> delivered_ = 0;

  exec::NullExecutor null_{{.sequences = kSequences,
                            .context = kContext,
                            .max_batch_tokens = kSequences * kPromptTokens,
                            .block_tokens = kBlockTokens,
                            .extra_rows = kSequences * kDrafts},
                           [this](const model::DeviceBatch& batch) { Between(batch); }};
  Metrics metrics_{"null"};
  std::unique_ptr<TextModelImpl> text_ = std::move(
      TextModelImpl::Make(files::OpenText(SourceDir() + "/tests/golden/models/llama").value())
          .value());
  std::unique_ptr<TextWorkers> workers_;
  std::unique_ptr<StepLoop> loop_;
};

TEST(StepAllocation, ADecodeStepOfTheLoopAllocatesNothing) {
  EXPECT_EQ(AllocationRig(std::nullopt).AllocationsOfDecoding(), 0);
}

TEST(StepAllocation, NorWithLogProbs) { EXPECT_EQ(AllocationRig(5).AllocationsOfDecoding(), 0); }

TEST(StepAllocation, NorWithDrafts) {
  for (const char* proposer : {"ngram", "suffix"}) {
    AllocationRig rig(std::nullopt, proposer);
    EXPECT_EQ(rig.AllocationsOfDecoding(), 0) << proposer;
    EXPECT_GT(rig.verified(), kCountedSteps * kDrafts) << "few drafts: the test shows nothing";
  }
}

}  // namespace
}  // namespace sluice::engine
