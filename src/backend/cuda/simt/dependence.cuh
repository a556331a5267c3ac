// Programmatic dependence: a kernel's thread blocks are started while kernels before it on the
// stream still run, so that launches are not paid one after another. Every kernel of this backend
// is launched so (launch.cc).
#pragma once

namespace sluice::cuda {

// Lets the next kernel begin, which waits in the same way, and waits until all that was put on the
// stream before is done and visible. Every thread calls it, before it reads what any kernel writes
// and before it writes anything: weights alone, which no kernel writes, may be read earlier.
__device__ __forceinline__ void WaitForInputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace sluice::cuda
