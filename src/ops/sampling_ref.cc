#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/rejection_rules.h"
#include "ops/sampling.h"
#include "ops/sampling_rules.h"

namespace sluice::ops {
namespace {

struct RowScan {
  int32_t argmax = 0;
  float max = -std::numeric_limits<float>::infinity();
  bool degenerate = false;
};

RowScan Scan(std::span<const float> logits) {
  RowScan scan;
  bool seen = false, signal = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float value = logits[i];
    if (std::isnan(value) || value == std::numeric_limits<float>::infinity())
      scan.degenerate = true;
    if (std::isnan(value)) continue;
    if (value != 0.0f && !std::isinf(value)) signal = true;
    if (!seen || value > scan.max) {
      scan.max = value;
      scan.argmax = static_cast<int32_t>(i);
      seen = true;
    }
  }
  scan.degenerate |= !signal;
  return scan;
}

// The weights of one row's logits over one divisor. REQUIRES: `largest` is the largest logit and
// finite.
struct Weights {
  Weights(std::span<const float> row, float largest, float divisor)
      : logits(row),
        max(largest),
        scale(WeightScale(divisor)),
        grid(WeightGrid(static_cast<int64_t>(row.size()))) {}

  float x(int64_t id) const { return (logits[id] - max) * scale; }
  double operator()(int64_t id) const {
    if (!(x(id) >= kWeightFloor)) return 0.0;
    return (WeightExp(x(id)) + grid) - grid;
  }
  double Total() const {
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) sum += (*this)(static_cast<int64_t>(i));
    return sum;
  }

  std::span<const float> logits;
  float max, scale;
  double grid;
};

void Mask(const Sample::Args& args, const SampleRow& params, std::span<float> logits) {
  const uint32_t* allowed = reinterpret_cast<const uint32_t*>(
      args.masks.ptr<int32_t>() + params.mask_row * args.masks.strides[0]);
  for (size_t i = 0; i < logits.size(); ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1u) == 0) {
      logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

// `raw` with the largest `max`; `logits` are these, or -inf for ids that are not told of.
void ReportLogprobs(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                    std::span<const float> raw, std::span<const float> logits, float max,
                    double log_total, int32_t* order, SampleOutput* output) {
  const SampleRow& params = RowsOf(args)[row];
  const float logit = raw[output->token];
  output->logprob = LogProb(logit, max, 1.0f, log_total);
  output->rank = 0;
  for (int64_t i = 0; i < desc.vocab; ++i) {
    output->rank += logits[i] > logit || (logits[i] == logit && i < output->token) ? 1 : 0;
  }
  const Before before{logits.data()};
  const int32_t wanted =
      std::min({params.top_logprobs, desc.top_logprobs_max, static_cast<int32_t>(desc.vocab)});
  std::iota(order, order + desc.vocab, 0);
  std::partial_sort(order, order + wanted, order + desc.vocab, before);
  const int64_t stride = args.top_ids.strides[0];
  int32_t* ids = args.top_ids.ptr<int32_t>() + row * stride;
  float* logprobs = args.top_logprobs.ptr<float>() + row * stride;
  for (int32_t i = 0; i < wanted; ++i) {
    ids[i] = order[i];
    logprobs[i] = LogProb(logits[order[i]], max, 1.0f, log_total);
  }
  if (output->rank >= wanted) {
    ids[wanted] = output->token;
    logprobs[wanted] = output->logprob;
  }
}

// Applies edits, penalties and mask to a copy of the logits.
void Process(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
             std::span<float> logits) {
  EditLogits(desc, args, row, logits.data());
  const SampleRow& params = RowsOf(args)[row];
  if (params.mask_row >= 0) Mask(args, params, logits);
}

// The kept tokens are always the first ones in Before's order, because top-k, top-p and min-p each
// keep a prefix of it. Sorts as much of `order` as is needed and returns how many are kept.
int64_t SortKept(const SampleRow& params, const Weights& weight, int32_t* order, int64_t vocab) {
  const Before before{weight.logits.data()};
  const int64_t limit = LimitsTopK(params, vocab) ? params.top_k : vocab;
  double total = 0;
  if (limit < vocab) {
    std::nth_element(order, order + limit - 1, order + vocab, before);
    std::sort(order, order + limit, before);
    for (int64_t i = 0; i < limit; ++i) total += weight(order[i]);
  } else {
    total = weight.Total();
  }
  const float floor = FloorOf(params);
  int64_t sorted = limit < vocab ? limit : 0;
  int64_t chunk = 256;
  double kept = 0;
  for (int64_t i = 0; i < limit; ++i) {
    if (i == sorted) {
      const int64_t end = std::min(limit, sorted + chunk);
      std::nth_element(order + sorted, order + end - 1, order + vocab, before);
      std::sort(order + sorted, order + end, before);
      sorted = end;
      chunk *= 4;
    }
    if (i > 0 && !(weight.x(order[i]) >= floor)) return i;
    kept += weight(order[i]);
    if (LimitsTopP(params) && kept >= TopPTarget(params, total)) return i + 1;
  }
  return limit;
}

// `kept`: ascending ids, whose weights sum to `total`.
int32_t Verify(const Sample::Args& args, const SampleRow& params, const Weights& weight,
               std::span<const int32_t> kept, double total) {
  const auto row = [](const float* logits, int64_t n) {
    return std::span<const float>(logits, static_cast<size_t>(n));
  };
  const Proposal proposal(
      args, params, [&](const float* logits, int64_t n) { return Scan(row(logits, n)); },
      [&](const float* logits, int64_t n, float max, float divisor) {
        return Weights(row(logits, n), max, divisor).Total();
      });
  const double steps = StepsPerWeight(static_cast<int64_t>(weight.logits.size()));
  const auto in_steps = [&](int32_t id) { return static_cast<uint64_t>(weight(id) * steps); };
  const bool has = std::binary_search(kept.begin(), kept.end(), params.target);
  return DrawByRejection(params, proposal, static_cast<uint64_t>(total * steps),
                         has ? in_steps(params.target) : 0, [&](const auto& visit) {
                           for (const int32_t id : kept) {
                             if (!visit(id, in_steps(id))) return;
                           }
                         });
}

float* Distribution(const Sample::Args& args, const SampleRow& params) {
  return args.distributions.ptr<float>() + params.distribution_row * args.distributions.strides[0];
}

bool WantsFiltered(const SampleRow& params) {
  return params.draw && params.filtered && params.distribution_row >= 0;
}

// `kept`: ids whose weights sum to `total`.
void ReportFiltered(const Sample::Args& args, const SampleRow& params, const Weights& weight,
                    std::span<const int32_t> kept, double total) {
  float* const distribution = Distribution(args, params);
  std::fill_n(distribution, weight.logits.size(), kZeroProbability);
  const double log_total = std::log(total);
  for (const int32_t id : kept) {
    if (weight(id) == 0.0) continue;
    distribution[id] = LogProb(weight.logits[id], weight.max, LogitDivisor(params), log_total);
  }
}

int32_t Draw(const Sample::Args& args, const SampleRow& params, const Weights& weight,
             int32_t* order) {
  int64_t count = static_cast<int64_t>(weight.logits.size());
  std::iota(order, order + count, 0);
  if (LimitsTopK(params, count) || LimitsByShare(params)) {
    count = SortKept(params, weight, order, count);
    std::sort(order, order + count);
  }
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += weight(order[i]);
  if (WantsFiltered(params))
    ReportFiltered(args, params, weight, std::span(order, static_cast<size_t>(count)), total);
  if (Rejects(params, static_cast<int64_t>(weight.logits.size())))
    return Verify(args, params, weight, std::span(order, static_cast<size_t>(count)), total);
  const double aim = DrawAim(total, LotOf(params, DrawPurpose::kToken));
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += weight(order[i]);
    if (sum > aim) return order[i];
  }
  return order[0];
}

