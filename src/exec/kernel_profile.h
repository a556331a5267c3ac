// KernelProfiler: what the kernels of a model take of its steps, call by call: for `sluice bench
// --kernels`. Opens a runner of its own, whose steps it plans itself: without graphs, without
// drafts and one at a time. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "exec/step_runner.h"
#include "files/model_files.h"
#include "sluice/options.h"

namespace sluice::exec {

class CallTimer;
class LocalRunner;
struct TimedCall;

// Calls of one implementation with one shape.
struct KernelFigure {
  std::string op, implementation, shape;
  int64_t calls = 0;    // of a run
  double total_s = 0;   // of a run: the mean of all runs
  double median_s = 0;  // of a call
  // What a call has to move and to compute at least (ops/call_work.h): the mean, where it is known.
  bool known = false;
  double bytes = 0, flops = 0;
};

class KernelProfiler {
 public:
  static Result<std::unique_ptr<KernelProfiler>> Open(const files::ModelFiles& files,
                                                      const EngineOptions& options);
  ~KernelProfiler();

  const RunnerInfo& Info() const;
  device::Device& device();
  // As CallTimer has them.
  bool by_device() const;
  double copied_per_second() const;

  // Of `runs` runs, after one that warms up. In the order in which a step calls them.
  // kInvalidArgument: the KV cache is too small.
  Result<std::vector<KernelFigure>> Prefill(int prompt_tokens, int runs);
  // Steps in which as many sequences as there are contexts decode, each with so many tokens in the
  // cache at first. REQUIRES: no more than max_num_seqs.
  Result<std::vector<KernelFigure>> Decode(const std::vector<int>& contexts, int runs);

 private:
  // A sequence's tokens of a step.
  struct Piece {
    int slot = 0;
    int first = 0, tokens = 0;
    int prompt = 0;  // tokens of the prompt, of a piece of it; 0: the token drawn last
  };

  KernelProfiler();
  // The blocks of every group that a slot may have where sequences have so many tokens at most.
  Status Share(size_t sequences, int length);
  batch::BatchPlan PlanOf(const std::vector<Piece>& pieces);
  // The calls of the step are added to *calls; null: it is not timed.
  Status Step(const std::vector<Piece>& pieces, std::vector<TimedCall>* calls);
  Status Prompt(int slot, int tokens, std::vector<TimedCall>* calls);

  std::unique_ptr<LocalRunner> runner_;
  std::unique_ptr<CallTimer> timer_;  // of its device
  std::vector<int32_t> share_;        // cache blocks of a slot, by group
  int chunk_ = 1;                     // tokens of a step
  uint64_t steps_ = 0;
  uint64_t sequences_ = 0;             // begun so far
  std::vector<uint64_t> sequence_of_;  // by slot: the number of the one there
  double head_start_s_ = 0;            // CallTimer::Begin
};

}  // namespace sluice::exec
