#include "backend/cuda/embedding/impls.h"

#include "backend/cuda/alignment.h"
#include "backend/cuda/by_type.h"
#include "backend/cuda/embedding/params.h"
#include "ops/embedding.h"

namespace sluice::cuda {
namespace {

using ops::Embedding;
using ops::GatherRows;
using ops::ResolveTokens;

constexpr KernelByType kEmbedding = SLUICE_KERNEL_BY_TYPE("any_f32_embedding", "any_f32_embedding");

LaunchShape BlockPerRow(int64_t rows) {
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(rows);
  shape.block[0] = kEmbeddingThreads;
  return shape;
}

// Whether the kernel reads rows of the format.
bool HasRows(DType table) {
  switch (table) {
    case DType::kI8:
    case DType::kIQ4_XS:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
    case DType::kNVFP4:
      return false;
    default:
      return true;
  }
}

ops::Support EmbeddingSupports(const Embedding::Desc& desc, const device::DeviceFacts& facts) {
  if (!HasRows(desc.table)) return ops::Support::No(StrCat("a table of ", Name(desc.table)));
  return ops::RefEmbeddingSupports(desc, facts);
}

Status RunEmbedding(device::Stream& stream, const Embedding::Desc& desc,
                    const Embedding::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const size_t row_bytes = RowBytes(desc.table, static_cast<size_t>(desc.hidden));
  const EmbeddingParams params = {.ids = args.ids.ptr<int32_t>(),
                                  .table = args.table.ptr<uint8_t>(),
                                  .out = args.out.data,
                                  .row_bytes = static_cast<int64_t>(row_bytes),
                                  .out_stride = args.out.strides[0],
                                  .vocab = desc.vocab,
                                  .hidden = desc.hidden,
                                  .format = static_cast<uint32_t>(desc.table),
                                  .scale = desc.scale,
                                  .add = desc.add,
                                  .first_beyond = desc.first_beyond ? 1 : 0};
  return Launch(stream, kEmbedding(desc.activation), BlockPerRow(args.ids.dims[0]), params);
}

Status RunGatherRows(device::Stream& stream, const GatherRows::Desc& desc,
                     const GatherRows::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t element = Info(desc.activation).bytes, row_bytes = desc.width * element;
  const auto fits = [&](int64_t unit) {
    return row_bytes % unit == 0 && RowsBeginAt(args.x, unit) && RowsBeginAt(args.out, unit);
  };
  const int64_t unit = fits(16) ? 16 : fits(4) ? 4 : 2;
  const GatherRowsParams params = {.x = args.x.ptr<uint8_t>(),
                                   .rows = args.rows.ptr<int32_t>(),
                                   .out = args.out.ptr<uint8_t>(),
                                   .x_stride = args.x.strides[0] * element,
                                   .out_stride = args.out.strides[0] * element,
                                   .tokens = args.x.dims[0],
                                   .row_units = row_bytes / unit,
                                   .unit = static_cast<uint32_t>(unit)};
  return Launch(stream, {"any_rows", "any_gather_rows"}, BlockPerRow(args.rows.dims[0]), params);
}

Status RunResolveTokens(device::Stream& stream, const ResolveTokens::Desc& desc,
                        const ResolveTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const ResolveTokensParams params = {.ids = args.ids.ptr<int32_t>(),
                                      .previous = args.previous.ptr<int32_t>(),
                                      .tokens = args.ids.dims[0],
                                      .rows = args.previous.dims[0]};
  const LaunchShape shape = BlockPerRow(BlocksFor(params.tokens, kEmbeddingThreads));
  return Launch(stream, {"any_rows", "any_resolve_tokens"}, shape, params);
}

}  // namespace

void RegisterEmbedding(ops::OpTable& table) {
  table.Add<Embedding>(
      {"any_f32_embedding", &EmbeddingSupports, &RunEmbedding, ops::Arithmetic::kF32});
  table.Add<GatherRows>({"any_gather_rows", &ops::RefGatherRowsSupports, &RunGatherRows});
  table.Add<ResolveTokens>(
      {"any_resolve_tokens", &ops::RefResolveTokensSupports, &RunResolveTokens});
}

}  // namespace sluice::cuda
