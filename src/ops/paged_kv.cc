#include "ops/paged_kv.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string KvDesc::ToString() const {
  return StrCat(Name(dtype), " ", kv_heads, "x", k_head_dim, "/", v_head_dim, " blocks of ",
                kernel_block_tokens);
}

void ExpectPagedKv(const KvDesc& desc, const PagedKv& kv, ArgsChecker& check) {
  const int64_t blocks = kv.k.rank == 4 ? kv.k.dims[0] : -1;
  check
      .Expect("k", kv.k, desc.dtype,
              {blocks, desc.kv_heads, desc.kernel_block_tokens, desc.k_head_dim})
      .ExpectIf(desc.v_head_dim > 0, "v", kv.v, desc.dtype,
                {blocks, desc.kv_heads, desc.kernel_block_tokens, desc.v_head_dim})
      .ExpectAbsent("k_scale", kv.k_scale)
      .ExpectAbsent("v_scale", kv.v_scale);
  if (kv.layout != desc.layout) {
    check.Fail(StrCat("the KV has layout ", static_cast<uint32_t>(kv.layout), ", expected ",
                      static_cast<uint32_t>(desc.layout)));
  }
}

}  // namespace sluice::ops
