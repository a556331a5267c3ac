// Going through a kernel's code before it has inputs. Code comes from the device's memory: weights
// have passed through its cache since the layer before, and a kernel of few rows waits for its
// instructions longer than for anything else. So its thread blocks go through them once, over
// memory that nobody reads, while the kernel in front of them still runs:
//   bool rehearses = FewBlocks();
//   LetNextBegin();
//   for (;; rehearses = false) {   not unrolled: the code is the same
//     if (!rehearses) WaitForInputs();
//     ... where rehearses, with OnStage() in the place of every tensor that a kernel writes ...
//     if (!rehearses) return;
//   }
#pragma once

#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {

// Lets the next kernel begin, and does not wait.
__device__ __forceinline__ void LetNextBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// More thread blocks than a device has multiprocessors leave no time to gain.
constexpr unsigned kRehearsedBlocks = 132;
__device__ __forceinline__ bool FewBlocks() {
#if __CUDA_ARCH__ >= 900
  return gridDim.x * gridDim.y <= kRehearsedBlocks;
#else
  return false;  // it begins when the one in front of it has ended
#endif
}

struct alignas(16) Stage {
  unsigned char bytes[2048];
};
static __device__ Stage rehearsal_stage;
template <class T>
__device__ __forceinline__ T* OnStage() {
  return reinterpret_cast<T*>(rehearsal_stage.bytes);
}

}  // namespace sluice::cuda
