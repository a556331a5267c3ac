// Where K and V of a token go, as the kernels of RoPE and the KV write have it.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/rope_kv/params.h"
#include "backend/cuda/simt/element.cuh"
#include "base/dtype.h"

namespace sluice::cuda {

// Where a row of K or V and its scale lie.
struct KvRow {
  void* data;  // null: nothing is written
  int64_t first;
  float* scale;  // null: the format has none
  int width;
};

__device__ __forceinline__ KvRow FindRow(const RopeKvParams& p, int slot, bool is_v, int head) {
  const bool there = slot >= 0 && slot < p.slots_max;
  const int64_t block = there ? slot / p.block_tokens : 0, offset = slot % p.block_tokens;
  const int64_t* strides = is_v ? p.v_strides : p.k_strides;
  const int64_t* scale_strides = is_v ? p.v_scale_strides : p.k_scale_strides;
  float* scales = is_v ? p.v_scale : p.k_scale;
  KvRow row;
  row.data = there ? (is_v ? p.v : p.k) : nullptr;
  row.first = block * strides[0] + head * strides[1] + offset * strides[2];
  row.scale = scales == nullptr
                  ? nullptr
                  : scales + block * scale_strides[0] + head * scale_strides[1] + offset;
  row.width = is_v ? p.v_head_dim : p.head_dim;
  return row;
}

// ops::KvRowScale of a row's largest magnitude; `finite`: all of its numbers are.
__device__ __forceinline__ float RowScale(uint32_t format, float largest, bool finite) {
  const float max = static_cast<DType>(format) == DType::kF8E4M3 ? 448.0f : 127.0f;
  return finite ? largest / max : __uint_as_float(0x7fc00000u);
}

__device__ __forceinline__ void StoreKv(uint32_t format, void* data, int64_t at, float value) {
  switch (static_cast<DType>(format)) {
    case DType::kF32:
      static_cast<float*>(data)[at] = value;
      break;
    case DType::kF16:
      static_cast<__half*>(data)[at] = FromFloat<__half>(value);
      break;
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(data)[at] = FromFloat<__nv_bfloat16>(value);
      break;
    case DType::kF8E4M3:
      static_cast<uint8_t*>(data)[at] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
      break;
    default:
      static_cast<int8_t*>(data)[at] =
          static_cast<int8_t>(__float2int_rn(fminf(fmaxf(value, -127.0f), 127.0f)));
  }
}

}  // namespace sluice::cuda