void DrawToken(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
               std::span<const float> raw, const RowScan& scan, std::span<float> workspace,
               SampleOutput* output) {
  const SampleRow& params = RowsOf(args)[row];
  const size_t vocab = raw.size();
  const bool greedy = params.greedy();
  const bool wants_logprob = params.top_logprobs >= 0;
  output->token = scan.argmax;
  // What no draw is left to fill in: all lies on one id, or nothing may be drawn.
  if (WantsFiltered(params)) std::fill_n(Distribution(args, params), vocab, kZeroProbability);
  const bool edited = params.edit_count > 0 || params.counts_row >= 0 || params.mask_row >= 0;
  if (greedy && !edited && !wants_logprob) {
    if (WantsFiltered(params)) Distribution(args, params)[output->token] = 0.0f;
    return;
  }
  std::span<float> logits = workspace.first(vocab);
  std::copy(raw.begin(), raw.end(), logits.begin());
  Process(desc, args, row, logits);
  const auto best = std::max_element(logits.begin(), logits.end());
  if (std::isinf(*best)) {
    output->degenerate = true;
    return;
  }
  const float divisor = LogitDivisor(params);
  const Weights weight(logits, *best, divisor);
  output->token = static_cast<int32_t>(best - logits.begin());
  if (!greedy) {
    output->token =
        Draw(args, params, weight, reinterpret_cast<int32_t*>(workspace.data() + vocab));
  } else if (WantsFiltered(params)) {
    Distribution(args, params)[output->token] = 0.0f;
  }
  if (wants_logprob) {
    output->processed_logprob =
        LogProb(logits[output->token], *best, divisor, std::log(weight.Total()));
  }
}

}  // namespace

