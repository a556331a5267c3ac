// The engine's metrics, in Prometheus' text format. Names that routers and dashboards know carry
// the vllm: prefix; ours carry sluice_. docs/metrics.md lists them. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/step_runner.h"
#include "experts/balancer.h"
#include "schedule/scheduler.h"

namespace sluice::engine {

struct StepTimes {
  double plan_s = 0, prepare_s = 0, execute_s = 0, sample_s = 0, emit_s = 0;
  int tokens = 0;
  exec::RunnerTotals totals;  // of all steps so far
};

struct RequestTimes {
  double queue_s = 0, prefill_s = 0, decode_s = 0, e2e_s = 0, first_token_s = 0;
  int prompt_tokens = 0, generation_tokens = 0;
  std::string finish;  // "stop", "length", "tool_calls", "cancelled", "error"
};

struct DraftingTotals;

class Metrics {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics();

  void SetGauges(const schedule::SchedulerStats& stats);
  void SetDrafting(const DraftingTotals& totals);
  // Null: the model has no experts. Not costly where nothing was taken since the last call.
  void SetExperts(const experts::Loads* loads);
  // How they are spread over ranks, with the loads of slots; null: they stay where they are.
  void SetExpertBalance(const experts::Balancer* balancer, const experts::Loads* slot_loads);
  void ObserveStep(const StepTimes& times);
  // An implementation of an op that would have been better declined.
  void CountFallback(const std::string& op, const std::string& reason);
  // Rows that drew nothing since their masks were not ready.
  void CountLateMasks(int64_t rows);
  void ObserveInterToken(double seconds);
  void ObserveRequest(const RequestTimes& times);
  std::string Text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace sluice::engine
