#include "device/copy_list.h"

#include <algorithm>
#include <map>
#include <memory_resource>

#include "base/str_cat.h"

namespace sluice::device {
namespace {

bool IsHost(MemoryKind memory) {
  return memory == MemoryKind::kHost || memory == MemoryKind::kPinned;
}

// Bytes from the first row's begin to the last row's end; 0 where that does not fit a size_t.
size_t Extent(size_t rows, size_t row_bytes, size_t stride) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(rows - 1, stride, &bytes) ||
      __builtin_add_overflow(bytes, row_bytes, &bytes)) {
    return 0;
  }
  return bytes;
}

size_t Extent(const CopyRun& run, size_t stride) { return Extent(run.rows, run.row_bytes, stride); }

struct Range {
  const std::byte *begin, *end;
};
bool Overlap(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }
Range Written(const CopyRun& run) {
  return {run.destination, run.destination + Extent(run, run.destination_stride)};
}
Range Read(const CopyRun& run) { return {run.source, run.source + Extent(run, run.source_stride)}; }

Status CheckView(DeviceId id, const View& view, std::string_view name, size_t bytes) {
  if (view.data == nullptr) {
    return InvalidArgument(StrCat("a copy of ", bytes, " bytes has a null ", name));
  }
  const bool of_cpu = view.device.kind == DeviceKind::kCpu && IsHost(view.memory);
  if (view.device != id && !of_cpu) {
    return InvalidArgument(
        StrCat("a copy on ", ToString(id), " was given a view of ", ToString(view.device)));
  }
  if (view.bytes < bytes) {
    return InvalidArgument(StrCat("a copy of ", bytes, " bytes does not fit the ", view.bytes,
                                  " bytes of its ", name));
  }
  return OkStatus();
}

// Skips items of zero bytes, and those that lie where they go, by leaving run->row_bytes 0.
//
// A copy that overlaps itself gives what one wants in one order of its bytes only, which a GPU has
// not got.
Status MakeRun(DeviceId id, const CopyItem& item, CopyRun* run) {
  *run = {item.destination.data,
          item.source.data,
          item.destination.memory,
          item.source.memory,
          item.rows,
          item.rows == 1 ? item.source.bytes : item.row_bytes,
          item.destination_stride,
          item.source_stride};
  if (run->rows == 0) run->row_bytes = 0;
  if (run->row_bytes == 0) return OkStatus();
  if (run->rows > 1 && std::min(run->source_stride, run->destination_stride) < run->row_bytes) {
    return InvalidArgument(StrCat("a copy of ", run->rows, " rows of ", run->row_bytes,
                                  " bytes has the strides ", run->source_stride, " and ",
                                  run->destination_stride));
  }
  const size_t source = Extent(*run, run->source_stride);
  const size_t destination = Extent(*run, run->destination_stride);
  if (source == 0 || destination == 0) {
    return InvalidArgument(StrCat("a copy of ", run->rows, " rows of ", run->row_bytes,
                                  " bytes is larger than memory can be"));
  }
  SLUICE_RETURN_IF_ERROR(CheckView(id, item.source, "source", source));
  SLUICE_RETURN_IF_ERROR(CheckView(id, item.destination, "destination", destination));
  const bool same_rows = run->rows == 1 || run->source_stride == run->destination_stride;
  if (run->source == run->destination && same_rows) {
    run->row_bytes = 0;  // is there already
    return OkStatus();
  }
  if (Overlap(Read(*run), Written(*run))) {
    return InvalidArgument(StrCat("a copy of ", run->rows, " rows of ", run->row_bytes,
                                  " bytes overlaps its own source"));
  }
  if (run->rows > 1 && run->source_stride == run->row_bytes &&
      run->destination_stride == run->row_bytes) {
    run->row_bytes *= run->rows;
    run->rows = 1;
  }
  return OkStatus();
}

// A set of bytes: what lies together is one interval.
class Intervals {
 public:
  explicit Intervals(std::pmr::memory_resource* memory) : by_begin_(memory) {}
  void Clear() { by_begin_.clear(); }
  bool Overlaps(Range range) const {
    const auto after = by_begin_.lower_bound(range.end);  // the first that begins behind the range
    return after != by_begin_.begin() && std::prev(after)->second > range.begin;
  }
  void Add(Range range) {
    auto next = by_begin_.upper_bound(range.begin);
    if (next != by_begin_.begin() && std::prev(next)->second >= range.begin) {
      range.begin = (--next)->first;
    }
    while (next != by_begin_.end() && next->first <= range.end) {
      range.end = std::max(range.end, next->second);
      next = by_begin_.erase(next);
    }
    by_begin_.emplace_hint(next, range.begin, range.end);
  }

 private:
  std::pmr::map<const std::byte*, const std::byte*> by_begin_;  // begin to end
};

// What the runs of a batch touch. Kept from call to call, so that a step allocates nothing.
class Touched {
 public:
  void Clear() {
    written_.Clear();
    read_.Clear();
  }
  void Add(const CopyRun& run) {
    written_.Add(Written(run));
    read_.Add(Read(run));
  }
  // Whether the run may be done before, after or between those of the batch.
  bool Apart(const CopyRun& run) const {
    return !written_.Overlaps(Written(run)) && !read_.Overlaps(Written(run)) &&
           !written_.Overlaps(Read(run));
  }

 private:
  std::pmr::unsynchronized_pool_resource memory_;
  Intervals written_{&memory_}, read_{&memory_};
};

// Whether `next`, which is apart from `run`, continues it: as one copy both give the same.
bool Continues(const CopyRun& run, const CopyRun& next) {
  return run.rows == 1 && next.rows == 1 && run.destination_memory == next.destination_memory &&
         run.source_memory == next.source_memory &&
         run.destination + run.row_bytes == next.destination &&
         run.source + run.row_bytes == next.source;
}

}  // namespace

Status PlanCopies(DeviceId id, std::span<const CopyItem> items, std::vector<CopyRun>* runs) {
  thread_local Touched batch;
  batch.Clear();
  runs->clear();
  for (const CopyItem& item : items) {
    CopyRun run;
    SLUICE_RETURN_IF_ERROR(MakeRun(id, item, &run));
    if (run.row_bytes == 0) continue;
    const bool apart = batch.Apart(run);
    if (!apart) batch.Clear();
    batch.Add(run);
    if (apart && !runs->empty() && Continues(runs->back(), run)) {
      runs->back().row_bytes += run.row_bytes;
      continue;
    }
    run.batch = (runs->empty() ? 0 : runs->back().batch) + (apart ? 0 : 1);
    runs->push_back(run);
  }
  return OkStatus();
}

}  // namespace sluice::device
