// Memory of a thread that grows and stays: a step in steady state allocates nothing.
#pragma once

#include <cstddef>
#include <new>

namespace sluice::cpu {

class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { Free(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes`, at a multiple of 64; null when memory does not suffice. What was in it may be
  // lost.
  std::byte* Get(size_t bytes) {
    if (bytes > bytes_) {
      Free();
      data_ = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
      bytes_ = data_ != nullptr ? bytes : 0;
    }
    return data_;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  void Free() {
    if (data_ != nullptr) ::operator delete(data_, kAlignment);
    data_ = nullptr;
  }
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace sluice::cpu
