// The CUDA driver's functions, found in libcuda.so.1 at run time, so that the program starts on a
// machine without one. Found once; any thread may call. With modules of this folder's base alone:
// ops go through launch.h.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::cuda {

// As the library exports them; cuda.h makes the short names macros for these.
// clang-format off
#define SLUICE_CUDA_FUNCTIONS(X) \
  X(cuInit) \
  X(cuDriverGetVersion) \
  X(cuGetErrorName) \
  X(cuGetErrorString) \
  X(cuDeviceGet) \
  X(cuDeviceGetCount) \
  X(cuDeviceGetName) \
  X(cuDeviceGetAttribute) \
  X(cuDeviceTotalMem_v2) \
  X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuCtxSetCurrent) \
  X(cuCtxSynchronize) \
  X(cuMemGetInfo_v2) \
  X(cuMemAlloc_v2) \
  X(cuMemFree_v2) \
  X(cuMemHostAlloc) \
  X(cuMemFreeHost) \
  X(cuMemcpyAsync) \
  X(cuMemcpy2DAsync_v2) \
  X(cuMemsetD8Async) \
  X(cuStreamCreate) \
  X(cuStreamDestroy_v2) \
  X(cuStreamSynchronize) \
  X(cuStreamWaitEvent) \
  X(cuEventCreate) \
  X(cuEventDestroy_v2) \
  X(cuEventRecord) \
  X(cuEventQuery) \
  X(cuEventSynchronize) \
  X(cuEventElapsedTime_v2) \
  X(cuStreamBeginCapture_v2) \
  X(cuStreamEndCapture) \
  X(cuGraphInstantiateWithFlags) \
  X(cuGraphDestroy) \
  X(cuGraphExecDestroy) \
  X(cuGraphUpload) \
  X(cuGraphLaunch) \
  X(cuLibraryLoadData) \
  X(cuLibraryUnload) \
  X(cuLibraryGetKernel) \
  X(cuKernelGetAttribute) \
  X(cuKernelSetAttribute) \
  X(cuKernelGetParamInfo) \
  X(cuLaunchHostFunc) \
  X(cuLaunchKernelEx) \
  X(cuTensorMapEncodeTiled)
// clang-format on

struct Driver {
#define SLUICE_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_CUDA_FUNCTIONS(SLUICE_CUDA_MEMBER)
#undef SLUICE_CUDA_MEMBER
};

// kDevice when there is none, one that is too old, or no libcuda.so.1: the sentence says which.
// Does not call cuInit.
Result<const Driver*> LoadDriver();

// REQUIRES: LoadDriver succeeded before.
const Driver& TheDriver();

// "13.0" of 13000.
std::string VersionText(int version);

// kOutOfMemory or kDevice: "<what>: CUDA_ERROR_... (an illegal memory access was encountered)".
Status ErrorOf(CUresult result, std::string_view what);
inline Status Check(CUresult result, std::string_view what) {
  return result == CUDA_SUCCESS ? OkStatus() : ErrorOf(result, what);
}

// Makes `context` that of the calling thread; free of charge where it is already.
Status MakeCurrent(CUcontext context);

}  // namespace sluice::cuda
