#include <algorithm>

#include "ops/element.h"
#include "ops/pool.h"
#include "ops/reference_support.h"

namespace sluice::ops {

Support RefPoolSupports(const Pool::Desc& desc, const device::DeviceFacts&) {
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  return Support::Yes();
}

Status RefPool(device::Stream&, const Pool::Desc& desc, const Pool::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  for (int64_t s = 0; s < args.out.dims[0]; ++s) {
    const int32_t* start = args.query_start.ptr<int32_t>() + s;
    if (start[0] == start[1]) continue;
    const int64_t first = desc.kind == PoolKind::kLast ? start[1] - 1 : start[0];
    const int64_t end = desc.kind == PoolKind::kFirst ? first + 1 : start[1];
    float* out = reinterpret_cast<float*>(RowData(args.out, s));
    std::fill_n(out, desc.width, 0.0f);
    for (int64_t t = first; t < end; ++t) {
      const std::byte* row = RowData(args.x, t);
      for (int64_t i = 0; i < desc.width; ++i) out[i] += LoadElement(desc.activation, row, i);
    }
    const auto count = static_cast<float>(end - first);
    for (int64_t i = 0; i < desc.width; ++i) out[i] /= count;
  }
  return OkStatus();
}

}  // namespace sluice::ops
