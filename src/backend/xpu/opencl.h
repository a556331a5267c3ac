// OpenCL's functions, found in libOpenCL.so.1 at run time, so that the program starts on a machine
// without it. Found once; any thread may call. Only this backend includes <CL/cl.h>.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_ENABLE_BETA_EXTENSIONS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::xpu {

// clang-format off
#define SLUICE_OPENCL_FUNCTIONS(X) \
  X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo) X(CreateSubDevices) \
  X(CreateContext) X(ReleaseContext) X(CreateCommandQueueWithProperties) X(ReleaseCommandQueue) X(SVMAlloc) \
  X(SVMFree) X(EnqueueSVMMemcpy) X(EnqueueSVMMemFill) X(CreateProgramWithSource) \
  X(CreateProgramWithBinary) X(BuildProgram) X(ReleaseProgram) X(GetProgramInfo) \
  X(GetProgramBuildInfo) X(CreateKernel) X(ReleaseKernel) X(SetKernelArg) \
  X(SetKernelArgSVMPointer) X(EnqueueNDRangeKernel) X(EnqueueMarkerWithWaitList) \
  X(EnqueueBarrierWithWaitList) X(WaitForEvents) X(GetEventInfo) X(ReleaseEvent) X(Flush) \
  X(SetEventCallback) X(Finish) X(GetExtensionFunctionAddressForPlatform)
// clang-format on

struct OpenClApi {
#define SLUICE_OPENCL_MEMBER(name) decltype(&::cl##name) name = nullptr;
  SLUICE_OPENCL_FUNCTIONS(SLUICE_OPENCL_MEMBER)
#undef SLUICE_OPENCL_MEMBER
};

// kDevice where libOpenCL.so.1 is absent or too old: the sentence says which.
Result<const OpenClApi*> LoadOpenCl();

// REQUIRES: LoadOpenCl succeeded before.
const OpenClApi& Cl();
// For tests: instead of the library's while it lives, such as one that counts its calls.
class UseOpenCl {
 public:
  explicit UseOpenCl(const OpenClApi& api);
  ~UseOpenCl();
  UseOpenCl(const UseOpenCl&) = delete;
  UseOpenCl& operator=(const UseOpenCl&) = delete;
};

// Of cl_khr_command_buffer, whose functions a platform hands out itself. All null where it has
// none.
struct CommandBufferApi {
  clCreateCommandBufferKHR_fn create = nullptr;
  clReleaseCommandBufferKHR_fn release = nullptr;
  clFinalizeCommandBufferKHR_fn finalize = nullptr;
  clEnqueueCommandBufferKHR_fn enqueue = nullptr;
  clCommandNDRangeKernelKHR_fn add_kernel = nullptr;
  explicit operator bool() const { return create && release && finalize && enqueue && add_kernel; }
};
CommandBufferApi LoadCommandBuffers(cl_platform_id platform);

// "<what>: CL_INVALID_KERNEL_ARGS"; kOutOfMemory where memory was refused, else kDevice.
Status ErrorOf(cl_int code, std::string_view what);
inline Status Check(cl_int code, std::string_view what) {
  return code == CL_SUCCESS ? OkStatus() : ErrorOf(code, what);
}

}  // namespace sluice::xpu
