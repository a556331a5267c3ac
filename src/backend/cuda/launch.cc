#include "backend/cuda/launch.h"

#include "backend/cuda/stream.h"

namespace sluice::cuda {

Status LaunchKernel(device::Stream& stream, const KernelId& id, const LaunchShape& shape,
                    std::span<void*> params, std::span<const size_t> param_bytes) {
  if (shape.grid.empty()) return OkStatus();
  CudaStream& cuda = AsCuda(stream);
  SLUICE_RETURN_IF_ERROR(cuda.Enter());
  SLUICE_ASSIGN_OR_RETURN(
      const Kernel* const kernel,
      cuda.home().kernels->Find(id.module, id.function, param_bytes, shape.shared_bytes));
  const CUresult result = TheDriver().cuLaunchKernel(
      reinterpret_cast<CUfunction>(kernel->handle), shape.grid.x, shape.grid.y, shape.grid.z,
      shape.block.x, shape.block.y, shape.block.z, shape.shared_bytes, cuda.handle(), params.data(),
      nullptr);
  return cuda.Launched(result, *kernel);
}

Result<std::byte*> Scratch(device::Stream& stream, size_t bytes) {
  return AsCuda(stream).Scratch(bytes);
}

const device::DeviceFacts& FactsOf(const device::Stream& stream) {
  return static_cast<const CudaStream&>(stream).facts();
}

}  // namespace sluice::cuda
