#include "backend/xpu/opencl.h"

#include <dlfcn.h>

#include <atomic>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::xpu {
namespace {

constexpr const char* kLibrary = "libOpenCL.so.1";

struct Loaded {
  OpenClApi api;
  std::string reason;  // empty: loaded
};

Loaded Load() {
  Loaded loaded;
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.reason = StrCat(kLibrary, " was not found; install Debian's ocl-icd-libopencl1");
    return loaded;
  }
#define SLUICE_OPENCL_FIND(name)                                                             \
  loaded.api.name = reinterpret_cast<decltype(loaded.api.name)>(dlsym(library, "cl" #name)); \
  if (loaded.api.name == nullptr && loaded.reason.empty())                                   \
    loaded.reason = StrCat(kLibrary, " has no cl" #name ", it is older than OpenCL 3.0");
  SLUICE_OPENCL_FUNCTIONS(SLUICE_OPENCL_FIND)
#undef SLUICE_OPENCL_FIND
  return loaded;
}

const Loaded& TheLibrary() {
  static const Loaded loaded = Load();
  return loaded;
}

std::atomic<const OpenClApi*> instead{nullptr};  // of the library's

std::string_view ErrorName(cl_int code) {
#define SLUICE_OPENCL_ERROR(name) \
  case name:                      \
    return #name;
  switch (code) {
    SLUICE_OPENCL_ERROR(CL_DEVICE_NOT_FOUND)
    SLUICE_OPENCL_ERROR(CL_DEVICE_NOT_AVAILABLE)
    SLUICE_OPENCL_ERROR(CL_COMPILER_NOT_AVAILABLE)
    SLUICE_OPENCL_ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    SLUICE_OPENCL_ERROR(CL_OUT_OF_RESOURCES)
    SLUICE_OPENCL_ERROR(CL_OUT_OF_HOST_MEMORY)
    SLUICE_OPENCL_ERROR(CL_PROFILING_INFO_NOT_AVAILABLE)
    SLUICE_OPENCL_ERROR(CL_MEM_COPY_OVERLAP)
    SLUICE_OPENCL_ERROR(CL_IMAGE_FORMAT_MISMATCH)
    SLUICE_OPENCL_ERROR(CL_IMAGE_FORMAT_NOT_SUPPORTED)
    SLUICE_OPENCL_ERROR(CL_BUILD_PROGRAM_FAILURE)
    SLUICE_OPENCL_ERROR(CL_MAP_FAILURE)
    SLUICE_OPENCL_ERROR(CL_MISALIGNED_SUB_BUFFER_OFFSET)
    SLUICE_OPENCL_ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    SLUICE_OPENCL_ERROR(CL_COMPILE_PROGRAM_FAILURE)
    SLUICE_OPENCL_ERROR(CL_LINKER_NOT_AVAILABLE)
    SLUICE_OPENCL_ERROR(CL_LINK_PROGRAM_FAILURE)
    SLUICE_OPENCL_ERROR(CL_DEVICE_PARTITION_FAILED)
    SLUICE_OPENCL_ERROR(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)
    SLUICE_OPENCL_ERROR(CL_INVALID_VALUE)
    SLUICE_OPENCL_ERROR(CL_INVALID_DEVICE_TYPE)
    SLUICE_OPENCL_ERROR(CL_INVALID_PLATFORM)
    SLUICE_OPENCL_ERROR(CL_INVALID_DEVICE)
    SLUICE_OPENCL_ERROR(CL_INVALID_CONTEXT)
    SLUICE_OPENCL_ERROR(CL_INVALID_QUEUE_PROPERTIES)
    SLUICE_OPENCL_ERROR(CL_INVALID_COMMAND_QUEUE)
    SLUICE_OPENCL_ERROR(CL_INVALID_HOST_PTR)
    SLUICE_OPENCL_ERROR(CL_INVALID_MEM_OBJECT)
    SLUICE_OPENCL_ERROR(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)
    SLUICE_OPENCL_ERROR(CL_INVALID_IMAGE_SIZE)
    SLUICE_OPENCL_ERROR(CL_INVALID_SAMPLER)
    SLUICE_OPENCL_ERROR(CL_INVALID_BINARY)
    SLUICE_OPENCL_ERROR(CL_INVALID_BUILD_OPTIONS)
    SLUICE_OPENCL_ERROR(CL_INVALID_PROGRAM)
    SLUICE_OPENCL_ERROR(CL_INVALID_PROGRAM_EXECUTABLE)
    SLUICE_OPENCL_ERROR(CL_INVALID_KERNEL_NAME)
    SLUICE_OPENCL_ERROR(CL_INVALID_KERNEL_DEFINITION)
    SLUICE_OPENCL_ERROR(CL_INVALID_KERNEL)
    SLUICE_OPENCL_ERROR(CL_INVALID_ARG_INDEX)
    SLUICE_OPENCL_ERROR(CL_INVALID_ARG_VALUE)
    SLUICE_OPENCL_ERROR(CL_INVALID_ARG_SIZE)
    SLUICE_OPENCL_ERROR(CL_INVALID_KERNEL_ARGS)
    SLUICE_OPENCL_ERROR(CL_INVALID_WORK_DIMENSION)
    SLUICE_OPENCL_ERROR(CL_INVALID_WORK_GROUP_SIZE)
    SLUICE_OPENCL_ERROR(CL_INVALID_WORK_ITEM_SIZE)
    SLUICE_OPENCL_ERROR(CL_INVALID_GLOBAL_OFFSET)
    SLUICE_OPENCL_ERROR(CL_INVALID_EVENT_WAIT_LIST)
    SLUICE_OPENCL_ERROR(CL_INVALID_EVENT)
    SLUICE_OPENCL_ERROR(CL_INVALID_OPERATION)
    SLUICE_OPENCL_ERROR(CL_INVALID_GL_OBJECT)
    SLUICE_OPENCL_ERROR(CL_INVALID_BUFFER_SIZE)
    SLUICE_OPENCL_ERROR(CL_INVALID_MIP_LEVEL)
    SLUICE_OPENCL_ERROR(CL_INVALID_GLOBAL_WORK_SIZE)
    SLUICE_OPENCL_ERROR(CL_INVALID_PROPERTY)
    SLUICE_OPENCL_ERROR(CL_INVALID_IMAGE_DESCRIPTOR)
    SLUICE_OPENCL_ERROR(CL_INVALID_COMPILER_OPTIONS)
    SLUICE_OPENCL_ERROR(CL_INVALID_LINKER_OPTIONS)
    SLUICE_OPENCL_ERROR(CL_INVALID_DEVICE_PARTITION_COUNT)
    SLUICE_OPENCL_ERROR(CL_INVALID_PIPE_SIZE)
    SLUICE_OPENCL_ERROR(CL_INVALID_DEVICE_QUEUE)
    SLUICE_OPENCL_ERROR(CL_INVALID_SPEC_ID)
    SLUICE_OPENCL_ERROR(CL_MAX_SIZE_RESTRICTION_EXCEEDED)
    SLUICE_OPENCL_ERROR(CL_INVALID_COMMAND_BUFFER_KHR)
    default:
      return "";
  }
#undef SLUICE_OPENCL_ERROR
}

}  // namespace

Result<const OpenClApi*> LoadOpenCl() {
  const Loaded& loaded = TheLibrary();
  if (!loaded.reason.empty()) return Status(StatusCode::kDevice, loaded.reason);
  return &loaded.api;
}

const OpenClApi& Cl() {
  if (const OpenClApi* api = instead.load(std::memory_order_acquire)) return *api;
  const Loaded& loaded = TheLibrary();
  CHECK(loaded.reason.empty(), loaded.reason);
  return loaded.api;
}

UseOpenCl::UseOpenCl(const OpenClApi& api) { instead = &api; }
UseOpenCl::~UseOpenCl() { instead = nullptr; }

CommandBufferApi LoadCommandBuffers(cl_platform_id platform) {
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
        Cl().GetExtensionFunctionAddressForPlatform(platform, name));
  };
  CommandBufferApi api;
  find("clCreateCommandBufferKHR", &api.create);
  find("clReleaseCommandBufferKHR", &api.release);
  find("clFinalizeCommandBufferKHR", &api.finalize);
  find("clEnqueueCommandBufferKHR", &api.enqueue);
  find("clCommandNDRangeKernelKHR", &api.add_kernel);
  return api;
}

Status ErrorOf(cl_int code, std::string_view what) {
  const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY ||
                      code == CL_OUT_OF_RESOURCES;
  const std::string_view name = ErrorName(code);
  return Status(memory ? StatusCode::kOutOfMemory : StatusCode::kDevice,
                name.empty() ? StrCat(what, ": OpenCL error ", code) : StrCat(what, ": ", name));
}

}  // namespace sluice::xpu
