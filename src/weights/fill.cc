#include "weights/fill.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "weights/repack.h"

namespace sluice::weights {
namespace {

// Packing is bound by memory; more threads of a large host do not help.
constexpr int kPackThreadsMax = 16;
// Of a matrix per job: the threads end within tens of microseconds of one another, and what a
// packing writes stays in the second-level cache.
constexpr size_t kJobBytes = 128u << 10;

Status FillLinear(const FillJob& job) {
  const PlannedPart& part = *job.held.part;
  // A row-major matrix has no bytes that packing leaves alone.
  if (job.clear && part.packing->layout != ops::LayoutId::kRowMajor) {
    const size_t before = part.BytesOf({job.held.rows.begin, job.rows.begin});
    std::memset(job.out.data() + before, 0, part.BytesOf(job.rows));
  }
  return PackPartRows(job.held.param->resolved, part, job.held.rows, job.rows, job.out);
}

Status Fill(const FillJob& job) {
  const PlannedPart& part = *job.held.part;
  if (part.packing != nullptr) return FillLinear(job);
  const ResolvedParam& param = job.held.param->resolved;
  std::vector<std::byte> converted;
  std::vector<float> scales;
  std::span<const std::byte> bytes;
  if (part.scales_of) {
    scales = PartScales(param, job.held.param->parts[*part.scales_of]);
    bytes = std::as_bytes(std::span(scales));
  } else if (part.order_of) {
    bytes = std::as_bytes(std::span(param.derived[part.first]->order()));
  } else if (param.spec.role == ParamRole::kEmbedding) {
    bytes = RowsOf(*param.tensors.front(), job.rows.begin, job.rows.end - job.rows.begin).data;
  } else {
    bytes = converted = VectorBytes(param, part.dtype);
  }
  const size_t before = part.BytesOf({job.held.rows.begin, job.rows.begin});
  CHECK(before + bytes.size() <= job.out.size(), param.spec.name, ": ", before + bytes.size(),
        " > ", job.out.size());
  std::memcpy(job.out.data() + before, bytes.data(), bytes.size());
  return OkStatus();
}

}  // namespace

void AddFillJobs(const PartRows& held, std::span<std::byte> out, bool clear,
                 std::vector<FillJob>* jobs) {
  // Jobs share no row group, whose bytes only one thread may write.
  const int64_t unit = held.part->row_group;
  const auto units = std::max<int64_t>(1, (held.rows.end - held.rows.begin) / unit);
  const size_t unit_bytes = std::max<size_t>(1, out.size() / static_cast<size_t>(units));
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(kJobBytes / unit_bytes)) * unit;
  for (int64_t begin = held.rows.begin; begin < held.rows.end; begin += rows) {
    jobs->push_back({held, {begin, std::min(begin + rows, held.rows.end)}, out, clear});
  }
}

FillThreads::FillThreads(int threads, Done done) : done_(std::move(done)) {
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
  Status status = Fill(job);
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

Status RunFillJobs(std::vector<FillJob> jobs, int threads, FillThreads::Done done) {
  const int count = static_cast<int>(std::min<size_t>(jobs.size(), std::max(1, threads)));
  FillThreads workers(count, std::move(done));
  workers.Add(std::move(jobs));
  return workers.Wait();
}

int PackThreads(const device::Device& device) {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int most = device.facts().host_threads;
  return std::min(threads, most > 0 ? most : kPackThreadsMax);
}

}  // namespace sluice::weights
