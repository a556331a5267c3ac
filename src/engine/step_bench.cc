// Host cost of a step without the model: everything from the end of one forward pass to the start
// of the next (draw, commit, hand to the text workers, publish, plan, build the inputs), with a
// model that computes nothing and `sequences` that decode. While that model "runs", the text
// workers finish what they were handed, as they would beside a real one; their time is reported
// apart (text_us: processor time per step, events included, JSON not). host_us is the sum of plan,
// prepare (inputs) and emit (commit and hand over, the wake-up of the text worker included: in a
// virtual machine that alone takes 15 to 20 us); the time per iteration holds the drawing too.
// `evict` walks over so many MiB in each forward pass, since a real one leaves nothing of the
// host's data in the caches. `drafts` of each sequence are verified in a step, and all are right.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/check.h"
#include "base/source_dir_fixture.h"
#include "base/str_cat.h"
#include "engine/step.h"
#include "exec/null_model_fixture.h"

namespace sluice::engine {
namespace {

constexpr int kSteps = 500, kWarmUp = 100;
constexpr int kPrompt = 32, kContext = 2048, kBlockTokens = 32;

int64_t Nanoseconds(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

class Rig {
 public:
  Rig(int sequences, size_t evict_bytes, int drafts)
      : rows_(sequences * (1 + drafts)),
        sequences_(sequences),
        evicted_(evict_bytes),
        null_({.sequences = sequences,
               .context = kContext,
               .max_batch_tokens = sequences * kPrompt,
               .block_tokens = kBlockTokens,
               .extra_rows = std::max(16, sequences * drafts),
               .drafts = drafts},
              [this](const model::DeviceBatch& batch) { Between(batch.tokens(), batch.rows()); }),
        text_(std::move(
            TextModelImpl::Make(files::OpenText(SourceDir() + "/tests/golden/models/llama").value())
                .value())) {
    samples_.reserve(kWarmUp + kSteps);
    schedule::SchedulerOptions options;
    options.max_num_seqs = sequences;
    options.max_batch_tokens = sequences * kPrompt;
    options.max_model_len = kContext;
    options.queue_limit = sequences;
    options.policy = "priority";
    options.max_draft_tokens = drafts;
    options.max_extra_rows = std::max(16, sequences * drafts);
    loop_ = std::make_unique<StepLoop>(
        *null_.executor,
        std::move(schedule::Scheduler::Create(options, null_.store->groups()).value()), metrics_);
    TextContext context;
    context.text = text_.get();
    context.metrics = &metrics_;
    context.max_model_len = context.longest_sequence = kContext;
    context.device_drafts = drafts;
    context.add = [this](auto request, auto specs) {
      return loop_->Add(std::move(request), std::move(specs));
    };
    context.stop = [](auto, int) {};
    context.ended = [](RequestId) {};
    workers_ = std::make_unique<TextWorkers>(1, std::move(context));
    loop_->Start(workers_.get());
  }
  ~Rig() {
    stopping_ = true;
    loop_->Stop();
    workers_->Stop();
  }

  void Run() {
    for (int i = 0; i < sequences_; ++i) {
      auto request = std::make_shared<RequestState>();
      request->id = static_cast<RequestId>(i + 1);
      request->request.prompt = std::vector<int32_t>(kPrompt, i % 50 + 5);
      request->request.max_tokens = kContext - kPrompt;
      request->request.ignore_eos = true;
      request->request.sampling.temperature = 0;
      request->sink = [this](TextDelta&& delta) {
        CHECK(delta.error.ok(), delta.error.message());
        text_ns_ = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        delivered_ += static_cast<int64_t>(delta.tokens.size());
      };
      workers_->Start(std::move(request));
    }
    done_.wait(false);
  }

  // Of each step after those that warm up.
  std::vector<int64_t> host_ns() const { return {samples_.begin() + kWarmUp, samples_.end()}; }
  double text_us() const { return 1e-3 * static_cast<double>(text_end_ - text_begin_) / kSteps; }
  double cpu_us() const { return 1e-3 * static_cast<double>(cpu_ns_) / kSteps; }
  // Mean of a phase over all steps.
  double PhaseUs(std::string_view phase) const {
    const std::string text = metrics_.Text();
    const auto value = [&](std::string_view kind) {
      const std::string label = StrCat("phase=\"", phase, "\"} ");
      for (size_t at = 0;
           (at = text.find(StrCat("sluice_step_seconds_", kind), at)) != std::string::npos; ++at) {
        const size_t end = text.find('\n', at), found = text.find(label, at);
        if (found < end) return std::stod(text.substr(found + label.size(), end - found));
      }
      return 0.0;
    };
    return 1e6 * value("sum") / value("count");
  }

 private:
  // On the step thread, in the place of the model.
  void Between(int64_t tokens, int64_t rows) {
    const int64_t entered = Nanoseconds(CLOCK_MONOTONIC);
    const bool steady = rows == rows_ && tokens == rows && steady_;
    if (steady && samples_.size() < kWarmUp + kSteps) {
      samples_.push_back(entered - left_);
      if (samples_.size() > kWarmUp) cpu_ns_ += Nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_left_;
    }
    steady_ = rows == rows_ && tokens == rows;
    while (delivered_ < expected_ && !stopping_) std::this_thread::yield();
    expected_ += rows;
    if (samples_.size() == kWarmUp) text_begin_ = text_ns_;
    if (samples_.size() == kWarmUp + kSteps && !done_) {
      text_end_ = text_ns_;
      done_ = true;
      done_.notify_all();
    }
    for (size_t at = 0; at < evicted_.size(); at += 64) ++evicted_[at];
    cpu_left_ = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    left_ = Nanoseconds(CLOCK_MONOTONIC);
  }

  const int rows_;  // of a step in which all decode
  const int sequences_;
  std::vector<uint8_t> evicted_;

  // Step thread; the rest reads them once done_ is true.
  std::vector<int64_t> samples_;
  int64_t left_ = 0, cpu_left_ = 0, cpu_ns_ = 0, expected_ = 0, text_begin_ = 0, text_end_ = 0;
  bool steady_ = false;

  std::atomic<bool> done_ = false, stopping_ = false;
  std::atomic<int64_t> delivered_ = 0, text_ns_ = 0;

  exec::NullExecutor null_;
  Metrics metrics_{"null"};
  std::unique_ptr<TextModelImpl> text_;
  std::unique_ptr<TextWorkers> workers_;
  std::unique_ptr<StepLoop> loop_;
};

void BM_HostStep(benchmark::State& state) {
  Rig rig(static_cast<int>(state.range(0)), static_cast<size_t>(state.range(1)) << 20,
          static_cast<int>(state.range(2)));
  rig.Run();
  std::vector<int64_t> samples = rig.host_ns();
  size_t next = 0;
  for (auto _ : state) state.SetIterationTime(1e-9 * static_cast<double>(samples[next++]));
  std::sort(samples.begin(), samples.end());
  state.counters["median_us"] = 1e-3 * static_cast<double>(samples[samples.size() / 2]);
  state.counters["p90_us"] = 1e-3 * static_cast<double>(samples[samples.size() * 9 / 10]);
  state.counters["cpu_us"] = rig.cpu_us();
  state.counters["text_us"] = rig.text_us();
  double host_us = 0;
  for (const char* phase : {"plan", "prepare", "emit"}) {
    const double phase_us = rig.PhaseUs(phase);
    state.counters[StrCat(phase, "_us")] = phase_us;
    host_us += phase_us;
  }
  state.counters["host_us"] = host_us;
  state.counters["sample_us"] = rig.PhaseUs("sample");
}
BENCHMARK(BM_HostStep)
    ->ArgNames({"sequences", "evict", "drafts"})
    ->Args({1, 0, 0})
    ->Args({32, 0, 0})
    ->Args({256, 0, 0})
    ->Args({256, 8, 0})
    ->Args({256, 0, 2})
    ->Args({256, 8, 2})
    ->Iterations(kSteps)
    ->Repetitions(3)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::engine
