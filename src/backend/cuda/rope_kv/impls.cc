#include "backend/cuda/rope_kv/impls.h"

#include <algorithm>
#include <bit>

#include "backend/cuda/alignment.h"
#include "backend/cuda/by_type.h"
#include "backend/cuda/rope_kv/params.h"
#include "ops/normed_rope_kv.h"

namespace sluice::cuda {
namespace {

using Op = ops::RopeKv;

constexpr KernelByType kRopeKv = SLUICE_KERNEL_BY_TYPE("any_f32_rope_kv", "any_f32_rope_kv");
constexpr KernelByType kRopeKvWide =
    SLUICE_KERNEL_BY_TYPE("any_f32_rope_kv_wide", "any_f32_rope_kv_wide");

RopeKvParams ParamsOf(const Op::Desc& desc, const Op::Args& args) {
  RopeKvParams p = {};
  p.qkv = args.qkv.data;
  p.q_out = desc.form == ops::RopeKvForm::kPrefillQkvOut ? nullptr : args.q_out.data;
  p.positions = args.positions.ptr<int32_t>();
  p.table = args.table.ptr<float>();
  p.slots = args.slots.ptr<int32_t>();
  p.k = args.kv.k.data;
  p.v = args.kv.v.data;
  p.k_scale = args.kv.k_scale.ptr<float>();
  p.v_scale = args.kv.v_scale.ptr<float>();
  p.qkv_stride = args.qkv.strides[0];
  p.q_out_stride = args.q_out.strides[0];
  std::copy_n(args.kv.k.strides.begin(), 3, p.k_strides);
  std::copy_n(args.kv.v.strides.begin(), 3, p.v_strides);
  std::copy_n(args.kv.k_scale.strides.begin(), 2, p.k_scale_strides);
  std::copy_n(args.kv.v_scale.strides.begin(), 2, p.v_scale_strides);
  p.tokens = args.qkv.dims[0];
  p.positions_max = args.table.dims[0];
  p.slots_max = args.kv.k.dims[0] * desc.kv.kernel_block_tokens;
  p.block_tokens = desc.kv.kernel_block_tokens;
  p.q_heads = desc.q_heads;
  p.kv_heads = desc.kv_heads;
  p.head_dim = desc.head_dim;
  p.v_head_dim = desc.kv.v_head_dim;
  p.rotary_dims = desc.rotary_dims;
  p.interleaved = desc.interleaved;
  p.kv = static_cast<uint32_t>(desc.kv.dtype);
  return p;
}

// Rows of K or V begin where eight numbers can be stored at once.
bool KvRowsBeginWide(DType dtype, const ops::Tensor& t) {
  const size_t number = Info(dtype).bytes, wide = std::min<size_t>(8 * number, 16);
  const auto begins = [&](int64_t stride) {
    return static_cast<size_t>(stride) * number % wide == 0;
  };
  return reinterpret_cast<uintptr_t>(t.data) % wide == 0 &&
         std::all_of(t.strides.begin(), t.strides.begin() + 3, begins);
}

// Every group of eight numbers of a head lies where it can be read and written at once.
bool IsWide(const Op::Desc& desc, const Op::Args& args) {
  if (desc.head_dim % kRopeKvNumbers != 0 || desc.rotary_dims % kRopeKvNumbers != 0 ||
      desc.head_dim > kRopeKvWideHead || desc.kv.v_head_dim % 8 != 0)
    return false;
  if (!RowsBeginAt(args.qkv, 16) || !RowsBeginAt(args.q_out, 16)) return false;
  if (desc.rotary_dims > 0 && !RowsBeginAt(args.table, 16)) return false;
  return desc.kv_heads == 0 ||
         (KvRowsBeginWide(desc.kv.dtype, args.kv.k) && KvRowsBeginWide(desc.kv.dtype, args.kv.v));
}

Status Run(device::Stream& stream, const Op::Desc& desc, const Op::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  RopeKvParams params = ParamsOf(desc, args);
  const int64_t heads = desc.q_heads + 2 * int64_t{desc.kv_heads};
  LaunchShape shape;
  if (IsWide(desc, args)) {
    params.lanes =
        static_cast<int32_t>(std::bit_ceil(static_cast<unsigned>(desc.head_dim / kRopeKvNumbers)));
    shape.grid[0] = static_cast<unsigned>(params.tokens);
    shape.grid[1] = BlocksFor(heads * params.lanes, kRopeKvThreads);
    shape.block[0] = kRopeKvThreads;
    return Launch(stream, kRopeKvWide(desc.activation), shape, params);
  }
  shape.grid[0] = BlocksFor(params.tokens * heads, kRopeKvWarps);
  shape.block[0] = kRopeKvWarps * 32;
  return Launch(stream, kRopeKv(desc.activation), shape, params);
}

using Normed = ops::NormedRopeKv;
constexpr KernelByType kNormedRopeKv =
    SLUICE_KERNEL_BY_TYPE("any_f32_normed_rope_kv", "any_f32_normed_rope_kv");

ops::Support NormedSupports(const Normed::Desc& desc, const device::DeviceFacts& facts) {
  const int head_dim = desc.rope.head_dim;
  if (head_dim != 64 && head_dim != 128 && head_dim != kNormedHeadMax)
    return ops::Support::No(StrCat("heads of ", head_dim, "; 64, 128 and 256 are known"));
  if (desc.rope.interleaved || desc.rope.rotary_dims != head_dim)
    return ops::Support::No("heads that are rotated in part, or by neighbours");
  return ops::RefNormedRopeKvSupports(desc, facts);
}

Status RunNormed(device::Stream& stream, const Normed::Desc& desc, const Normed::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const NormedRopeKvParams params = {.rope = ParamsOf(desc.rope, RopeArgsOf(args, args.qkv)),
                                     .q_weight = args.q_weight.ptr<float>(),
                                     .k_weight = args.k_weight.ptr<float>(),
                                     .eps = desc.eps};
  const int64_t heads = desc.rope.q_heads + 2 * int64_t{desc.rope.kv_heads};
  LaunchShape shape;
  shape.grid[0] = BlocksFor(params.rope.tokens * heads, kRopeKvWarps);
  shape.block[0] = kRopeKvWarps * 32;
  return Launch(stream, kNormedRopeKv(desc.rope.activation), shape, params);
}

}  // namespace

void RegisterRopeKv(ops::OpTable& table) {
  table.Add<Op>({"any_f32_rope_kv", &ops::RefRopeKvSupports, &Run, ops::Arithmetic::kF32});
  table.Add<Normed>({"any_f32_normed_rope_kv", &NormedSupports, &RunNormed, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
