#include "ops/paged_kv.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/check_args.h"
#include "ops/element.h"

namespace sluice::ops {

std::string KvDesc::ToString() const {
  return StrCat(Name(dtype), " ", kv_heads, "x", k_head_dim, "/", v_head_dim, " blocks of ",
                kernel_block_tokens);
}

bool KvHasScales(DType dtype) { return IsCode(dtype); }

bool IsKvFormat(DType dtype) { return IsPlainFloat(dtype) || KvHasScales(dtype); }

float KvCodeMax(DType dtype) { return dtype == DType::kF8E4M3 ? 448.0f : 127.0f; }

float KvRowScale(DType dtype, const float* values, int count) {
  float largest = 0.0f;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(values[i]));
  }
  return largest / KvCodeMax(dtype);
}

void StoreKvRow(DType dtype, const float* values, int count, std::byte* data, int64_t first,
                float* scale) {
  if (!KvHasScales(dtype)) {
    for (int i = 0; i < count; ++i) StoreElement(dtype, data, first + i, values[i]);
    return;
  }
  *scale = KvRowScale(dtype, values, count);
  for (int i = 0; i < count; ++i)
    StoreElement(dtype, data, first + i, *scale > 0.0f ? values[i] / *scale : 0.0f);
}

void ExpectPagedKv(const KvDesc& desc, const PagedKv& kv, ArgsChecker& check) {
  const int64_t blocks = kv.k.rank == 4 ? kv.k.dims[0] : -1;
  check
      .Expect("k", kv.k, desc.dtype,
              {blocks, desc.kv_heads, desc.kernel_block_tokens, desc.k_head_dim})
      .ExpectIf(desc.v_head_dim > 0, "v", kv.v, desc.dtype,
                {blocks, desc.kv_heads, desc.kernel_block_tokens, desc.v_head_dim})
      .ExpectIf(KvHasScales(desc.dtype), "k_scale", kv.k_scale, DType::kF32,
                {blocks, desc.kv_heads, desc.kernel_block_tokens})
      .ExpectIf(KvHasScales(desc.dtype) && desc.v_head_dim > 0, "v_scale", kv.v_scale, DType::kF32,
                {blocks, desc.kv_heads, desc.kernel_block_tokens});
  if (kv.layout != desc.layout) {
    check.Fail(StrCat("the KV has layout ", static_cast<uint32_t>(kv.layout), ", expected ",
                      static_cast<uint32_t>(desc.layout)));
  }
}

}  // namespace sluice::ops
