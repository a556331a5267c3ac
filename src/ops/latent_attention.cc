#include "ops/latent_attention.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string LatentAttention::Desc::ToString() const {
  return StrCat(Name(activation), " ", heads, " heads of ", key_width, ", values of ", value_width,
                " scale ", scale, " kv ", kv.ToString());
}

Attention::Desc WholeRows(const LatentAttention::Desc& desc) {
  Attention::Desc whole;
  whole.activation = desc.activation;
  whole.q_heads = desc.heads;
  whole.kv_heads = 1;
  whole.head_dim = desc.key_width;
  whole.scale = desc.scale;
  whole.kv = desc.kv;
  whole.kv.v_head_dim = desc.key_width;
  return whole;
}

Attention::Args WholeRows(const LatentAttention::Args& args) {
  Attention::Args whole;
  whole.q = args.q;
  whole.query_start = args.query_start;
  whole.context = args.context;
  whole.block_table = args.block_table;
  whole.kv = args.kv;
  whole.kv.v = args.kv.k;
  whole.kv.v_scale = args.kv.k_scale;
  return whole;
}

Status CheckArgs(const LatentAttention::Desc& desc, const LatentAttention::Args& args) {
  const int64_t tokens = args.q.rank == 2 ? args.q.dims[0] : -1;
  const int64_t sequences = args.context.rank == 1 ? args.context.dims[0] : -1;
  ArgsChecker check(LatentAttention::kName, args.q);
  check.Expect("q", args.q, desc.activation, {tokens, int64_t{desc.heads} * desc.key_width})
      .Expect("context", args.context, DType::kI32, {sequences})
      .Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("block_table", args.block_table, DType::kI32, {sequences, -1})
      .Expect("out", args.out, desc.activation, {tokens, int64_t{desc.heads} * desc.value_width})
      .ExpectApart("q", args.q, "out", args.out);
  ExpectPagedKv(desc.kv, args.kv, check);
  return check.status();
}

}  // namespace sluice::ops
