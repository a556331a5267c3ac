// The engine's metrics, in Prometheus' text format. Names that routers and dashboards know carry
// the vllm: prefix; ours carry sluice_. docs/metrics.md lists them. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "sluice/limits.h"

namespace sluice::engine {

struct GaugeValues {
  int64_t running = 0;
  int64_t waiting = 0;
  double kv_usage = 0;
  int64_t free_blocks = 0, total_blocks = 0;  // of all layer groups
  uint64_t preemptions = 0;
  uint64_t prefix_queries = 0;
  uint64_t prefix_hits = 0;
  // Of drafts, as schedule::SchedulerStats has them.
  uint64_t verified = 0, drafted = 0, accepted = 0;
  std::array<uint64_t, limits::kDraftTokensMax> accepted_at = {};
};

struct StepTimes {
  double plan_s = 0, prepare_s = 0, execute_s = 0, sample_s = 0, emit_s = 0;
  int tokens = 0;
  // Of all steps so far: zeros where a device counts none.
  uint64_t kernels_total = 0, device_calls_total = 0;
  // Steps that ran or were sampled without their graph for these reasons.
  uint64_t edits_total = 0, masks_total = 0, distributions_total = 0, tables_total = 0;
};

struct RequestTimes {
  double queue_s = 0, prefill_s = 0, decode_s = 0, e2e_s = 0, first_token_s = 0;
  int prompt_tokens = 0, generation_tokens = 0;
  std::string finish;  // "stop", "length", "cancelled", "error"
};

class Metrics {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics();

  void SetGauges(const GaugeValues& values);
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
