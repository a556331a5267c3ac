#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/philox.h"
#include "ops/sampling.h"

namespace sluice::ops {
namespace {

// What a log-prob is reported as when a probability is zero: JSON has no infinity, and clients of
// OpenAI's API know this value.
constexpr float kZeroProbability = -9999.0f;

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

// log(sum(exp(x / temperature))) over finite maxima; REQUIRES: max is the largest x and finite.
double LogSumExp(std::span<const float> x, float max, float temperature) {
  double sum = 0;
  for (const float value : x) sum += std::exp((value - max) / temperature);
  return static_cast<double>(max) / temperature + std::log(sum);
}

float Reported(double logprob) {
  return std::isfinite(logprob) ? static_cast<float>(logprob) : kZeroProbability;
}

float* Distribution(const Sample::Args& args, const SampleRow& params) {
  return args.distributions.ptr<float>() + params.distribution_row * args.distributions.strides[0];
}

// Whether id a comes before id b in descending order of value, ties by ascending id.
struct Before {
  const float* values;
  bool operator()(int32_t a, int32_t b) const {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  }
};

void ReportLogprobs(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                    std::span<const float> logits, double log_sum, int32_t* order,
                    SampleOutput* output) {
  const SampleRow& params = args.rows[row];
  output->logprob = Reported(logits[output->token] - log_sum);
  const Before before{logits.data()};
  output->rank = 0;
  for (int64_t i = 0; i < desc.vocab; ++i) {
    output->rank += before(static_cast<int32_t>(i), output->token);
  }
  const int32_t wanted =
      std::min({params.top_logprobs, desc.top_logprobs_max, static_cast<int32_t>(desc.vocab)});
  std::iota(order, order + desc.vocab, 0);
  std::partial_sort(order, order + wanted, order + desc.vocab, before);
  const int64_t stride = args.top_ids.strides[0];
  int32_t* ids = args.top_ids.ptr<int32_t>() + row * stride;
  float* logprobs = args.top_logprobs.ptr<float>() + row * stride;
  for (int32_t i = 0; i < wanted; ++i) {
    ids[i] = order[i];
    logprobs[i] = Reported(logits[order[i]] - log_sum);
  }
  if (output->rank >= wanted) {
    ids[wanted] = output->token;
    logprobs[wanted] = output->logprob;
  }
}

// Applies edits and mask to a copy of the logits.
void Process(const Sample::Args& args, const SampleRow& params, std::span<float> logits) {
  for (const LogitEdit& edit : args.edits.subspan(params.edit_begin, params.edit_count)) {
    if (edit.id < 0 || edit.id >= static_cast<int64_t>(logits.size())) continue;
    float& logit = logits[edit.id];
    logit += edit.bias;
    logit = logit > 0 ? logit / edit.repetition : logit * edit.repetition;
    logit -= edit.subtract;
    if (edit.banned) logit = -std::numeric_limits<float>::infinity();
  }
  if (params.mask_row < 0) return;
  const uint32_t* allowed = reinterpret_cast<const uint32_t*>(
      args.masks.ptr<int32_t>() + params.mask_row * args.masks.strides[0]);
  for (size_t i = 0; i < logits.size(); ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1u) == 0) {
      logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

// The kept tokens are always the first ones in Before's order, because top-k, top-p and min-p each
// keep a prefix of it. Sorts as much of `order` as is needed and returns how many are kept.
int64_t SortKept(const SampleRow& params, const float* logits, float max, int32_t* order,
                 int64_t vocab) {
  const Before before{logits};
  const auto weight = [&](int32_t id) -> double {
    return std::exp((logits[id] - max) / params.temperature);
  };
  const bool limited = params.top_k > 0 && params.top_k < vocab;
  const int64_t limit = limited ? params.top_k : vocab;
  double total = 0;
  if (limited) {
    std::nth_element(order, order + limit - 1, order + vocab, before);
    std::sort(order, order + limit, before);
    for (int64_t i = 0; i < limit; ++i) total += weight(order[i]);
  } else {
    for (int32_t i = 0; i < vocab; ++i) total += weight(i);
  }
  int64_t sorted = limited ? limit : 0;
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
    const double mass = weight(order[i]);
    if (i > 0 && (mass < params.min_p || mass == 0.0)) return i;
    kept += mass;
    if (params.top_p < 1.0f && kept >= params.top_p * total) return i + 1;
  }
  return limit;
}

int32_t Draw(const SampleRow& params, std::span<const float> logits, float max, int32_t* order) {
  const bool filtered = (params.top_k > 0 && params.top_k < static_cast<int64_t>(logits.size())) ||
                        params.top_p < 1.0f || params.min_p > 0.0f;
  int64_t count = static_cast<int64_t>(logits.size());
  std::iota(order, order + count, 0);
  if (filtered) count = SortKept(params, logits.data(), max, order, count);
  const auto weight = [&](int64_t i) -> double {
    return std::exp((logits[order[i]] - max) / params.temperature);
  };
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += weight(i);
  const double aim =
      total * UniformDraw(params.seed, params.choice, params.position, DrawPurpose::kToken);
  double sum = 0;
  int32_t last = order[0];
  for (int64_t i = 0; i < count; ++i) {
    const double mass = weight(i);
    if (mass == 0.0) continue;
    sum += mass;
    last = order[i];
    if (sum > aim) break;
  }
  return last;
}

void DrawToken(const Sample::Args& args, const SampleRow& params, std::span<const float> raw,
               const RowScan& scan, std::span<float> workspace, SampleOutput* output) {
  const size_t vocab = raw.size();
  const bool greedy = params.temperature == 0.0f || params.top_k == 1;
  const bool wants_logprob = params.top_logprobs >= 0;
  output->token = scan.argmax;
  if (greedy && params.edit_count == 0 && params.mask_row < 0 && !wants_logprob) return;
  std::span<float> logits = workspace.first(vocab);
  std::copy(raw.begin(), raw.end(), logits.begin());
  Process(args, params, logits);
  const auto best = std::max_element(logits.begin(), logits.end());
  if (std::isinf(*best)) {
    output->degenerate = true;
    return;
  }
  const float max = *best;
  const float temperature = params.temperature == 0.0f ? 1.0f : params.temperature;
  output->token = static_cast<int32_t>(best - logits.begin());
  if (!greedy) {
    output->token = Draw(params, logits, max, reinterpret_cast<int32_t*>(workspace.data() + vocab));
  }
  if (wants_logprob) {
    const double scaled = static_cast<double>(logits[output->token]) / temperature;
    output->processed_logprob = Reported(scaled - LogSumExp(logits, max, temperature));
  }
}

}  // namespace

std::string Sample::Desc::ToString() const {
  return StrCat("vocab ", vocab, ", top log-probs ", top_logprobs_max);
}

void SampleOneRow(const Sample::Desc& desc, const Sample::Args& args, int64_t row,
                  std::span<float> workspace) {
  const SampleRow& params = args.rows[row];
  SampleOutput& output = args.outputs[row];
  output = {};
  const std::span<const float> raw(args.logits.ptr<float>() + row * args.logits.strides[0],
                                   static_cast<size_t>(desc.vocab));
  const RowScan scan = Scan(raw);
  if (scan.degenerate) {
    output.token = params.draw ? scan.argmax : params.target;
    output.degenerate = true;
    if (params.top_logprobs >= 0) {
      output.logprob = output.processed_logprob = kZeroProbability;
      args.top_ids.ptr<int32_t>()[row * args.top_ids.strides[0]] = output.token;
      args.top_logprobs.ptr<float>()[row * args.top_ids.strides[0]] = kZeroProbability;
      output.rank = 0;
    }
    if (params.distribution_row >= 0) {
      std::fill_n(Distribution(args, params), desc.vocab, kZeroProbability);
    }
    return;
  }
  if (params.draw) {
    DrawToken(args, params, raw, scan, workspace, &output);
  } else {
    output.token = params.target;
  }
  if (params.top_logprobs < 0 && params.distribution_row < 0) return;
  const double log_sum = LogSumExp(raw, scan.max, 1.0f);
  if (params.top_logprobs >= 0) {
    ReportLogprobs(desc, args, row, raw, log_sum,
                   reinterpret_cast<int32_t*>(workspace.data() + desc.vocab), &output);
  }
  if (params.distribution_row >= 0) {
    float* distribution = Distribution(args, params);
    for (int64_t i = 0; i < desc.vocab; ++i) distribution[i] = Reported(raw[i] - log_sum);
  }
}

Support RefSampleSupports(const Sample::Desc& desc, const device::DeviceFacts& facts) {
  if (facts.device_memory) return Support::No("the reference runs on host memory");
  if (desc.vocab < 1 || desc.vocab > std::numeric_limits<int32_t>::max()) {
    return Support::No(StrCat("a vocabulary of ", desc.vocab));
  }
  return Support::Yes();
}

Status RefSample(device::Stream&, const Sample::Desc& desc, const Sample::Args& args) {
  const std::span<float> workspace(args.workspace.ptr<float>(), 2 * desc.vocab);
  for (size_t row = 0; row < args.rows.size(); ++row) {
    SampleOneRow(desc, args, static_cast<int64_t>(row), workspace);
  }
  return OkStatus();
}

}  // namespace sluice::ops
