#include "engine/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "engine/drafter.h"

namespace sluice::engine {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
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

// Makes metrics that carry the name of a model.
struct Labelled {
  explicit Labelled(const std::string& model_name) : labels{{"model_name", model_name}} {}

  // `build` makes a builder of the library, as prometheus::BuildCounter does.
  template <class Build>
  auto& NewFamily(Build build, const std::string& name, const std::string& help) {
    return build().Name(name).Help(help).Register(registry);
  }
  template <class Build, class... Bounds>
  auto& New(Build build, const std::string& name, const std::string& help,
            const Bounds&... bounds) {
    return NewFamily(build, name, help).Add(labels, bounds...);
  }
  // The labels and those given.
  prometheus::Labels With(prometheus::Labels more) const {
    more.insert(labels.begin(), labels.end());
    return more;
  }

  prometheus::Labels labels;
  prometheus::Registry registry;
};

struct Metrics::Families : Labelled {
  using Labelled::Labelled;

  Histogram& NewPhase(const std::string& phase) {
    return phases.Add(With({{"phase", phase}}), kStep);
  }
  Counter& Fallback(const std::string& op, const std::string& reason) {
    return fallback.Add(With({{"op", op}, {"reason", reason}}));
  }
  std::array<Counter*, limits::kDraftTokensMax> NewPositions() {
    auto& family = NewFamily(BuildCounter, "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                             "Draft tokens that were accepted, by their place in the draft");
    std::array<Counter*, limits::kDraftTokensMax> counters = {};
    for (size_t i = 0; i < counters.size(); ++i) {
      counters[i] = &family.Add(With({{"position", std::to_string(i)}}));
    }
    return counters;
  }

  std::array<Counter*, limits::kDraftTokensMax + 1> NewLengths() {
    auto& family = NewFamily(BuildCounter, "sluice_draft_lengths_total",
                             "Drafts that were chosen for a sequence and a step, by their tokens");
    std::array<Counter*, limits::kDraftTokensMax + 1> counters = {};
    for (size_t i = 0; i < counters.size(); ++i) {
      counters[i] = &family.Add(With({{"tokens", std::to_string(i)}}));
    }
    return counters;
  }

  Gauge& running = New(BuildGauge, "vllm:num_requests_running", "Sequences that hold KV blocks");
  Gauge& waiting = New(BuildGauge, "vllm:num_requests_waiting", "Sequences that wait to be served");
  Gauge& kv_usage =
      New(BuildGauge, "vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1");
  Gauge& free_blocks = New(BuildGauge, "sluice_kv_blocks_free", "KV blocks that no sequence holds");
  Gauge& total_blocks = New(BuildGauge, "sluice_kv_blocks_total", "KV blocks in all");
  Counter& prefix_queries = New(BuildCounter, "vllm:prefix_cache_queries_total",
                                "Prompt tokens looked up in the prefix cache");
  Counter& prefix_hits =
      New(BuildCounter, "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache");
  Counter& preemptions = New(BuildCounter, "vllm:num_preemptions_total",
                             "Sequences that gave up their KV blocks for others");
  Counter& verified = New(BuildCounter, "vllm:spec_decode_num_drafts_total",
                          "Times that a step verified drafts of a sequence");
  Counter& drafted = New(BuildCounter, "vllm:spec_decode_num_draft_tokens_total",
                         "Draft tokens that were verified");
  Counter& accepted = New(BuildCounter, "vllm:spec_decode_num_accepted_tokens_total",
                          "Draft tokens that were accepted");
  Counter& forced = New(BuildCounter, "sluice_forced_draft_tokens_total",
                        "Draft tokens that were forced by a constraint, among all drafts");
  Counter& forced_accepted = New(BuildCounter, "sluice_forced_accepted_tokens_total",
                                 "Draft tokens that were forced and accepted");
  Counter& aside = New(BuildCounter, "sluice_aside_accepted_tokens_total",
                       "Draft tokens that were accepted aside of a tree's first branch");
  std::array<Counter*, limits::kDraftTokensMax> accepted_at = NewPositions();
  std::array<Counter*, limits::kDraftTokensMax + 1> draft_lengths = NewLengths();
  Counter& learned_texts =
      New(BuildCounter, "sluice_learned_texts_total",
          "Prompts with their answers that drafts of later sequences may come from");
  Counter& late_drafts = New(BuildCounter, "sluice_late_drafts_total",
                             "Times that the drafts of a sequence were not ready for its step");
  Counter& drafting = New(BuildCounter, "sluice_drafting_seconds_total",
                          "Time of the thread that finds drafts, while it looks for them");
  Counter& prompt_tokens =
      New(BuildCounter, "vllm:prompt_tokens_total", "Prompt tokens of ended requests");
  Counter& generation_tokens =
      New(BuildCounter, "vllm:generation_tokens_total", "Tokens drawn for ended requests");
  Counter& kernels = New(BuildCounter, "sluice_kernel_launches_total",
                         "Kernels launched, those of replayed graphs included");
  Counter& device_calls =
      New(BuildCounter, "sluice_device_calls_total", "Calls of the device's driver for steps");
  Histogram& first_token = New(BuildHistogram, "vllm:time_to_first_token_seconds",
                               "From submission to the first token", kLatency);
  Histogram& inter_token = New(BuildHistogram, "vllm:inter_token_latency_seconds",
                               "Between two tokens of one sequence", kLatency);
  Histogram& e2e = New(BuildHistogram, "vllm:e2e_request_latency_seconds",
                       "From submission to the last token", kLatency);
  Histogram& queue = New(BuildHistogram, "vllm:request_queue_time_seconds",
                         "From submission to admission", kLatency);
  Histogram& prefill = New(BuildHistogram, "vllm:request_prefill_time_seconds",
                           "From admission to the first token", kLatency);
  Histogram& decode = New(BuildHistogram, "vllm:request_decode_time_seconds",
                          "From the first token to the last", kLatency);
  prometheus::Family<Counter>& success =
      NewFamily(BuildCounter, "vllm:request_success_total", "Ended requests by reason");
  prometheus::Family<Histogram>& phases =
      NewFamily(BuildHistogram, "sluice_step_seconds", "Time of a step by phase");
  prometheus::Family<Counter>& fallback = NewFamily(
      BuildCounter, "sluice_fallback_total", "What did not run in the better way, by reason");
  // By exec::EagerSampling.
  std::array<Counter*, exec::kEagerSamplings> eager_samplings = {
      &Fallback("sample", "more edits of logits than a graph holds"),
      &Fallback("sample", "more masks than a graph holds"),
      &Fallback("sample", "whole distributions")};
  Counter& eager_tables = Fallback("place_tokens", "more block ids than a graph holds");
  Counter& late_masks = New(BuildCounter, "sluice_late_masks_total",
                            "Rows whose mask was not ready in time, to be computed again");
  // Of a model with experts; made when the first loads are told.
  std::vector<Gauge*> expert_load, expert_imbalance;
  Counter* expert_choices = nullptr;
  uint64_t expert_takes = 0;
  void MakeExperts(const experts::Loads& loads) {
    auto& load = NewFamily(BuildGauge, "sluice_expert_load",
                           "Tokens that an expert was given lately, in all layers");
    for (int e = 0; e < loads.experts(); ++e)
      expert_load.push_back(&load.Add(With({{"expert", std::to_string(e)}})));
    auto& imbalance = NewFamily(BuildGauge, "sluice_expert_imbalance",
                                "Load of a layer's busiest expert over the mean of all");
    for (const int layer : loads.layers())
      expert_imbalance.push_back(&imbalance.Add(With({{"layer", std::to_string(layer)}})));
    expert_choices = &New(BuildCounter, "sluice_expert_choices_total",
                          "Experts that tokens were given, over all tokens and layers");
  }
  // Of a model whose experts lie among ranks; made likewise.
  std::vector<Gauge*> rank_load, rank_imbalance;
  Gauge* map_version = nullptr;
  Counter *migrations = nullptr, *migrated_bytes = nullptr;
  uint64_t slot_takes = 0;
  void MakeRanks(const experts::Balancer& balancer) {
    auto& load = NewFamily(BuildGauge, "sluice_expert_rank_load",
                           "Tokens that the experts of a rank were given lately, in all layers");
    for (int rank = 0; rank < balancer.options().shape.ranks; ++rank)
      rank_load.push_back(&load.Add(With({{"rank", std::to_string(rank)}})));
    auto& imbalance = NewFamily(BuildGauge, "sluice_expert_rank_imbalance",
                                "Load of a layer's busiest rank over the mean of all");
    for (const int layer : balancer.options().layers)
      rank_imbalance.push_back(&imbalance.Add(With({{"layer", std::to_string(layer)}})));
    map_version = &New(BuildGauge, "sluice_expert_map_version",
                       "Version of the map that says where experts lie");
    migrations = &New(BuildCounter, "sluice_expert_migrations_total",
                      "Experts that were copied to another slot");
    migrated_bytes = &New(BuildCounter, "sluice_expert_migrated_bytes_total",
                          "Bytes of experts that were copied to another slot");
  }
  Histogram& plan = NewPhase("plan");
  Histogram& prepare = NewPhase("prepare");
  Histogram& execute = NewPhase("execute");
  Histogram& sample = NewPhase("sample");
  Histogram& emit = NewPhase("emit");
  Histogram& tokens =
      New(BuildHistogram, "sluice_execute_tokens", "Tokens computed in a step", kTokens);
};

namespace {

void Raise(Counter& counter, uint64_t total) {
  const double missing = static_cast<double>(total) - counter.Value();
  if (missing > 0) counter.Increment(missing);
}

template <size_t kCount>
void Raise(const std::array<Counter*, kCount>& counters,
           const std::array<uint64_t, kCount>& totals) {
  for (size_t i = 0; i < kCount; ++i) Raise(*counters[i], totals[i]);
}

}  // namespace

Metrics::Metrics(const std::string& model_name)
    : families_(std::make_unique<Families>(model_name)) {}
Metrics::~Metrics() = default;

void Metrics::SetGauges(const schedule::SchedulerStats& stats) {
  families_->running.Set(stats.running);
  families_->waiting.Set(stats.waiting);
  families_->kv_usage.Set(stats.kv_usage);
  families_->free_blocks.Set(static_cast<double>(stats.free_blocks));
  families_->total_blocks.Set(static_cast<double>(stats.total_blocks));
  Raise(families_->preemptions, stats.preemptions);
  Raise(families_->prefix_queries, stats.prefix_queries);
  Raise(families_->prefix_hits, stats.prefix_hits);
  Raise(families_->verified, stats.verified);
  Raise(families_->drafted, stats.drafted);
  Raise(families_->accepted, stats.accepted);
  Raise(families_->forced, stats.forced);
  Raise(families_->forced_accepted, stats.forced_accepted);
  Raise(families_->aside, stats.aside);
  Raise(families_->accepted_at, stats.accepted_at);
}

void Metrics::SetDrafting(const DraftingTotals& totals) {
  Raise(families_->learned_texts, totals.learned);
  Raise(families_->late_drafts, totals.late);
  Raise(families_->draft_lengths, totals.lengths);
  const double missing = totals.seconds - families_->drafting.Value();
  if (missing > 0) families_->drafting.Increment(missing);
}

void Metrics::SetExperts(const experts::Loads* loads) {
  Families& f = *families_;
  if (loads == nullptr || loads->takes() == f.expert_takes) return;
  f.expert_takes = loads->takes();
  if (f.expert_choices == nullptr) f.MakeExperts(*loads);
  std::vector<double> sums(f.expert_load.size());
  for (size_t i = 0; i < f.expert_imbalance.size(); ++i) {
    const auto layer = loads->Of(static_cast<int>(i));
    f.expert_imbalance[i]->Set(experts::Imbalance(layer));
    std::transform(sums.begin(), sums.end(), layer.begin(), sums.begin(), std::plus<>());
  }
  for (size_t e = 0; e < sums.size(); ++e) f.expert_load[e]->Set(sums[e]);
  Raise(*f.expert_choices, loads->choices());
}

void Metrics::SetExpertBalance(const experts::Balancer* balancer,
                               const experts::Loads* slot_loads) {
  if (balancer == nullptr) return;
  Families& f = *families_;
  if (f.map_version == nullptr) f.MakeRanks(*balancer);
  f.map_version->Set(static_cast<double>(balancer->map().version()));
  Raise(*f.migrations, balancer->totals().copies);
  Raise(*f.migrated_bytes, balancer->totals().bytes);
  if (slot_loads->takes() == f.slot_takes) return;
  f.slot_takes = slot_loads->takes();
  std::vector<double> sums(f.rank_load.size());
  for (size_t i = 0; i < f.rank_imbalance.size(); ++i) {
    const std::vector<double> ranks =
        experts::RankLoadsOf(balancer->options().shape, slot_loads->Of(static_cast<int>(i)));
    f.rank_imbalance[i]->Set(experts::Imbalance(ranks));
    std::transform(sums.begin(), sums.end(), ranks.begin(), sums.begin(), std::plus<>());
  }
  for (size_t rank = 0; rank < sums.size(); ++rank) f.rank_load[rank]->Set(sums[rank]);
}

void Metrics::CountFallback(const std::string& op, const std::string& reason) {
  families_->Fallback(op, reason).Increment();
}

void Metrics::ObserveStep(const StepTimes& times) {
  families_->plan.Observe(times.plan_s);
  families_->prepare.Observe(times.prepare_s);
  families_->execute.Observe(times.execute_s);
  families_->sample.Observe(times.sample_s);
  families_->emit.Observe(times.emit_s);
  families_->tokens.Observe(times.tokens);
  Raise(families_->kernels, times.totals.kernels);
  Raise(families_->device_calls, times.totals.host_calls);
  Raise(families_->eager_samplings, times.totals.eager_samplings);
  Raise(families_->eager_tables, times.totals.eager_tables);
}

void Metrics::CountLateMasks(int64_t rows) {
  families_->late_masks.Increment(static_cast<double>(rows));
}

void Metrics::ObserveInterToken(double seconds) { families_->inter_token.Observe(seconds); }

void Metrics::ObserveRequest(const RequestTimes& times) {
  families_->success.Add(families_->With({{"finished_reason", times.finish}})).Increment();
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
