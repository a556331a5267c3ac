#include <cmath>
#include <cstring>
#include <vector>

#include "ops/element.h"
#include "ops/embedding.h"
#include "ops/formats/format.h"
#include "ops/formats/rows.h"
#include "ops/reference_support.h"

namespace sluice::ops {

Support RefEmbeddingSupports(const Embedding::Desc& desc, const device::DeviceFacts&) {
  if (!CanDequantize(desc.table))
    return Support::No(StrCat("a table of ", Name(desc.table), " is not supported"));
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (desc.vocab <= 0 || desc.hidden <= 0) return Support::No("vocab and hidden must be above 0");
  if (!WholeBlocks(desc.table, desc.hidden))
    return Support::No(StrCat("hidden is ", desc.hidden, ", no multiple of the block of ",
                              Info(desc.table).block));
  if (!std::isfinite(desc.scale)) return Support::No("scale is not finite");
  return Support::Yes();
}

Status RefEmbedding(device::Stream&, const Embedding::Desc& desc, const Embedding::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const size_t row_bytes = RowBytes(desc.table, static_cast<size_t>(desc.hidden));
  std::vector<float> row(static_cast<size_t>(desc.hidden));
  for (int64_t t = 0; t < args.ids.dims[0]; ++t) {
    std::byte* out = RowData(args.out, t);
    int64_t id = args.ids.ptr<int32_t>()[t];
    if (desc.first_beyond && id >= desc.vocab) id = 0;
    DequantizeRow(desc.table, args.table.data + id * row_bytes, row);
    for (int64_t i = 0; i < desc.hidden; ++i) {
      float value = desc.scale * row[i];
      if (desc.add) value += LoadElement(desc.activation, out, i);
      StoreElement(desc.activation, out, i, value);
    }
  }
  return OkStatus();
}

Support RefGatherRowsSupports(const GatherRows::Desc& desc, const device::DeviceFacts&) {
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  return Support::Yes();
}

Status RefGatherRows(device::Stream&, const GatherRows::Desc& desc, const GatherRows::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const size_t bytes = RowBytes(desc.activation, static_cast<size_t>(desc.width));
  for (int64_t i = 0; i < args.rows.dims[0]; ++i)
    std::memcpy(RowData(args.out, i), RowData(args.x, args.rows.ptr<int32_t>()[i]), bytes);
  return OkStatus();
}

Support RefResolveTokensSupports(const ResolveTokens::Desc&, const device::DeviceFacts&) {
  return Support::Yes();
}

Status RefResolveTokens(device::Stream&, const ResolveTokens::Desc& desc,
                        const ResolveTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  int32_t* ids = args.ids.ptr<int32_t>();
  const int32_t* previous = args.previous.ptr<int32_t>();
  for (int64_t t = 0; t < args.ids.dims[0]; ++t) {
    if (ids[t] < 0) ids[t] = previous[-1 - ids[t]];
  }
  return OkStatus();
}

}  // namespace sluice::ops
