#include <vector>

#include "ops/element.h"
#include "ops/reference_support.h"
#include "ops/rope_kv.h"

namespace sluice::ops {
namespace {

// Rotates one head in place; the values stay as the activation type keeps them.
void Rotate(const RopeKv::Desc& desc, const float* row, float* head) {
  const int pairs = desc.rotary_dims / 2;
  for (int i = 0; i < pairs; ++i) {
    const int first = desc.interleaved ? 2 * i : i;
    const int second = desc.interleaved ? 2 * i + 1 : i + pairs;
    const float cosine = row[i], sine = row[pairs + i];
    const float a = head[first], b = head[second];
    head[first] = RoundTo(desc.activation, a * cosine - b * sine);
    head[second] = RoundTo(desc.activation, a * sine + b * cosine);
  }
}

void WriteKv(const RopeKv::Desc& desc, const Tensor& cache, const Tensor& scales, int head,
             int64_t slot, int width, const float* values) {
  if (width == 0) return;
  const int64_t block = slot / desc.kv.kernel_block_tokens;
  const int64_t offset = slot % desc.kv.kernel_block_tokens;
  float* scale = scales.empty() ? nullptr
                                : scales.ptr<float>() + block * scales.strides[0] +
                                      head * scales.strides[1] + offset;
  StoreKvRow(desc.kv.dtype, values, width, cache.data,
             block * cache.strides[0] + head * cache.strides[1] + offset * cache.strides[2], scale);
}

}  // namespace

Support RefRopeKvSupports(const RopeKv::Desc& desc, const device::DeviceFacts&) {
  if (Support kv = SupportsKv(desc.activation, desc.kv); !kv.ok) return kv;
  if (desc.q_heads <= 0 || desc.kv_heads < 0 || desc.head_dim <= 0)
    return Support::No("the number of Q's heads and head_dim must be above 0");
  if (desc.kv.kv_heads != desc.kv_heads || desc.kv.k_head_dim != desc.head_dim)
    return Support::No("the KV has other heads than the QKV");
  if (desc.kv.v_head_dim < 0 || desc.kv.v_head_dim > desc.head_dim)
    return Support::No(StrCat("a V width of ", desc.kv.v_head_dim, " is outside 0 to head_dim"));
  if (desc.kv.kernel_block_tokens <= 0)
    return Support::No(StrCat("kernel_block_tokens is ", desc.kv.kernel_block_tokens));
  if (desc.rotary_dims < 0 || desc.rotary_dims > desc.head_dim || desc.rotary_dims % 2 != 0)
    return Support::No(
        StrCat("rotary_dims is ", desc.rotary_dims, ", it must be even and at most head_dim"));
  return Support::Yes();
}

Status RefRopeKv(device::Stream&, const RopeKv::Desc& desc, const RopeKv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const bool keep = desc.form == RopeKvForm::kPrefillQkvOut;
  std::vector<float> head(static_cast<size_t>(desc.head_dim));
  for (int64_t t = 0; t < args.qkv.dims[0]; ++t) {
    std::byte* row = RowData(args.qkv, t);
    const int64_t slot = args.slots.ptr<int32_t>()[t];
    for (int h = 0; h < desc.q_heads + 2 * desc.kv_heads; ++h) {
      const bool is_q = h < desc.q_heads, is_v = h >= desc.q_heads + desc.kv_heads;
      const int64_t first = int64_t{h} * desc.head_dim;
      for (int i = 0; i < desc.head_dim; ++i)
        head[i] = LoadElement(desc.activation, row, first + i);
      if (!is_v && desc.rotary_dims > 0) {
        const int64_t position = args.positions.ptr<int32_t>()[t];
        Rotate(desc, args.table.ptr<float>() + position * desc.rotary_dims, head.data());
      }
      for (int i = 0; i < desc.head_dim && !is_v; ++i) {
        if (keep) StoreElement(desc.activation, row, first + i, head[i]);
        if (!keep && is_q)
          StoreElement(desc.activation, RowData(args.q_out, t), first + i, head[i]);
      }
      if (is_q || slot < 0) continue;
      const int kv_head = (h - desc.q_heads) % desc.kv_heads;
      if (is_v) {
        WriteKv(desc, args.kv.v, args.kv.v_scale, kv_head, slot, desc.kv.v_head_dim, head.data());
      } else {
        WriteKv(desc, args.kv.k, args.kv.k_scale, kv_head, slot, desc.head_dim, head.data());
      }
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
