// Arrays of any type in host memory with tensors over them, and numbers to fill them: what tests
// and the conformance cases are made of.
#pragma once

#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/element.h"
#include "ops/tensor.h"

namespace sluice::ops {

// Host memory with a type and a shape.
class Array {
 public:
  Array() = default;
  Array(DType dtype, std::vector<int64_t> dims)
      : dtype_(dtype), dims_(std::move(dims)), bytes_(RowBytes(dtype, Count()) + 1) {}
  static Array Floats(DType dtype, std::vector<int64_t> dims, const std::vector<float>& values) {
    Array a(dtype, std::move(dims));
    CHECK(a.Count() == values.size(), a.Count(), " of ", values.size());
    for (size_t i = 0; i < values.size(); ++i) a.Set(i, values[i]);
    return a;
  }
  static Array Ints(const std::vector<int32_t>& values) {
    return Ints({static_cast<int64_t>(values.size())}, values);
  }
  static Array Ints(std::vector<int64_t> dims, const std::vector<int32_t>& values) {
    Array a(DType::kI32, std::move(dims));
    CHECK(a.Count() == values.size(), a.Count(), " of ", values.size());
    for (size_t i = 0; i < values.size(); ++i) a.Int(i) = values[i];
    return a;
  }

  size_t Count() const {
    return static_cast<size_t>(
        std::accumulate(dims_.begin(), dims_.end(), int64_t{1}, std::multiplies<>()));
  }
  float At(size_t i) const { return LoadElement(dtype_, bytes_.data(), static_cast<int64_t>(i)); }
  void Set(size_t i, float value) {
    StoreElement(dtype_, bytes_.data(), static_cast<int64_t>(i), value);
  }
  int32_t& Int(size_t i) { return reinterpret_cast<int32_t*>(bytes_.data())[i]; }
  void Fill(float value) {
    for (size_t i = 0; i < Count(); ++i) Set(i, value);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  friend bool operator==(const Array&, const Array&) = default;

  Tensor tensor() const {
    Tensor t;
    t.data = const_cast<std::byte*>(bytes_.data());
    t.dtype = dtype_;
    t.rank = static_cast<int>(dims_.size());
    int64_t stride = 1;
    for (int i = t.rank - 1; i >= 0; --i) {
      t.dims[i] = dims_[i];
      t.strides[i] = stride;
      stride *= dims_[i];
    }
    return t;
  }

 private:
  DType dtype_ = DType::kF32;
  std::vector<int64_t> dims_;
  std::vector<std::byte> bytes_;
};

// Values in [-1, 1) that look random; the same for the same seed everywhere.
class TestNoise {
 public:
  explicit TestNoise(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float Value() { return static_cast<float>(Next() >> 40) * 0x1p-23f - 1.0f; }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  void Fill(Array& array, float scale = 1.0f) {
    for (size_t i = 0; i < array.Count(); ++i) array.Set(i, Value() * scale);
  }

 private:
  uint64_t state_;
};

}  // namespace sluice::ops
