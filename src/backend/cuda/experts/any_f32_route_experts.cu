// The experts of tokens, a warp for each.
#include "backend/cuda/experts/route_token.cuh"
#include "backend/cuda/simt/dependence.cuh"

extern "C" __global__ void __launch_bounds__(sluice::cuda::kRouteWarps * 32)
    any_f32_route_experts(const __grid_constant__ sluice::cuda::RouteExpertsParams p) {
  extern __shared__ uint32_t ranks[];
  sluice::cuda::WaitForInputs();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t token = int64_t{blockIdx.x} * sluice::cuda::kRouteWarps + warp;
  if (token >= p.tokens) return;
  sluice::cuda::RouteToken(p, token, ranks + warp * (p.experts + p.groups),
                           static_cast<int>(threadIdx.x) % 32);
}
