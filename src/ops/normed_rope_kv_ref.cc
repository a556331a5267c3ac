#include <cstring>
#include <vector>

#include "ops/element.h"
#include "ops/normed_rope_kv.h"

namespace sluice::ops {

Support RefNormedRopeKvSupports(const NormedRopeKv::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.rope.form == RopeKvForm::kPrefillQkvOut)
    return Support::No("a form that leaves what it makes in qkv");
  if (Support rope = RefRopeKvSupports(desc.rope, facts); !rope.ok) return rope;
  return RefQkNormSupports(desc.norm(), facts);
}

Status RefNormedRopeKv(device::Stream& stream, const NormedRopeKv::Desc& desc,
                       const NormedRopeKv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t tokens = args.qkv.dims[0], width = args.qkv.dims[1];
  const size_t row_bytes = RowBytes(desc.rope.activation, static_cast<size_t>(width));
  std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(tokens));
  for (int64_t t = 0; t < tokens; ++t)
    std::memcpy(bytes.data() + row_bytes * static_cast<size_t>(t), RowData(args.qkv, t), row_bytes);
  Tensor copy = args.qkv;
  copy.data = bytes.data();
  copy.strides[0] = width;
  SLUICE_RETURN_IF_ERROR(RefQkNorm(
      stream, desc.norm(), {.qkv = copy, .q_weight = args.q_weight, .k_weight = args.k_weight}));
  return RefRopeKv(stream, desc.rope, RopeArgsOf(args, copy));
}

}  // namespace sluice::ops