void EditLogits(const Sample::Desc& desc, const Sample::Args& args, int64_t row, float* logits) {
  const std::span<const SampleRow> rows = RowsOf(args);
  const SampleRow& params = rows[row];
  const float* const raw = args.logits.ptr<float>() + row * args.logits.strides[0];
  const uint32_t* const counts =
      params.counts_row < 0
          ? nullptr
          : args.counts.ptr<uint32_t>() + params.counts_row * args.counts.strides[0];
  const auto count_of = [&](int32_t id) {
    uint32_t count = counts[id];
    for (int32_t d = 1; d <= params.drafts; ++d) count += rows[row - d].target == id ? 1 : 0;
    return count;
  };
  const auto apply = [&](LogitEdit edit) {
    if (edit.id < 0 || edit.id >= desc.vocab) return;
    if (counts != nullptr) AddPenalties(params, count_of(edit.id), &edit);
    logits[edit.id] = Edited(edit, raw[edit.id]);
  };
  if (counts != nullptr) {
    constexpr int64_t kBlock = 32;  // mostly without a count
    for (int64_t begin = 0; begin < desc.vocab; begin += kBlock) {
      const int64_t end = std::min(desc.vocab, begin + kBlock);
      uint32_t any = 0;
      for (int64_t id = begin; id < end; ++id) any |= counts[id];
      if (any == 0) continue;
      for (int64_t id = begin; id < end; ++id) {
        if (counts[id] != 0) apply({.id = static_cast<int32_t>(id)});
      }
    }
    for (int32_t d = 1; d <= params.drafts; ++d) apply({.id = rows[row - d].target});
  }
  for (const LogitEdit& edit : EditsOf(args).subspan(params.edit_begin, params.edit_count)) {
    apply(edit);
  }
}

void ReportDegenerate(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                      int32_t argmax) {
  const SampleRow& params = RowsOf(args)[row];
  SampleOutput& output = OutputsOf(args)[row];
  output = {.token = params.draw ? argmax : params.target, .degenerate = true};
  if (params.top_logprobs >= 0) {
    output.logprob = output.processed_logprob = kZeroProbability;
    args.top_ids.ptr<int32_t>()[row * args.top_ids.strides[0]] = output.token;
    args.top_logprobs.ptr<float>()[row * args.top_ids.strides[0]] = kZeroProbability;
  }
  if (params.distribution_row >= 0) {
    std::fill_n(Distribution(args, params), desc.vocab, kZeroProbability);
  }
}

namespace {

void SampleRowOutputs(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                      std::span<float> workspace) {
  const SampleRow& params = RowsOf(args)[row];
  SampleOutput& output = OutputsOf(args)[row];
  output = {};
  const std::span<const float> raw(args.logits.ptr<float>() + row * args.logits.strides[0],
                                   static_cast<size_t>(desc.vocab));
  const RowScan scan = Scan(raw);
  if (scan.degenerate) return ReportDegenerate(desc, args, row, scan.argmax);
  if (params.draw) {
    DrawToken(desc, args, row, raw, scan, workspace, &output);
  } else {
    output.token = params.target;
  }
  if (params.top_logprobs < 0 && params.distribution_row < 0) return;
  const double log_total = std::log(Weights(raw, scan.max, 1.0f).Total());
  if (params.top_logprobs >= 0) {
    std::span<const float> told = raw;
    if (params.top_allowed && params.mask_row >= 0) {
      const std::span<float> allowed = workspace.first(raw.size());
      std::copy(raw.begin(), raw.end(), allowed.begin());
      Mask(args, params, allowed);
      told = allowed;
    }
    ReportLogprobs(desc, args, row, raw, told, scan.max, log_total,
                   reinterpret_cast<int32_t*>(workspace.data() + desc.vocab), &output);
  }
  if (params.distribution_row >= 0 && !WantsFiltered(params)) {
    float* distribution = Distribution(args, params);
    for (int64_t i = 0; i < desc.vocab; ++i) {
      distribution[i] = LogProb(raw[i], scan.max, 1.0f, log_total);
    }
  }
}

}  // namespace

void SampleOneRow(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                  std::span<float> workspace) {
  SampleRowOutputs(desc, args, row, workspace);
}

Support RefSampleSupports(const Sample::Desc& desc, const device::DeviceFacts&) {
  if (desc.vocab < 1 || desc.vocab > std::numeric_limits<int32_t>::max()) {
    return Support::No(StrCat("a vocabulary of ", desc.vocab));
  }
  return Support::Yes();
}

Status RefSample(device::Stream&, const Sample::Desc& desc, const Sample::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  std::vector<float> workspace(static_cast<size_t>(2 * desc.vocab));
  for (int64_t row = 0; row < args.rows.dims[0]; ++row) SampleOneRow(desc, args, row, workspace);
  return OkStatus();
}

}  // namespace sluice::ops
