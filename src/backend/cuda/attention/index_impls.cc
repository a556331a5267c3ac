#include "backend/cuda/attention/index_impls.h"

#include <algorithm>

#include "backend/cuda/alignment.h"
#include "backend/cuda/attention/config.h"
#include "backend/cuda/attention/host_params.h"
#include "backend/cuda/attention/index_params.h"
#include "backend/cuda/by_type.h"
#include "backend/cuda/launch.h"
#include "ops/index_scores.h"
#include "ops/top_k.h"

namespace sluice::cuda {
namespace {

using ops::IndexScores;
using ops::TopK;

// Of a grid; a thread block takes further rows by itself.
constexpr int64_t kGridRowsMax = 65535;

IndexParams IndexParamsOf(const IndexScores::Desc& desc, const IndexScores::Args& args) {
  ops::Attention::Desc keys = {.activation = desc.activation,
                               .q_heads = desc.heads,
                               .kv_heads = 1,
                               .head_dim = desc.head_dim,
                               .kv = desc.kv};
  ops::Attention::Args of_keys{.q = args.q,
                               .query_start = args.query_start,
                               .context = args.context,
                               .block_table = args.block_table,
                               .kv = args.kv};
  // There is no V, whose tensors are read by no kernel here.
  of_keys.kv.v = args.kv.k;
  of_keys.kv.v_scale = args.kv.k_scale;
  of_keys.out = args.q;
  return {.rows = ParamsOf(keys, of_keys),
          .weights = args.weights.ptr<float>(),
          .scores = args.scores.ptr<float>(),
          .lengths = args.lengths.ptr<int32_t>(),
          .weights_stride = args.weights.strides[0],
          .scores_stride = args.scores.strides[0],
          .first_row = static_cast<int32_t>(args.first_row),
          .positions_max = static_cast<int32_t>(args.scores.dims[1]),
          .scale = desc.scale};
}

// Rows of K begin at multiples of `numbers` numbers.
bool KeysAligned(const IndexScores::Desc& desc, const AttentionParams& rows, int numbers) {
  const auto bytes = static_cast<uintptr_t>(numbers) * Info(desc.kv.dtype).bytes;
  return desc.head_dim % numbers == 0 && rows.k_stride % numbers == 0 &&
         reinterpret_cast<uintptr_t>(rows.k) % bytes == 0;
}

// A grid for all positions that rows have room for, so that a captured launch stays right when
// lengths change.
LaunchShape ShapeOf(const IndexScores::Desc& desc, const IndexParams& p, bool in_f32) {
  // A row without positions still has its length written.
  const unsigned pieces = std::max(1u, BlocksFor(p.positions_max, kIndexPiece));
  const auto rows = static_cast<unsigned>(std::min<int64_t>(p.rows.tokens, kGridRowsMax));
  return {.grid = {pieces, rows},
          .block = {kIndexThreads},
          .shared_bytes = static_cast<unsigned>(IndexSharedBytes(desc.head_dim, in_f32))};
}

Status RunInF32(device::Stream& stream, const IndexScores::Desc& desc,
                const IndexScores::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  IndexParams p = IndexParamsOf(desc, args);
  p.rows.vector_kv = KeysAligned(desc, p.rows, 4) ? 1 : 0;
  return Launch(stream, {"any_f32_index_scores", "any_f32_index_scores"},
                ShapeOf(desc, p, /*in_f32=*/true), p);
}

template <AttentionProducts products>
Status RunIn16Bits(device::Stream& stream, const IndexScores::Desc& desc,
                   const IndexScores::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const IndexParams p = IndexParamsOf(desc, args);
  if (!KeysAligned(desc, p.rows, 8) || !RowsBeginAt(args.q, 16)) {
    return InvalidArgument(
        "index_scores: rows of q and keys of a block must begin at multiples of 8 numbers; lay "
        "them out so, or force any_f32_index_scores");
  }
  constexpr KernelId kKernel = products == AttentionProducts::kF16
                                   ? KernelId{"sm80_f16_index_scores", "sm80_f16_index_scores"}
                                   : KernelId{"sm80_bf16_index_scores", "sm80_bf16_index_scores"};
  return Launch(stream, kKernel, ShapeOf(desc, p, /*in_f32=*/false), p);
}

template <AttentionProducts products>
ops::Support Supports(const IndexScores::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.head_dim > kIndexDimMax) {
    return ops::Support::No(
        StrCat("keys of ", desc.head_dim, " numbers; up to ", kIndexDimMax, " have room"));
  }
  if (products != AttentionProducts::kF32) {
    const DType type = products == AttentionProducts::kF16 ? DType::kF16 : DType::kBF16;
    if (desc.activation != type || desc.kv.dtype != type) {
      return ops::Support::No(StrCat("multiplies ", Name(type), ", not ", Name(desc.activation),
                                     " by KV of ", Name(desc.kv.dtype)));
    }
    if (desc.head_dim % 16 != 0)
      return ops::Support::No(StrCat("keys of ", desc.head_dim, ", which is no multiple of 16"));
  }
  return ops::RefIndexScoresSupports(desc, facts);
}

// Rows in F32 can't be multiplied otherwise.
std::string_view SlowIn16Bits(const IndexScores::Desc& desc) {
  return desc.activation == DType::kF32 ? "" : "it multiplies without matrix instructions";
}

Status RunTopK(device::Stream& stream, const TopK::Desc& desc, const TopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const TopKParams p = {.scores = args.scores.ptr<float>(),
                        .lengths = args.lengths.ptr<int32_t>(),
                        .positions = args.positions.ptr<int32_t>(),
                        .scores_stride = args.scores.strides[0],
                        .positions_stride = args.positions.strides[0],
                        .width = static_cast<int32_t>(args.scores.dims[1]),
                        .k = desc.k};
  const LaunchShape shape = {.grid = {static_cast<unsigned>(args.scores.dims[0])},
                             .block = {kTopKThreads}};
  return Launch(stream, {"any_f32_top_k", "any_f32_top_k"}, shape, p);
}

}  // namespace

void RegisterIndex(ops::OpTable& table) {
  using enum AttentionProducts;
  table.Add<IndexScores>({.name = "sm80_bf16_index_scores",
                          .supports = &Supports<kBF16>,
                          .run = &RunIn16Bits<kBF16>,
                          .arithmetic = ops::Arithmetic::kBf16});
  table.Add<IndexScores>({.name = "sm80_f16_index_scores",
                          .supports = &Supports<kF16>,
                          .run = &RunIn16Bits<kF16>,
                          .arithmetic = ops::Arithmetic::kF16});
  table.Add<IndexScores>({.name = "any_f32_index_scores",
                          .supports = &Supports<kF32>,
                          .run = &RunInF32,
                          .arithmetic = ops::Arithmetic::kF32,
                          .slow = &SlowIn16Bits});
  table.Add<TopK>({.name = "any_f32_top_k",
                   .supports = &ops::RefTopKSupports,
                   .run = &RunTopK,
                   .arithmetic = ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
