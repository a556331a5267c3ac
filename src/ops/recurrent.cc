#include "ops/recurrent.h"

#include "ops/check_args.h"

namespace sluice::ops {
namespace {

// The rules of what all of these ops say about sequences.
template <class Args>
void ExpectSequences(const Args& args, ArgsChecker& check) {
  const int64_t sequences = args.context.rank == 1 ? args.context.dims[0] : -1;
  check.Expect("context", args.context, DType::kI32, {sequences})
      .Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("block_table", args.block_table, DType::kI32, {sequences, -1});
}

template <class Op>
Status CheckSequences(const typename Op::Args& args, int64_t tokens, int64_t block_tokens) {
  const auto bad = [](const auto&... parts) {
    return InvalidArgument(StrCat(Op::kName, ": ", parts...));
  };
  const int32_t* start = args.query_start.template ptr<int32_t>();
  const int32_t* context = args.context.template ptr<int32_t>();
  if (start[0] != 0) return bad("query_start[0] is ", start[0], ", expected 0");
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    const int64_t count = int64_t{start[s + 1]} - start[s];
    if (count < 0) return bad("query_start falls from ", start[s], " to ", start[s + 1]);
    if (start[s + 1] > tokens)
      return bad("query_start[", s + 1, "] is ", start[s + 1], ", the call has ", tokens, " rows");
    if (count == 0) continue;
    const int64_t end = context[s], first = end - count;
    if (first < 0) return bad("sequence ", s, " has ", count, " query tokens of ", end);
    if (end > args.block_table.dims[1] * block_tokens)
      return bad("a context of ", end, " tokens does not fit ", args.block_table.dims[1],
                 " blocks of ", block_tokens);
    if (first / block_tokens != (end - 1) / block_tokens)
      return bad("sequence ", s, " goes from position ", first, " to ", end - 1,
                 " over a border between blocks of ", block_tokens);
    const int32_t* row = args.block_table.template ptr<int32_t>() + s * args.block_table.strides[0];
    for (const int64_t position : {first - 1, end - 1}) {
      const int64_t id = position < 0 ? -1 : row[position / block_tokens];
      if (id < -1 || id >= args.state.dims[0])
        return bad("block_table[", s, "][", position / block_tokens, "] is ", id,
                   ", the state has ", args.state.dims[0], " blocks");
    }
  }
  return OkStatus();
}

}  // namespace

std::string ShortConv::Desc::ToString() const {
  return StrCat(Name(activation), " ", channels, gated ? " gated" : "", " channels, kernel ",
                kernel, bias ? " with bias" : "", ", ", states, " states in blocks of ",
                block_tokens);
}

std::string GatedDelta::Desc::ToString() const {
  return StrCat(Name(activation), " ", k_heads, "/", v_heads, " heads of ", k_head_dim, "/",
                v_head_dim, ", ", states, " states in blocks of ", block_tokens);
}

std::string Ssd::Desc::ToString() const {
  return StrCat(Name(activation), " ", k_heads, "/", v_heads, " heads of ", k_head_dim, "/",
                v_head_dim, steps ? " with steps" : "",
                dt_scale == 1.0f ? "" : StrCat(" times ", dt_scale), skip ? " with skip" : "", ", ",
                states, " states in blocks of ", block_tokens);
}

std::string SelectiveScan::Desc::ToString() const {
  return StrCat(Name(activation), " ", channels, " channels of ", state_size, ", ", states,
                " states in blocks of ", block_tokens);
}

Status CheckArgs(const ShortConv::Desc& desc, const ShortConv::Args& args) {
  const int64_t tokens = args.x.rank == 2 ? args.x.dims[0] : -1;
  ArgsChecker check(ShortConv::kName, args.x);
  check.Expect("x", args.x, desc.activation, {tokens, desc.width()})
      .Expect("weight", args.weight, DType::kF32, {desc.channels, desc.kernel})
      .ExpectIf(desc.bias, "bias", args.bias, DType::kF32, {desc.channels})
      .Expect("state", args.state, DType::kF32,
              {-1, int64_t{desc.states} * (desc.kernel - 1), desc.channels})
      .Expect("out", args.out, desc.activation, {tokens, desc.channels})
      .ExpectApart("x", args.x, "out", args.out)
      .ExpectApart("state", args.state, "out", args.out);
  ExpectSequences(args, check);
  return check.status();
}

