// How an op of this backend puts kernels on a stream; all that op code sees of the driver. A Stream
// belongs to one thread at a time, and so do these functions for it. Every stream given here was
// made by a CUDA device.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "device/device.h"
#include "device/extent.h"
#include "sluice/status.h"

namespace sluice::cuda {

// A kernel by its .cu file's stem and the extern "C" function in it. Constants of the op's files.
struct KernelId {
  const char* module;
  const char* function;
};

struct LaunchShape {
  device::Extent<unsigned> grid, block;
  unsigned shared_bytes = 0;  // dynamic
  // The thread blocks wait for each other: none runs before all of them can, or the launch fails.
  bool together = false;
  // Thread blocks read the same through the first-level cache, so that a multiprocessor gives it
  // what two of them leave of its memory. Otherwise it stays as the kernel in front had it, which
  // is next to nothing behind one that takes all as shared memory.
  bool cached = false;
};

// Launch without types: `params` points to the values, `param_bytes` has their sizes.
Status LaunchKernel(device::Stream& stream, const KernelId& kernel, const LaunchShape& shape,
                    std::span<void*> params, std::span<const size_t> param_bytes);

// Puts a kernel on the stream. Params are passed by value, in the kernel's order and exact types;
// another number of them or other sizes are kInternal. shared_bytes above 48 KiB is opted in to.
// Zero blocks: nothing is launched. Errors name the kernel.
template <class... Params>
Status Launch(device::Stream& stream, const KernelId& kernel, const LaunchShape& shape,
              const Params&... params) {
  static_assert((std::is_trivially_copyable_v<Params> && ...));
  std::array<void*, sizeof...(Params)> pointers = {
      const_cast<void*>(static_cast<const void*>(&params))...};
  constexpr std::array<size_t, sizeof...(Params)> kBytes = {sizeof(Params)...};
  return LaunchKernel(stream, kernel, shape, pointers, kBytes);
}

// Device memory for the op that runs now, 256-byte aligned, valid until the next call for the same
// stream. An op states its need (ops::Implementation::scratch_bytes); kFailedPrecondition where it
// asks for more than was reserved by it.
Result<std::byte*> Scratch(device::Stream& stream, size_t bytes);

const device::DeviceFacts& FactsOf(const device::Stream& stream);

}  // namespace sluice::cuda
