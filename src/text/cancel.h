// Whether the caller of a long piece of work has given it up. A value; the flag that it points to
// must outlive the work.
#pragma once

#include <atomic>
#include <cstddef>

#include "sluice/status.h"

namespace sluice::text {

class Cancel {
 public:
  // `flag` may be null: never asked.
  explicit Cancel(const std::atomic<bool>* flag = nullptr) : flag_(flag) {}
  bool asked() const { return flag_ != nullptr && flag_->load(std::memory_order_relaxed); }
  // For inner loops: looks at the flag at every 4096th step.
  bool asked_at(size_t step) const { return (step & 0xFFF) == 0 && asked(); }

 private:
  const std::atomic<bool>* flag_;
};

inline Status GivenUp() { return {StatusCode::kCancelled, "the work was given up"}; }

}  // namespace sluice::text
