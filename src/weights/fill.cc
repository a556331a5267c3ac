#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "weights/place.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Packing is bound by memory; more threads of a large host do not help.
constexpr int kPackThreadsMax = 16;
// Of a matrix per job: the threads end within tens of microseconds of one another, and what a
// packing writes stays in the second-level cache.
constexpr size_t kJobBytes = 128u << 10;

Status Fill(const FillJob& job, DType activation) {
  const ResolvedParam& resolved = job.param->resolved;
  if (resolved.spec.role == ParamRole::kLinear) {
    return PackPartRows(resolved, job.param->parts[job.part], job.begin, job.end, job.out);
  }
  if (resolved.spec.role == ParamRole::kEmbedding) {
    const std::span<const std::byte> rows = resolved.tensors.front()->data;
    CHECK(rows.size() == job.out.size(), resolved.spec.name, ": ", rows.size(),
          " != ", job.out.size());
    std::memcpy(job.out.data(), rows.data(), rows.size());
    return OkStatus();
  }
  const std::vector<std::byte> values =
      VectorBytes(resolved, VectorDType(resolved.spec.role, activation));
  CHECK(values.size() == job.out.size(), resolved.spec.name, ": ", values.size(),
        " != ", job.out.size());
  std::memcpy(job.out.data(), values.data(), values.size());
  return OkStatus();
}

}  // namespace

void AddFillJobs(const PlannedParam& param, size_t i, std::span<std::byte> out,
                 std::vector<FillJob>* jobs) {
  if (param.resolved.spec.role != ParamRole::kLinear) {
    jobs->push_back({&param, i, 0, 0, out});
    return;
  }
  // Jobs share no row group, whose bytes only one thread may write.
  const PartPlan& plan = param.parts[i];
  const int64_t group = plan.packing->row_group;
  const auto group_bytes =
      static_cast<int64_t>(std::max<size_t>(1, plan.bytes * group / plan.rows));
  const int64_t rows = std::max<int64_t>(1, int64_t{kJobBytes} / group_bytes) * group;
  for (int64_t begin = 0; begin < plan.rows; begin += rows) {
    jobs->push_back({&param, i, begin, std::min(begin + rows, plan.rows), out});
  }
}

Status RunFillJobs(std::span<const FillJob> jobs, DType activation, int threads,
                   const std::function<void(const FillJob&)>& done) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status first;  // guarded by mutex
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      Status status = Fill(jobs[i], activation);
      if (status.ok()) {
        if (done) done(jobs[i]);
        continue;
      }
      next = jobs.size();
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status).WithContext(jobs[i].param->resolved.spec.name);
      return;
    }
  };
  {
    std::vector<std::jthread> workers;
    const size_t count = std::min(jobs.size(), static_cast<size_t>(std::max(1, threads)));
    for (size_t t = 1; t < count; ++t) workers.emplace_back(work);
    work();
  }
  return first;
}

int PackThreads(const device::Device& device) {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const device::DeviceFacts& facts = device.facts();
  return std::min(threads, facts.device_memory ? kPackThreadsMax : facts.compute_units);
}

}  // namespace sluice::weights
