// What a list of copies comes to: checked as a whole, rows that follow one another without a gap
// made one run, neighbours that continue one another merged, and runs that may go together
// numbered as one batch. Every backend's Copy begins with this. Pure; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"

namespace sluice::device {

// Rows of equal size: one row is a plain run of `row_bytes` bytes.
struct CopyRun {
  std::byte* destination = nullptr;
  const std::byte* source = nullptr;
  MemoryKind destination_memory = MemoryKind::kHost, source_memory = MemoryKind::kHost;
  size_t rows = 1, row_bytes = 0;
  size_t destination_stride = 0, source_stride = 0;  // with more than one row
  // Runs of one batch neither read nor write what another of them writes: they may be done in any
  // order. Batches ascend from 0 and must be done one after another.
  int batch = 0;
};

// Fills *runs for a copy on the device `id`. Views must lie on `id`, or in host or pinned memory
// of the CPU, and an item may not overlap itself but as a whole, when there is nothing to do.
// kInvalidArgument names the first item that is wrong; *runs is then undefined.
Status PlanCopies(DeviceId id, std::span<const CopyItem> items, std::vector<CopyRun>* runs);

}  // namespace sluice::device
