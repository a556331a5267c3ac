// How an op puts a kernel on a stream.
#pragma once

#include <array>
#include <type_traits>

#include "backend/xpu/stream.h"

namespace sluice::xpu {

template <class T>
KernelArg ArgOf(const T& value) {
  if constexpr (std::is_pointer_v<T>) {
    return {value, 0};
  } else {
    return {&value, sizeof(T)};
  }
}

// Params in the kernel's order and exact types: pointers to device memory (interior ones too, or
// null), and plain values, which OpenCL copies. `options` are the -D constants that the program is
// compiled with. Errors name the kernel.
template <class... Params>
Status Launch(device::Stream& stream, const KernelId& kernel, std::string_view options,
              const LaunchShape& shape, const Params&... params) {
  const std::array<KernelArg, sizeof...(Params)> args = {ArgOf(params)...};
  return AsXpu(stream).Launch(kernel, options, shape, args);
}

// As Launch, by a kernel that `slot` keeps.
template <class... Params>
Status LaunchKept(device::Stream& stream, KernelSlot& slot, const KernelId& kernel,
                  std::string_view options, const LaunchShape& shape, const Params&... params) {
  const std::array<KernelArg, sizeof...(Params)> args = {ArgOf(params)...};
  return AsXpu(stream).Launch(kernel, options, shape, args, &slot);
}

// Says how the launch just made makes its rows, for a linear that can do as much itself.
inline void NoteMaker(device::Stream& stream, const RowMaker& maker) {
  RecordedLaunch* last = AsXpu(stream).last_recorded();
  if (last != nullptr && maker.rows > 0) last->maker = maker;
}

// Device memory for the op that runs now; see XpuStream::Scratch.
inline Result<std::byte*> Scratch(device::Stream& stream, size_t bytes) {
  return AsXpu(stream).Scratch(bytes);
}

inline const device::DeviceFacts& FactsOf(const device::Stream& stream) {
  return static_cast<const XpuStream&>(stream).context()->facts();
}

}  // namespace sluice::xpu