Status CheckArgs(const GatedDelta::Desc& desc, const GatedDelta::Args& args) {
  const int64_t tokens = args.qkv.rank == 2 ? args.qkv.dims[0] : -1;
  const int64_t k_width = int64_t{desc.k_heads} * desc.k_head_dim;
  const int64_t v_width = int64_t{desc.v_heads} * desc.v_head_dim;
  ArgsChecker check(GatedDelta::kName, args.qkv);
  check.Expect("qkv", args.qkv, desc.activation, {tokens, 2 * k_width + v_width})
      .Expect("ba", args.ba, desc.activation, {tokens, 2 * int64_t{desc.v_heads}})
      .Expect("dt_bias", args.dt_bias, DType::kF32, {desc.v_heads})
      .Expect("a_log", args.a_log, DType::kF32, {desc.v_heads})
      .Expect("state", args.state, DType::kF32,
              {-1, int64_t{desc.states} * desc.v_heads, desc.k_head_dim, desc.v_head_dim})
      .Expect("out", args.out, desc.activation, {tokens, v_width})
      .ExpectApart("qkv", args.qkv, "out", args.out)
      .ExpectApart("ba", args.ba, "out", args.out)
      .ExpectApart("state", args.state, "out", args.out);
  ExpectSequences(args, check);
  return check.status();
}

Status CheckArgs(const Ssd::Desc& desc, const Ssd::Args& args) {
  const int64_t tokens = args.vkq.rank == 2 ? args.vkq.dims[0] : -1;
  const int64_t k_width = int64_t{desc.k_heads} * desc.k_head_dim;
  const int64_t v_width = int64_t{desc.v_heads} * desc.v_head_dim;
  ArgsChecker check(Ssd::kName, args.vkq);
  check.Expect("vkq", args.vkq, desc.activation, {tokens, v_width + 2 * k_width})
      .ExpectIf(desc.steps, "dt", args.dt, desc.activation, {tokens, desc.v_heads})
      .ExpectIf(desc.steps, "dt_bias", args.dt_bias, DType::kF32, {desc.v_heads})
      .Expect("a", args.a, DType::kF32, {desc.v_heads})
      .ExpectIf(desc.skip, "skip", args.skip, DType::kF32, {desc.v_heads})
      .Expect("state", args.state, DType::kF32,
              {-1, int64_t{desc.states} * desc.v_heads, desc.k_head_dim, desc.v_head_dim})
      .Expect("out", args.out, desc.activation, {tokens, v_width})
      .ExpectApart("vkq", args.vkq, "out", args.out)
      .ExpectApart("state", args.state, "out", args.out);
  if (desc.steps) check.ExpectApart("dt", args.dt, "out", args.out);
  ExpectSequences(args, check);
  return check.status();
}

Status CheckArgs(const SelectiveScan::Desc& desc, const SelectiveScan::Args& args) {
  const int64_t tokens = args.x.rank == 2 ? args.x.dims[0] : -1;
  ArgsChecker check(SelectiveScan::kName, args.x);
  check.Expect("x", args.x, desc.activation, {tokens, desc.channels})
      .Expect("dt", args.dt, desc.activation, {tokens, desc.channels})
      .Expect("bc", args.bc, desc.activation, {tokens, 2 * int64_t{desc.state_size}})
      .Expect("dt_bias", args.dt_bias, DType::kF32, {desc.channels})
      .Expect("a", args.a, DType::kF32, {desc.channels, desc.state_size})
      .Expect("skip", args.skip, DType::kF32, {desc.channels})
      .Expect("state", args.state, DType::kF32,
              {-1, int64_t{desc.states} * desc.state_size, desc.channels})
      .Expect("out", args.out, desc.activation, {tokens, desc.channels})
      .ExpectApart("x", args.x, "out", args.out)
      .ExpectApart("dt", args.dt, "out", args.out)
      .ExpectApart("bc", args.bc, "out", args.out)
      .ExpectApart("state", args.state, "out", args.out);
  ExpectSequences(args, check);
  return check.status();
}

Status CheckIndices(const ShortConv::Desc& desc, const ShortConv::Args& args) {
  return CheckSequences<ShortConv>(args, args.x.dims[0], desc.block_tokens);
}

Status CheckIndices(const GatedDelta::Desc& desc, const GatedDelta::Args& args) {
  return CheckSequences<GatedDelta>(args, args.qkv.dims[0], desc.block_tokens);
}

Status CheckIndices(const Ssd::Desc& desc, const Ssd::Args& args) {
  return CheckSequences<Ssd>(args, args.vkq.dims[0], desc.block_tokens);
}

Status CheckIndices(const SelectiveScan::Desc& desc, const SelectiveScan::Args& args) {
  return CheckSequences<SelectiveScan>(args, args.x.dims[0], desc.block_tokens);
}

}  // namespace sluice::ops
