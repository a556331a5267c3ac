#include "ops/latent_attention.h"

#include <algorithm>

#include "ops/check_args.h"

namespace sluice::ops {

std::string LatentAttention::Desc::ToString() const {
  std::string out = StrCat(Name(activation), " ", heads, " heads of ", key_width, ", values of ",
                           value_width, " scale ", scale, " kv ", kv.ToString());
  if (listed_max > 0) out += StrCat(" at ", listed_max, " listed positions");
  if (paths) out += " paths";
  return out;
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
  whole.paths = desc.paths;
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
  whole.paths = args.paths;
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
      .ExpectIf(desc.listed_max > 0, "listed", args.listed, DType::kI32, {tokens, desc.listed_max})
      .Expect("out", args.out, desc.activation, {tokens, int64_t{desc.heads} * desc.value_width})
      .ExpectIf(desc.paths && !args.paths.empty(), "paths", args.paths, DType::kI32,
                {tokens, kPathNumbers})
      .ExpectApart("q", args.q, "out", args.out);
  ExpectPagedKv(desc.kv, args.kv, check);
  return check.status();
}

int64_t ListedOf(const Tensor& listed, int64_t row) {
  const int32_t* list = listed.ptr<int32_t>() + row * listed.strides[0];
  const int32_t* end = list + listed.dims[1];
  return std::find_if(list, end, [](int32_t position) { return position < 0; }) - list;
}

Status CheckIndices(const LatentAttention::Desc& desc, const LatentAttention::Args& args) {
  Attention::Args whole = WholeRows(args);
  whole.out = args.out;
  SLUICE_RETURN_IF_ERROR(CheckIndices(WholeRows(desc), whole));
  if (desc.listed_max == 0) return OkStatus();
  const int32_t* start = args.query_start.ptr<int32_t>();
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    for (int64_t t = start[s]; t < start[s + 1]; ++t) {
      const int32_t* list = args.listed.ptr<int32_t>() + t * args.listed.strides[0];
      const int64_t position = args.context.ptr<int32_t>()[s] - (start[s + 1] - t);
      const int64_t count = ListedOf(args.listed, t);
      bool ascends = count > 0;
      for (int64_t i = 1; i < count; ++i) ascends = ascends && list[i - 1] < list[i];
      if (ascends && list[count - 1] <= position) continue;
      return InvalidArgument(StrCat(LatentAttention::kName, ": the ", count,
                                    " positions listed for row ", t, " at position ", position,
                                    " don't ascend up to it"));
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
