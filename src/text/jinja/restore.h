// Puts a value back when it goes out of scope. Any thread.
#pragma once

#include <utility>

namespace sluice::text::jinja {

template <class T>
class Restore {
 public:
  Restore(T* place, T value) : place_(place), old_(std::move(*place)) { *place = std::move(value); }
  ~Restore() { *place_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T* place_;
  T old_;
};

}  // namespace sluice::text::jinja
