// Hands out arrays of a buffer, in order, each aligned to device::kAlignment. Of an empty view it
// gives empty tensors, and only counts what they would take. One thread at a time.
#pragma once

#include <initializer_list>

#include "base/check.h"
#include "device/alignment.h"
#include "device/part.h"
#include "ops/tensor.h"

namespace sluice::exec {

class Carver {
 public:
  explicit Carver(const device::View& view) : view_(view) {}
  ops::Tensor Take(std::initializer_list<int64_t> dims, DType dtype = DType::kI32) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    const size_t at = used_, bytes = RowBytes(dtype, static_cast<size_t>(count));
    used_ += device::AlignUp(bytes);
    if (view_.data == nullptr) return {};
    CHECK(used_ <= view_.bytes, "arrays take ", used_, " of ", view_.bytes, " bytes");
    return ops::Dense(device::Part(view_, at, bytes), dtype, dims);
  }
  size_t used() const { return used_; }

 private:
  device::View view_;
  size_t used_ = 0;
};

}  // namespace sluice::exec
