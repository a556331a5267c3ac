// Tensor: a typed, strided view of device memory. Does not own; copying it is cheap.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "base/dtype.h"
#include "device/living_buffers.h"
#include "device/types.h"

namespace sluice::ops {

struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, 4> dims{};     // outermost first
  std::array<int64_t, 4> strides{};  // in elements; the last is 1
  device::MemoryKind memory = device::MemoryKind::kHost;
  device::DeviceId device;

  bool empty() const { return data == nullptr; }
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return rank == 0 ? 0 : n;
  }
  template <class T>
  T* ptr() const {
    return reinterpret_cast<T*>(data);
  }
  // The rows [begin, begin + count) of the first dimension. REQUIRES: a plain dtype.
  Tensor Rows(int64_t begin, int64_t count) const {
    CHECK(begin >= 0 && count >= 0 && begin + count <= dims[0], begin, " + ", count, " of ",
          dims[0]);
    Tensor t = *this;
    t.data += begin * strides[0] * Info(dtype).bytes;
    t.dims[0] = count;
    return t;
  }
  // The columns [begin, begin + count) of every row. REQUIRES: a plain dtype.
  Tensor Columns(int64_t begin, int64_t count) const {
    CHECK(begin >= 0 && count >= 0 && begin + count <= dims[rank - 1], begin, " + ", count, " of ",
          dims[rank - 1]);
    Tensor t = *this;
    t.data += begin * Info(dtype).bytes;
    t.dims[rank - 1] = count;
    return t;
  }
};

// A dense tensor over `view`. REQUIRES: the view is large enough, and the buffer that it is a part
// of lives (checked in builds that record buffers).
inline Tensor Dense(const device::View& view, DType dtype, std::initializer_list<int64_t> dims) {
  if constexpr (device::kRecordsBuffers) {
    const std::string why = device::WhyNotOfItsBuffer(view);
    CHECK(why.empty(), "no tensor can be made over a view: ", why);
  }
  Tensor t;
  t.data = view.data;
  t.dtype = dtype;
  t.memory = view.memory;
  t.device = view.device;
  for (int64_t dim : dims) t.dims[t.rank++] = dim;
  int64_t stride = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    t.strides[i] = stride;
    stride *= t.dims[i];
  }
  CHECK(RowBytes(dtype, static_cast<size_t>(t.size())) <= view.bytes, "view of ", view.bytes,
        " bytes is too small for ", t.size(), " elements of ", Name(dtype));
  return t;
}

// The type of the residual stream of a model whose activations are `activation`. The sums of all
// layers pass F16's largest number, 65504, where what a layer adds to them does not, and BF16 has
// F32's range.
constexpr DType ResidualDType(DType activation) {
  return activation == DType::kF16 ? DType::kF32 : activation;
}

}  // namespace sluice::ops
