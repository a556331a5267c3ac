#include "backend/xpu/embedding/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/embedding.h"
#include "ops/formats/format.h"

namespace sluice::xpu {
namespace {

ops::Support EmbeddingSupports(const ops::Embedding::Desc& desc, const device::DeviceFacts& facts) {
  const ops::BlockFormat* format = ops::FindBlockFormat(desc.table);
  if (desc.table == DType::kI8 || (format != nullptr && format->codebook))
    return ops::Support::No(StrCat("a table of ", Name(desc.table)));
  return ops::RefEmbeddingSupports(desc, facts);
}

Status RunEmbedding(device::Stream& stream, const ops::Embedding::Desc& desc,
                    const ops::Embedding::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  const std::string options =
      StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements, " -D ACT=", ClName(desc.activation),
             " -D TABLE=", ClName(desc.table), " -D ADD=", desc.add ? 1 : 0,
             " -D BEYOND=", desc.first_beyond ? 1 : 0);
  LaunchShape shape{{PiecesOf(desc.hidden), static_cast<size_t>(args.ids.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {"embedding/any_f32_embedding", "any_f32_embedding"}, options, shape,
                args.ids.data, args.table.data, args.out.data,
                static_cast<uint64_t>(RowBytes(desc.table, static_cast<size_t>(desc.hidden))),
                static_cast<int32_t>(desc.vocab), static_cast<int32_t>(desc.hidden),
                RowStride(args.out), desc.scale);
}

std::string GatherOptions(int items, bool wide) {
  return StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements,
                " -D ELEMENT=", wide ? "uint" : "ushort");
}

Status RunGatherRows(device::Stream& stream, const ops::GatherRows::Desc& desc,
                     const ops::GatherRows::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.rows.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {"embedding/any_gather", "any_gather_rows"},
                GatherOptions(items, Info(desc.activation).bytes == 4), shape, args.x.data,
                args.rows.data, args.out.data, static_cast<int32_t>(args.x.dims[0]),
                static_cast<int32_t>(desc.width), RowStride(args.x), RowStride(args.out));
}

Status RunResolveTokens(device::Stream& stream, const ops::ResolveTokens::Desc& desc,
                        const ops::ResolveTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.ids.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 64);
  LaunchShape shape{{1, 1, 1}, static_cast<size_t>(items)};
  return Launch(stream, {"embedding/any_gather", "any_resolve_tokens"}, GatherOptions(items, true),
                shape, args.ids.data, args.previous.data, static_cast<int32_t>(args.ids.dims[0]),
                static_cast<int32_t>(args.previous.rank == 0 ? 0 : args.previous.dims[0]));
}

}  // namespace

void RegisterEmbedding(ops::OpTable& table) {
  table.Add<ops::Embedding>(
      {"any_f32_embedding", &EmbeddingSupports, &RunEmbedding, ops::Arithmetic::kF32});
  table.Add<ops::GatherRows>({"any_gather_rows", &ops::RefGatherRowsSupports, &RunGatherRows});
  table.Add<ops::ResolveTokens>(
      {"any_resolve_tokens", &ops::RefResolveTokensSupports, &RunResolveTokens});
}

}  // namespace sluice::xpu
