#include "backend/cuda/launch.h"

#include <array>

#include "backend/cuda/counters.h"
#include "backend/cuda/stream.h"

namespace sluice::cuda {

Status LaunchKernel(device::Stream& stream, const KernelId& id, const LaunchShape& shape,
                    std::span<void*> params, std::span<const size_t> param_bytes) {
  if (shape.grid.empty()) return OkStatus();
  CudaStream& cuda = AsCuda(stream);
  SLUICE_RETURN_IF_ERROR(cuda.Enter());
  KnownKernels& known = cuda.known_kernels();
  const Kernel* kernel = known.Find(id.module, id.function, param_bytes, shape.shared_bytes);
  if (kernel == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(
        kernel, cuda.home().kernels->Find(id.module, id.function, param_bytes, shape.shared_bytes));
    known.Add(id.module, id.function, shape.shared_bytes, kernel);
  }
  // Thread blocks may start before the kernel in front has ended: each kernel waits for its inputs
  // by itself (simt/dependence.cuh).
  std::array<CUlaunchAttribute, 3> attributes = {};
  unsigned count = 0;
  const Kernels& kernels = *cuda.home().kernels;
  if (kernels.starts_early()) {
    CUlaunchAttribute& early = attributes[count++];
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.together) {
    CUlaunchAttribute& together = attributes[count++];
    together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    together.value.cooperative = 1;
  }
  if (shape.cached) {
    CUlaunchAttribute& share = attributes[count++];
    share.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    share.value.sharedMemCarveout =
        SharedPercent(shape.shared_bytes + static_cast<unsigned>(kernel->static_shared_bytes),
                      kernels.unit_shared_bytes());
  }
  CUlaunchConfig config = {};
  config.gridDimX = shape.grid.x;
  config.gridDimY = shape.grid.y;
  config.gridDimZ = shape.grid.z;
  config.blockDimX = shape.block.x;
  config.blockDimY = shape.block.y;
  config.blockDimZ = shape.block.z;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = cuda.handle();
  config.attrs = attributes.data();
  config.numAttrs = count;
  const CUresult result = TheDriver().cuLaunchKernelEx(
      &config, reinterpret_cast<CUfunction>(kernel->handle), params.data(), nullptr);
  return cuda.Launched(result, *kernel);
}

Result<std::byte*> Scratch(device::Stream& stream, size_t bytes) {
  return AsCuda(stream).Scratch(bytes);
}

uint32_t* Counters(device::Stream& stream) { return AsCuda(stream).counters(); }

const device::DeviceFacts& FactsOf(const device::Stream& stream) {
  return static_cast<const CudaStream&>(stream).facts();
}

}  // namespace sluice::cuda
