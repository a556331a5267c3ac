#include "backend/cuda/linear/f8_experts_config.h"

#include <algorithm>
#include <cmath>

namespace sluice::cuda {
namespace {

constexpr int kSharedMax = 227 * 1024;
// One for each warpgroup.
constexpr int kStagesMin = kF8ExpertsGroups;
// Rows of an expert, on average, beyond which too many have more than the largest kernel takes.
constexpr int kRowsMax = 24;
// The share of the thread blocks' time that is not spent waiting for those with one item more,
// below which smaller tiles are faster (an H200, one to sixteen tokens of eight experts each).
constexpr double kBusyMin = 0.8;
// As many on average leave few experts without a row.
constexpr int kRowsOfAll = 4;

constexpr F8ExpertsKernel kKernels[] = {{"f8_experts_8", "f8_experts_8_gated", 8},
                                        {"f8_experts_16", "f8_experts_16_gated", 16},
                                        {"f8_experts_32", "f8_experts_32_gated", 32}};

}  // namespace

std::span<const F8ExpertsKernel> F8ExpertsKernels() { return kKernels; }

std::optional<F8ExpertsPlan> PlanF8ExpertsWith(const F8ExpertsKernel& kernel,
                                               const F8ExpertsShape& shape) {
  const auto k = static_cast<int>(std::min<int64_t>(shape.k, kF8ExpertsDepthMax + 1));
  if (shape.n % kF8ExpertsRows != 0 || k % (kF8ExpertsUnits * kF8Unit) != 0 ||
      k > kF8ExpertsDepthMax || shape.experts > kF8ExpertsMost) {
    return std::nullopt;
  }
  const int rest = F8ExpertsRestBytes(kernel.tokens, k, shape.gated);
  F8ExpertsPlan plan = {.kernel = &kernel};
  plan.stages = std::min((kSharedMax - rest) / kF8ExpertsStageBytes, kF8ExpertsStagesMax);
  plan.stages -= plan.stages % kF8ExpertsStagesStep;
  if (plan.stages < kStagesMin) return std::nullopt;
  plan.shared_bytes = plan.stages * kF8ExpertsStageBytes + rest;
  plan.all_taken = shape.places >= int64_t{kRowsOfAll} * shape.experts;
  return plan;
}

namespace {

// How evenly the items of as many experts as have rows, by chance, go to the thread blocks.
bool AreShared(const F8ExpertsShape& shape, double rows) {
  const double taken = shape.experts * (1.0 - std::exp(-rows));
  const double each =
      taken * static_cast<double>(shape.n / kF8ExpertsRows) / std::max(1, shape.compute_units);
  return each >= kBusyMin * std::ceil(each);
}

}  // namespace

std::optional<F8ExpertsPlan> PlanF8Experts(const F8ExpertsShape& shape) {
  if (shape.experts < 1) return std::nullopt;
  const double rows = static_cast<double>(shape.places) / shape.experts;
  if (!shape.gated && (rows > kRowsMax || !AreShared(shape, rows))) return std::nullopt;
  // Where each row falls to an expert by chance, hardly one has three deviations more than others.
  const double most = rows + 3.0 * std::sqrt(rows);
  std::optional<F8ExpertsPlan> best;
  for (const F8ExpertsKernel& kernel : kKernels) {
    const auto plan = PlanF8ExpertsWith(kernel, shape);
    // Where rows are long, shared memory has room for few, and weights would be read twice.
    if (!plan) return shape.gated ? best : std::nullopt;
    best = plan;
    if (kernel.tokens >= most) break;
  }
  return best;
}

}  // namespace sluice::cuda
