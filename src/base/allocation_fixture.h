// For tests: counts the heap allocations of the calling thread. It replaces the program's operator
// new, so exactly one source of a test program includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace sluice {

inline thread_local int64_t thread_allocations = 0;

// How often `call` allocates.
template <class Call>
int64_t AllocationsOf(Call&& call) {
  const int64_t before = thread_allocations;
  call();
  return thread_allocations - before;
}

}  // namespace sluice

// Out of line, so that the compiler does not take malloc and delete, or new and free, for a pair.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++sluice::thread_allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment,
                                     const std::nothrow_t&) noexcept {
  ++sluice::thread_allocations;
  const size_t unit = static_cast<size_t>(alignment);
  return std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  if (void* memory = operator new(size, alignment, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
