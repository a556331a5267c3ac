#include "ops/normed_rope_kv.h"

namespace sluice::ops {

QkNorm::Desc NormedRopeKv::Desc::norm() const {
  return {.activation = rope.activation,
          .q_heads = rope.q_heads,
          .kv_heads = rope.kv_heads,
          .head_dim = rope.head_dim,
          .eps = eps};
}

std::string NormedRopeKv::Desc::ToString() const {
  return StrCat(rope.ToString(), ", normed, eps ", eps);
}

RopeKv::Args RopeArgsOf(const NormedRopeKv::Args& args, const Tensor& qkv) {
  return {.qkv = qkv,
          .positions = args.positions,
          .table = args.table,
          .slots = args.slots,
          .q_out = args.q_out,
          .kv = args.kv};
}

Status CheckArgs(const NormedRopeKv::Desc& desc, const NormedRopeKv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(
      desc.norm(), {.qkv = args.qkv, .q_weight = args.q_weight, .k_weight = args.k_weight}));
  return CheckArgs(desc.rope, RopeArgsOf(args, args.qkv));
}

}  // namespace sluice::ops
