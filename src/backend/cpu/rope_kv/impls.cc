#include "backend/cpu/rope_kv/impls.h"

#include "backend/cpu/kernel_support.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/rope_kv/kernels.h"
#include "ops/rope_kv.h"

namespace sluice::cpu {
namespace {

using Op = ops::RopeKv;

template <Isa isa>
ops::Support Supports(const Op::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.head_dim > kRopeHeadDimMax)
    return ops::Support::No(
        StrCat("head_dim is ", desc.head_dim, ", the limit is ", kRopeHeadDimMax));
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefRopeKvSupports(desc, facts) : support;
}

template <const RopeKvKernels& kernels>
Status Run(device::Stream& stream, const Op::Desc& desc, const Op::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const bool keep = desc.form == ops::RopeKvForm::kPrefillQkvOut;
  const RopeKvCall call = {.qkv = args.qkv.ptr<float>(),
                           .q_out = keep ? nullptr : args.q_out.ptr<float>(),
                           .positions = args.positions.ptr<int32_t>(),
                           .table = args.table.ptr<float>(),
                           .slots = args.slots.ptr<int32_t>(),
                           .k = args.kv.k.data,
                           .v = args.kv.v.data,
                           .k_scale = args.kv.k_scale.ptr<float>(),
                           .v_scale = args.kv.v_scale.ptr<float>(),
                           .qkv_stride = args.qkv.strides[0],
                           .q_out_stride = args.q_out.strides[0],
                           .k_block_stride = args.kv.k.strides[0],
                           .v_block_stride = args.kv.v.strides[0],
                           .k_scale_block_stride = args.kv.k_scale.strides[0],
                           .v_scale_block_stride = args.kv.v_scale.strides[0],
                           .block_tokens = desc.kv.kernel_block_tokens,
                           .q_heads = desc.q_heads,
                           .kv_heads = desc.kv_heads,
                           .head_dim = desc.head_dim,
                           .v_head_dim = desc.kv.v_head_dim,
                           .rotary_dims = desc.rotary_dims,
                           .interleaved = desc.interleaved};
  const RopeKvKernel kernel = KernelForKv(kernels, desc.kv.dtype);
  ForRows(AsCpu(stream), args.qkv.dims[0], args.qkv.dims[1],
          [&](int64_t begin, int64_t end) { kernel(call, begin, end); });
  return OkStatus();
}

}  // namespace

void RegisterRopeKv(ops::OpTable& table) {
  table.Add<Op>({"avx512_f32_rope_kv", &Supports<Isa::kAvx512>, &Run<kAvx512RopeKvKernels>,
                 ops::Arithmetic::kF32});
  table.Add<Op>(
      {"avx2_f32_rope_kv", &Supports<Isa::kAvx2>, &Run<kAvx2RopeKvKernels>, ops::Arithmetic::kF32});
  table.Add<Op>({.name = "ref_rope_kv",
                 .supports = &ops::RefRopeKvSupports,
                 .run = &ops::RefRopeKv,
                 .slow = &ops::PlainLoops<Op>});
}

}  // namespace sluice::cpu
