#include "engine/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <vector>

namespace sluice::engine {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

const Histogram::BucketBoundaries kLatency = {0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5,
                                              1,     2.5,   5,    10,   20,   40,  80,   160};
const Histogram::BucketBoundaries kStep = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3,
                                           1e-2, 3e-2, 0.1,  0.3,  1};
const Histogram::BucketBoundaries kTokens = {1,   2,   4,   8,    16,   32,  64,
                                             128, 256, 512, 1024, 2048, 4096};

}  // namespace

struct Metrics::Families {
  explicit Families(const std::string& model_name) : labels{{"model_name", model_name}} {}

  Gauge& MakeGauge(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  Counter& MakeCounter(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Histogram& MakeHistogram(const std::string& name, const std::string& help,
                           const Histogram::BucketBoundaries& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     bounds);
  }
  Histogram& MakePhase(const std::string& phase) {
    prometheus::Labels with_phase = labels;
    with_phase["phase"] = phase;
    return phases.Add(with_phase, kStep);
  }

  Counter& MakeEager(const std::string& op, const std::string& reason) {
    prometheus::Labels with_reason = labels;
    with_reason["op"] = op;
    with_reason["reason"] = reason;
    return fallback.Add(with_reason);
  }

  std::array<Counter*, limits::kDraftTokensMax> MakePositions() {
    prometheus::Family<Counter>& family =
        prometheus::BuildCounter()
            .Name("vllm:spec_decode_num_accepted_tokens_per_pos_total")
            .Help("Draft tokens that were accepted, by their place in the draft")
            .Register(registry);
    std::array<Counter*, limits::kDraftTokensMax> counters = {};
    for (size_t i = 0; i < counters.size(); ++i) {
      prometheus::Labels with_position = labels;
      with_position["position"] = std::to_string(i);
      counters[i] = &family.Add(with_position);
    }
    return counters;
  }

  prometheus::Labels labels;
  prometheus::Registry registry;

  Gauge& running = MakeGauge("vllm:num_requests_running", "Sequences that hold KV blocks");
  Gauge& waiting = MakeGauge("vllm:num_requests_waiting", "Sequences that wait to be served");
  Gauge& kv_usage = MakeGauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1");
  Gauge& free_blocks = MakeGauge("sluice_kv_blocks_free", "KV blocks that no sequence holds");
  Gauge& total_blocks = MakeGauge("sluice_kv_blocks_total", "KV blocks in all");
  Counter& prefix_queries =
      MakeCounter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache");
  Counter& prefix_hits =
      MakeCounter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache");
  Counter& preemptions = MakeCounter("vllm:num_preemptions_total",
                                     "Sequences that gave up their KV blocks for others");
  Counter& verified = MakeCounter("vllm:spec_decode_num_drafts_total",
                                  "Times that a step verified drafts of a sequence");
  Counter& drafted =
      MakeCounter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens that were verified");
  Counter& accepted =
      MakeCounter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted");
  std::array<Counter*, limits::kDraftTokensMax> accepted_at = MakePositions();
  Counter& prompt_tokens =
      MakeCounter("vllm:prompt_tokens_total", "Prompt tokens of ended requests");
  Counter& generation_tokens =
      MakeCounter("vllm:generation_tokens_total", "Tokens drawn for ended requests");
  Counter& kernels = MakeCounter("sluice_kernel_launches_total",
                                 "Kernels launched, those of replayed graphs included");
  Counter& device_calls =
      MakeCounter("sluice_device_calls_total", "Calls of the device's driver for steps");
  Histogram& first_token = MakeHistogram("vllm:time_to_first_token_seconds",
                                         "From submission to the first token", kLatency);
  Histogram& inter_token = MakeHistogram("vllm:inter_token_latency_seconds",
                                         "Between two tokens of one sequence", kLatency);
  Histogram& e2e = MakeHistogram("vllm:e2e_request_latency_seconds",
                                 "From submission to the last token", kLatency);
  Histogram& queue =
      MakeHistogram("vllm:request_queue_time_seconds", "From submission to admission", kLatency);
  Histogram& prefill = MakeHistogram("vllm:request_prefill_time_seconds",
                                     "From admission to the first token", kLatency);
  Histogram& decode = MakeHistogram("vllm:request_decode_time_seconds",
                                    "From the first token to the last", kLatency);
  prometheus::Family<Counter>& success = prometheus::BuildCounter()
                                             .Name("vllm:request_success_total")
                                             .Help("Ended requests by reason")
                                             .Register(registry);
  prometheus::Family<Histogram>& phases = prometheus::BuildHistogram()
                                              .Name("sluice_step_seconds")
                                              .Help("Time of a step by phase")
                                              .Register(registry);
  prometheus::Family<Counter>& fallback = prometheus::BuildCounter()
                                              .Name("sluice_fallback_total")
                                              .Help("What did not run in the better way, by reason")
                                              .Register(registry);
  Counter& edits = MakeEager("sample", "more edits of logits than a graph holds");
  Counter& masks = MakeEager("sample", "more masks than a graph holds");
  Counter& distributions = MakeEager("sample", "whole distributions");
  Counter& tables = MakeEager("place_tokens", "more block ids than a graph holds");
  Counter& late_masks = MakeCounter("sluice_late_masks_total",
                                    "Rows whose mask was not ready in time, to be computed again");
  Histogram& plan = MakePhase("plan");
  Histogram& prepare = MakePhase("prepare");
  Histogram& execute = MakePhase("execute");
  Histogram& sample = MakePhase("sample");
  Histogram& emit = MakePhase("emit");
  Histogram& tokens = MakeHistogram("sluice_execute_tokens", "Tokens computed in a step", kTokens);
};

namespace {

void Raise(Counter& counter, uint64_t total) {
  const double missing = static_cast<double>(total) - counter.Value();
  if (missing > 0) counter.Increment(missing);
}

}  // namespace

Metrics::Metrics(const std::string& model_name)
    : families_(std::make_unique<Families>(model_name)) {}
Metrics::~Metrics() = default;

void Metrics::SetGauges(const GaugeValues& values) {
  families_->running.Set(static_cast<double>(values.running));
  families_->waiting.Set(static_cast<double>(values.waiting));
  families_->kv_usage.Set(values.kv_usage);
  families_->free_blocks.Set(static_cast<double>(values.free_blocks));
  families_->total_blocks.Set(static_cast<double>(values.total_blocks));
  Raise(families_->preemptions, values.preemptions);
  Raise(families_->prefix_queries, values.prefix_queries);
  Raise(families_->prefix_hits, values.prefix_hits);
  Raise(families_->verified, values.verified);
  Raise(families_->drafted, values.drafted);
  Raise(families_->accepted, values.accepted);
  for (size_t i = 0; i < values.accepted_at.size(); ++i) {
    Raise(*families_->accepted_at[i], values.accepted_at[i]);
  }
}

void Metrics::CountFallback(const std::string& op, const std::string& reason) {
  prometheus::Labels labels = families_->labels;
  labels["op"] = op;
  labels["reason"] = reason;
  families_->fallback.Add(labels).Increment();
}

void Metrics::ObserveStep(const StepTimes& times) {
  families_->plan.Observe(times.plan_s);
  families_->prepare.Observe(times.prepare_s);
  families_->execute.Observe(times.execute_s);
  families_->sample.Observe(times.sample_s);
  families_->emit.Observe(times.emit_s);
  families_->tokens.Observe(times.tokens);
  Raise(families_->kernels, times.kernels_total);
  Raise(families_->device_calls, times.device_calls_total);
  Raise(families_->edits, times.edits_total);
  Raise(families_->tables, times.tables_total);
  Raise(families_->masks, times.masks_total);
  Raise(families_->distributions, times.distributions_total);
}

void Metrics::CountLateMasks(int64_t rows) {
  families_->late_masks.Increment(static_cast<double>(rows));
}

void Metrics::ObserveInterToken(double seconds) { families_->inter_token.Observe(seconds); }

void Metrics::ObserveRequest(const RequestTimes& times) {
  prometheus::Labels labels = families_->labels;
  labels["finished_reason"] = times.finish;
  families_->success.Add(labels).Increment();
  families_->prompt_tokens.Increment(times.prompt_tokens);
  families_->generation_tokens.Increment(times.generation_tokens);
  families_->e2e.Observe(times.e2e_s);
  families_->queue.Observe(times.queue_s);
  if (times.generation_tokens == 0) return;
  families_->first_token.Observe(times.first_token_s);
  families_->prefill.Observe(times.prefill_s);
  families_->decode.Observe(times.decode_s);
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace sluice::engine
