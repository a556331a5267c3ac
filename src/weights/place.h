// From declared parameters to bytes: what is placed where, and the work that writes it. Used by
// Place and ParameterMap::Update. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "weights/parameters.h"
#include "weights/repack.h"

namespace sluice::weights {

// A parameter with everything decided but nothing allocated.
struct PlannedParam {
  ResolvedParam resolved;
  std::vector<PartPlan> parts;  // kLinear
  // kLinear: reads the embedding's memory, which has the same rows in the same layout.
  const PlannedParam* shares = nullptr;
  // kEmbedding: its rows, read from the file in place; or null.
  std::shared_ptr<std::byte> mapped;
  std::vector<device::View> places;  // of the parts, on the device; filled by Place

  size_t part_count() const;
  // Of part `i`, or of the whole for other roles, as they lie on the device.
  size_t part_bytes(size_t i, DType activation) const;
  // That have to be allocated for all parts.
  size_t bytes(DType activation) const;
};

// What norms and biases are stored as.
DType VectorDType(ParamRole role, DType activation);

// In the order of `specs`; PlannedParams keep their addresses.
Result<std::vector<std::unique_ptr<PlannedParam>>> PlanParams(const std::vector<ParamSpec>& specs,
                                                              const files::TensorSource& source,
                                                              const ops::OpTable& table,
                                                              const PlaceOptions& options);

// A piece of the work of filling a part: rows of a matrix, or the whole of another parameter.
struct FillJob {
  const PlannedParam* param = nullptr;
  size_t part = 0;
  int64_t begin = 0, end = 0;  // rows of a kLinear
  std::span<std::byte> out;    // the whole part's bytes, in host memory, zero
};

// Adds the work of filling part `i` of `param` in `out`.
void AddFillJobs(const PlannedParam& param, size_t i, std::span<std::byte> out,
                 std::vector<FillJob>* jobs);

// Does all jobs, in about their order, with up to `threads` threads, the calling one among them.
// `done` is called on any of them after a job that succeeded; it may be empty. The first error ends
// the work.
Status RunFillJobs(std::span<const FillJob> jobs, DType activation, int threads,
                   const std::function<void(const FillJob&)>& done);

// Threads that may pack weights for `device`: its own where it is the CPU, else the host's.
int PackThreads(const device::Device& device);

}  // namespace sluice::weights
