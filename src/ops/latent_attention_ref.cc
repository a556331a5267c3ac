#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/element.h"
#include "ops/latent_attention.h"

namespace sluice::ops {
namespace {

// The plain loops of attention over whole rows.
Status AttendToAll(device::Stream& stream, const LatentAttention::Desc& desc,
                   const LatentAttention::Args& args) {
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

// The KV rows of the positions that are listed for row `t` of sequence `s`, one behind the other.
std::vector<double> ListedRows(const LatentAttention::Args& args, int64_t s, int64_t t) {
  const Tensor &k = args.kv.k, &scales = args.kv.k_scale;
  const int32_t* blocks = args.block_table.ptr<int32_t>() + s * args.block_table.strides[0];
  const int32_t* list = args.listed.ptr<int32_t>() + t * args.listed.strides[0];
  std::vector<double> rows;
  for (int64_t i = 0, count = ListedOf(args.listed, t); i < count; ++i) {
    const int64_t block = blocks[list[i] / k.dims[2]], offset = list[i] % k.dims[2];
    float scale = 1.0f;
    if (KvHasScales(k.dtype)) scale = scales.ptr<float>()[block * scales.strides[0] + offset];
    const int64_t at = block * k.strides[0] + offset * k.strides[2];
    for (int64_t d = 0; d < k.dims[3]; ++d)
      rows.push_back(LoadElement(k.dtype, k.data, at + d) * scale);
  }
  return rows;
}

// Head `head` of row `t` over `rows`, in double.
void AttendToRows(const LatentAttention::Desc& desc, const LatentAttention::Args& args, int64_t t,
                  int head, const std::vector<double>& rows) {
  const auto key = static_cast<size_t>(desc.key_width);
  const size_t count = rows.size() / key;
  std::vector<double> scores(count, 0.0);
  for (size_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < key; ++d) {
      const auto column = static_cast<int64_t>(static_cast<size_t>(head) * key + d);
      scores[i] +=
          LoadElement(desc.activation, RowData(args.q, t), column) * rows[i * key + d] * desc.scale;
    }
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  const size_t from = key - static_cast<size_t>(desc.value_width);
  for (size_t d = from; d < key; ++d) {
    double value = 0.0;
    for (size_t i = 0; i < count; ++i) value += scores[i] * rows[i * key + d];
    StoreElement(desc.activation, RowData(args.out, t),
                 int64_t{head} * desc.value_width + static_cast<int64_t>(d - from),
                 static_cast<float>(value / sum));
  }
}

}  // namespace

Support RefLatentAttentionSupports(const LatentAttention::Desc& desc,
                                   const device::DeviceFacts& facts) {
  if (desc.value_width <= 0 || desc.value_width > desc.key_width)
    return Support::No(
        StrCat("values of ", desc.value_width, " numbers in rows of ", desc.key_width));
  if (desc.kv.v_head_dim != 0) return Support::No("the KV has a V beside its rows");
  if (desc.listed_max < 0) return Support::No(StrCat("listed_max is ", desc.listed_max));
  if (desc.listed_max > 0 && desc.paths)
    return Support::No("rows of trees don't see listed positions");
  return RefAttentionSupports(WholeRows(desc), facts);
}

Status RefLatentAttention(device::Stream& stream, const LatentAttention::Desc& desc,
                          const LatentAttention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  if (desc.listed_max == 0) return AttendToAll(stream, desc, args);
  const int32_t* start = args.query_start.ptr<int32_t>();
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    for (int64_t t = start[s]; t < start[s + 1]; ++t) {
      const std::vector<double> rows = ListedRows(args, s, t);
      for (int head = 0; head < desc.heads; ++head) AttendToRows(desc, args, t, head, rows);
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
