#include "weights/fill.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Packing is bound by memory; more threads of a large host do not help.
constexpr int kPackThreadsMax = 16;
// Of a matrix per job: the threads end within tens of microseconds of one another, and what a
// packing writes stays in the second-level cache.
constexpr size_t kJobBytes = 128u << 10;

Status FillLinear(const FillJob& job) {
  const PartPlan& plan = job.held.param->parts[job.held.part];
  // A row-major matrix has no bytes that packing leaves alone.
  if (job.clear && plan.packing->layout != ops::LayoutId::kRowMajor) {
    const size_t before = PackedBytes(plan, {job.held.rows.begin, job.rows.begin});
    std::memset(job.out.data() + before, 0, PackedBytes(plan, job.rows));
  }
  return PackPartRows(job.held.param->resolved, plan, job.held.rows, job.rows, job.out);
}

Status Fill(const FillJob& job, DType activation) {
  const ResolvedParam& resolved = job.held.param->resolved;
  if (resolved.spec.role == ParamRole::kLinear) return FillLinear(job);
  if (resolved.spec.role == ParamRole::kEmbedding) {
    const std::span<const std::byte> table = resolved.tensors.front()->data;
    const size_t row_bytes = table.size() / static_cast<size_t>(resolved.spec.rows);
    const size_t before = static_cast<size_t>(job.rows.begin - job.held.rows.begin) * row_bytes;
    const size_t bytes = static_cast<size_t>(job.rows.end - job.rows.begin) * row_bytes;
    CHECK(before + bytes <= job.out.size(), resolved.spec.name, ": ", before + bytes, " > ",
          job.out.size());
    std::memcpy(job.out.data() + before,
                table.data() + static_cast<size_t>(job.rows.begin) * row_bytes, bytes);
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

PartSlice SliceOf(const PlannedParam& param, size_t part) {
  const ParamSpec& spec = param.resolved.spec;
  return {&param, part, {0, spec.role == ParamRole::kLinear ? param.parts[part].rows : spec.rows}};
}

int64_t SliceUnit(const PartSlice& slice) {
  const ParamSpec& spec = slice.param->resolved.spec;
  if (spec.role == ParamRole::kLinear) return slice.param->parts[slice.part].packing->row_group;
  return spec.role == ParamRole::kEmbedding ? 1 : spec.rows;
}

size_t SliceBytes(const PartSlice& slice, DType activation) {
  const ParamSpec& spec = slice.param->resolved.spec;
  if (spec.role == ParamRole::kLinear) {
    return PackedBytes(slice.param->parts[slice.part], slice.rows);
  }
  return slice.param->part_bytes(slice.part, activation) / static_cast<size_t>(spec.rows) *
         static_cast<size_t>(slice.rows.end - slice.rows.begin);
}

void AddFillJobs(const PartSlice& held, std::span<std::byte> out, bool clear,
                 std::vector<FillJob>* jobs) {
  // Jobs share no row group, whose bytes only one thread may write.
  const int64_t unit = SliceUnit(held);
  const auto units = std::max<int64_t>(1, (held.rows.end - held.rows.begin) / unit);
  const size_t unit_bytes = std::max<size_t>(1, out.size() / static_cast<size_t>(units));
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(kJobBytes / unit_bytes)) * unit;
  for (int64_t begin = held.rows.begin; begin < held.rows.end; begin += rows) {
    jobs->push_back({held, {begin, std::min(begin + rows, held.rows.end)}, out, clear});
  }
}

FillThreads::FillThreads(int threads, DType activation, Done done)
    : activation_(activation), done_(std::move(done)) {
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this] { Work(); });
}

FillThreads::~FillThreads() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void FillThreads::Add(std::vector<FillJob> jobs) {
  auto batch = std::make_shared<Batch>();
  batch->jobs = std::move(jobs);
  batch->left = batch->jobs.size();
  const std::lock_guard lock(mutex_);
  batches_.push_back(std::move(batch));
  changed_.notify_all();
}

// Whether there may be more to take of the batch.
bool FillThreads::FillNext(Batch& batch) {
  const size_t index = batch.next++;
  if (stop_ || index >= batch.jobs.size()) return false;
  const FillJob& job = batch.jobs[index];
  Status status = Fill(job, activation_);
  if (status.ok() && done_) done_(job);
  const bool last = --batch.left == 0;
  if (status.ok() && !last) return true;
  const std::lock_guard lock(mutex_);
  if (!status.ok()) {
    stop_ = true;
    if (first_.ok()) first_ = std::move(status).WithContext(job.held.param->resolved.spec.name);
  }
  changed_.notify_all();
  return !stop_;
}

void FillThreads::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::shared_ptr<Batch> batch;
    changed_.wait(lock, [&] {
      const auto open = std::find_if(batches_.begin(), batches_.end(),
                                     [](const auto& b) { return b->next < b->jobs.size(); });
      if (open != batches_.end()) batch = *open;
      return stop_ || batch != nullptr;
    });
    if (stop_) return;
    lock.unlock();
    while (FillNext(*batch)) {
    }
    lock.lock();
  }
}

Status FillThreads::Wait() {
  std::unique_lock lock(mutex_);
  CHECK(!batches_.empty(), "no batch of jobs to wait for");
  const std::shared_ptr<Batch> batch = batches_.front();
  lock.unlock();
  while (FillNext(*batch)) {
  }
  lock.lock();
  changed_.wait(lock, [&] { return stop_ || batch->left == 0; });
  batches_.pop_front();
  return first_;
}

Status RunFillJobs(std::vector<FillJob> jobs, DType activation, int threads,
                   FillThreads::Done done) {
  const int count = static_cast<int>(std::min<size_t>(jobs.size(), std::max(1, threads)));
  FillThreads workers(count, activation, std::move(done));
  workers.Add(std::move(jobs));
  return workers.Wait();
}

int PackThreads(const device::Device& device) {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int most = device.facts().host_threads;
  return std::min(threads, most > 0 ? most : kPackThreadsMax);
}

}  // namespace sluice::weights
