#include "device/copy_list.h"

#include <algorithm>

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

// Skips items of zero bytes by leaving run->row_bytes 0.
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

// Whether two runs may be done in either order.
bool Apart(const CopyRun& a, const CopyRun& b) {
  return !Overlap(Written(a), Written(b)) && !Overlap(Written(a), Read(b)) &&
         !Overlap(Read(a), Written(b));
}

// Whether `next` continues `run` and both as one copy give the same.
bool Continues(const CopyRun& run, const CopyRun& next) {
  if (run.rows != 1 || next.rows != 1 || run.destination_memory != next.destination_memory ||
      run.source_memory != next.source_memory ||
      run.destination + run.row_bytes != next.destination ||
      run.source + run.row_bytes != next.source) {
    return false;
  }
  return !Overlap({run.source, next.source + next.row_bytes},
                  {run.destination, next.destination + next.row_bytes});
}

}  // namespace

Status PlanCopies(DeviceId id, std::span<const CopyItem> items, std::vector<CopyRun>* runs) {
  runs->clear();
  size_t batch_begin = 0;  // first run of the current batch
  // Whether `run` may go with the current batch but its last `but` runs.
  const auto joins = [&](const CopyRun& run, size_t but) {
    const std::span<const CopyRun> batch(*runs);
    for (const CopyRun& other : batch.subspan(batch_begin, batch.size() - batch_begin - but)) {
      if (!Apart(other, run)) return false;
    }
    return true;
  };
  for (const CopyItem& item : items) {
    CopyRun run;
    SLUICE_RETURN_IF_ERROR(MakeRun(id, item, &run));
    if (run.row_bytes == 0) continue;
    if (!runs->empty() && Continues(runs->back(), run) && joins(run, 1)) {
      runs->back().row_bytes += run.row_bytes;
      continue;
    }
    run.batch = runs->empty() ? 0 : runs->back().batch;
    if (!joins(run, 0)) {
      ++run.batch;
      batch_begin = runs->size();
    }
    runs->push_back(run);
  }
  return OkStatus();
}

}  // namespace sluice::device
