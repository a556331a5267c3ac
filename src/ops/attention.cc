#include "ops/attention.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "ops/check_args.h"

namespace sluice::ops {

std::string Attention::Desc::ToString() const {
  std::string out = StrCat(Name(activation), " ", q_heads, "/", kv_heads, " heads of ", head_dim,
                           causal ? " causal" : " all", " kv ", kv.ToString());
  if (window > 0) out += StrCat(chunked ? " chunks of " : " window ", window);
  if (scale.has_value()) out += StrCat(" scale ", *scale);
  if (soft_cap.has_value()) out += StrCat(" soft cap ", *soft_cap);
  if (sinks) out += " sinks";
  if (alibi) out += " alibi";
  if (growth_tokens > 0) out += StrCat(" growth by ", growth_scale, " at ", growth_tokens);
  if (bias_buckets > 0) out += StrCat(" biases in ", bias_buckets, " buckets");
  if (paths) out += " paths";
  return out;
}

// In F32, as the models' own code computes it: its rounding decides at the ends of ranges.
int BiasBucket(int buckets, int64_t distance) {
  const int half = buckets / 2, exact = half / 2;
  const int first = distance > 0 ? half : 0;
  const int64_t far = std::abs(distance);
  if (far < exact) return first + static_cast<int>(far);
  const auto ratio = static_cast<float>(far) / static_cast<float>(exact);
  const auto most = static_cast<float>(std::log(static_cast<double>(kBiasDistanceMax) / exact));
  const float step = std::log(ratio) / most * static_cast<float>(half - exact);
  return first + std::min(half - 1, exact + static_cast<int>(step));
}

namespace {

// What is wrong with a row's part of Args::paths, or nothing. The row has this place in its
// sequence; `had`: the row before had a path.
std::string PathError(const int32_t* path, int64_t place, bool had) {
  const int32_t count = path[0];
  if (count < 0 || count >= kPathNumbers) return StrCat("has ", count, " positions elsewhere");
  if (count == 0) return had ? "comes behind one that is aside of it" : "";
  const int64_t position = place - AsideOf(path);
  for (int32_t i = 1; i <= count; ++i) {
    const int64_t at = position - count + i;
    if (at < 0 || path[i] < 0 || at + path[i] > place)
      return StrCat("looks for position ", at, " ", path[i], " places behind it");
  }
  return "";
}

}  // namespace

void WritePaths(std::span<const int32_t> parents, int32_t* paths) {
  std::fill_n(paths, kPathNumbers, 0);
  std::array<int32_t, kPathNumbers> depths = {};
  for (int32_t row = 1; row <= static_cast<int32_t>(parents.size()); ++row) {
    const int32_t parent = parents[row - 1];
    const int32_t* const before = paths + parent * kPathNumbers;
    int32_t* const path = paths + row * kPathNumbers;
    depths[row] = depths[parent] + 1;
    std::copy_n(before, kPathNumbers, path);
    if (depths[row] == row) continue;
    path[0] = before[0] + 1;
    path[path[0]] = row - depths[row];
  }
}

Status CheckArgs(const Attention::Desc& desc, const Attention::Args& args) {
  const int64_t tokens = args.q.rank == 2 ? args.q.dims[0] : -1;
  const int64_t width = int64_t{desc.q_heads} * desc.head_dim;
  const int64_t sequences = args.context.rank == 1 ? args.context.dims[0] : -1;
  ArgsChecker check(Attention::kName, args.q);
  check.Expect("q", args.q, desc.activation, {tokens, width})
      .Expect("context", args.context, DType::kI32, {sequences})
      .Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("block_table", args.block_table, DType::kI32, {sequences, -1})
      .Expect("out", args.out, desc.activation, {tokens, width})
      .ExpectIf(desc.sinks, "sinks", args.sinks, DType::kF32, {desc.q_heads})
      .ExpectIf(desc.alibi, "slopes", args.slopes, DType::kF32, {desc.q_heads})
      .ExpectIf(desc.bias_buckets > 0, "bias", args.bias, DType::kF32,
                {desc.bias_buckets, desc.q_heads})
      .ExpectIf(desc.paths && !args.paths.empty(), "paths", args.paths, DType::kI32,
                {tokens, kPathNumbers})
      .ExpectIf(!args.plan.empty(), "plan", args.plan, DType::kI32,
                {AttentionPlanNumbers(sequences)})
      .ExpectApart("q", args.q, "out", args.out);
  ExpectPagedKv(desc.kv, args.kv, check);
  return check.status();
}

Status CheckIndices(const Attention::Desc& desc, const Attention::Args& args) {
  const auto bad = [](const auto&... parts) {
    return InvalidArgument(StrCat(Attention::kName, ": ", parts...));
  };
  const int32_t* start = args.query_start.ptr<int32_t>();
  const int32_t* context = args.context.ptr<int32_t>();
  const int64_t sequences = args.context.dims[0];
  const int64_t kernel_blocks = args.kv.k.dims[0];
  const int64_t block_tokens = desc.kv.kernel_block_tokens;
  if (start[0] != 0) return bad("query_start[0] is ", start[0], ", expected 0");
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t count = int64_t{start[s + 1]} - start[s];
    if (count < 0) return bad("query_start falls from ", start[s], " to ", start[s + 1]);
    if (start[s + 1] > args.q.dims[0])
      return bad("query_start[", s + 1, "] is ", start[s + 1], ", q has ", args.q.dims[0], " rows");
    if (count == 0) continue;
    if (desc.query_tokens_max > 0 && count > desc.query_tokens_max)
      return bad("sequence ", s, " has ", count, " query tokens, bound for at most ",
                 desc.query_tokens_max);
    if (context[s] < count)
      return bad("sequence ", s, " has ", count, " query tokens in a context of ", context[s]);
    if (context[s] > args.block_table.dims[1] * block_tokens)
      return bad("a context of ", context[s], " tokens does not fit ", args.block_table.dims[1],
                 " blocks of ", block_tokens);
    for (int64_t t = start[s]; t < start[s + 1] && !args.paths.empty(); ++t) {
      const int32_t* const path = PathOf(args.paths, t);
      const bool had = t > start[s] && PathOf(args.paths, t - 1)[0] > 0;
      const std::string error = PathError(path, context[s] - (start[s + 1] - t), had);
      if (!error.empty()) return bad("row ", t, " of paths ", error);
    }
    const int64_t first = FirstVisible(desc, context[s] - count);
    const int32_t* row = args.block_table.ptr<int32_t>() + s * args.block_table.strides[0];
    for (int64_t b = first / block_tokens; b * block_tokens < context[s]; ++b) {
      if (row[b] < 0 || row[b] >= kernel_blocks)
        return bad("block_table[", s, "][", b, "] is ", row[b], ", the KV has ", kernel_blocks,
                   " blocks");
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
