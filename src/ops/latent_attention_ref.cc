#include <cstring>
#include <vector>

#include "ops/element.h"
#include "ops/latent_attention.h"

namespace sluice::ops {

Support RefLatentAttentionSupports(const LatentAttention::Desc& desc,
                                   const device::DeviceFacts& facts) {
  if (desc.value_width <= 0 || desc.value_width > desc.key_width)
    return Support::No(
        StrCat("values of ", desc.value_width, " numbers in rows of ", desc.key_width));
  if (desc.kv.v_head_dim != 0) return Support::No("the KV has a V beside its rows");
  return RefAttentionSupports(WholeRows(desc), facts);
}

// The plain loops of attention over whole rows.
Status RefLatentAttention(device::Stream& stream, const LatentAttention::Desc& desc,
                          const LatentAttention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const size_t element = static_cast<size_t>(Info(desc.activation).bytes);
  const auto key = static_cast<size_t>(desc.key_width),
             value = static_cast<size_t>(desc.value_width);
  const int64_t tokens = args.q.dims[0], width = int64_t{desc.heads} * desc.key_width;
  std::vector<std::byte> memory(static_cast<size_t>(tokens * width) * element);
  Attention::Args whole = WholeRows(args);
  whole.out = args.q;
  whole.out.data = memory.data();
  whole.out.strides[0] = width;
  SLUICE_RETURN_IF_ERROR(RefAttention(stream, WholeRows(desc), whole));
  // Rows of padding stay as they are.
  const int64_t rows = args.query_start.ptr<int32_t>()[args.context.dims[0]];
  for (int64_t t = 0; t < rows; ++t) {
    for (size_t h = 0; h < static_cast<size_t>(desc.heads); ++h) {
      std::memcpy(RowData(args.out, t) + h * value * element,
                  RowData(whole.out, t) + ((h + 1) * key - value) * element, value * element);
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
