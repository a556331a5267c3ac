#include "backend/xpu/rope_kv/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/rope_kv.h"

namespace sluice::xpu {
namespace {

constexpr int kHeadDimMax = 1024;  // a head lies in local memory

ops::Support Supports(const ops::RopeKv::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.head_dim > kHeadDimMax)
    return ops::Support::No(StrCat("head_dim is ", desc.head_dim, ", above ", kHeadDimMax));
  return ops::RefRopeKvSupports(desc, facts);
}

Status Run(device::Stream& stream, const ops::RopeKv::Desc& desc, const ops::RopeKv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 16);
  const bool scales = ops::KvHasScales(desc.kv.dtype);
  const std::string options =
      StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation),
             " -D KV=", KvName(desc.kv.dtype), " -D HEAD_DIM_MAX=", kHeadDimMax,
             " -D CODE_MAX=", scales ? static_cast<int>(ops::KvCodeMax(desc.kv.dtype)) : 0);
  const int64_t slots = args.kv.k.dims[0] * desc.kv.kernel_block_tokens;
  LaunchShape shape{{static_cast<size_t>(desc.q_heads + 2 * desc.kv_heads),
                     static_cast<size_t>(args.qkv.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {"rope_kv/any_f32_rope_kv", "any_f32_rope_kv"}, options, shape,
                args.qkv.data, RowStride(args.qkv), args.positions.data, args.table.data,
                args.slots.data, args.q_out.data, RowStride(args.q_out), args.kv.k.data,
                args.kv.v.data, args.kv.k_scale.data, args.kv.v_scale.data, RowStride(args.kv.k),
                RowStride(args.kv.v), RowStride(args.kv.k_scale), RowStride(args.kv.v_scale),
                desc.q_heads, desc.kv_heads, desc.head_dim, desc.kv.v_head_dim, desc.rotary_dims,
                desc.interleaved ? 1 : 0, desc.form == ops::RopeKvForm::kPrefillQkvOut ? 1 : 0,
                desc.kv.kernel_block_tokens,
                static_cast<int32_t>(desc.rotary_dims > 0 ? args.table.dims[0] : 0),
                static_cast<uint64_t>(slots));
}

}  // namespace

void RegisterRopeKv(ops::OpTable& table) {
  table.Add<ops::RopeKv>({"any_f32_rope_kv", &Supports, &Run, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
