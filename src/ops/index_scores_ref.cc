#include <algorithm>
#include <cmath>

#include "ops/element.h"
#include "ops/index_scores.h"
#include "ops/reference_support.h"

namespace sluice::ops {
namespace {

// Number `i` of the key of `position` of a sequence.
float KeyAt(const IndexScores::Args& args, int64_t sequence, int64_t position, int i) {
  const Tensor& k = args.kv.k;
  const int64_t tokens = k.dims[2];
  const int64_t block =
      args.block_table.ptr<int32_t>()[sequence * args.block_table.strides[0] + position / tokens];
  const int64_t offset = position % tokens;
  const float value =
      LoadElement(k.dtype, k.data, block * k.strides[0] + offset * k.strides[2] + i);
  if (!KvHasScales(k.dtype)) return value;
  return value * args.kv.k_scale.ptr<float>()[block * args.kv.k_scale.strides[0] + offset];
}

// Calls body(row, sequence, position) for the rows of a call that are no padding, by their number
// in the call. REQUIRES: CheckIndices is ok.
template <class Body>
void ForScoredRows(const IndexScores::Args& args, const Body& body) {
  const int32_t* start = args.query_start.ptr<int32_t>();
  const int64_t first = args.first_row, end = first + args.q.dims[0];
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    const int64_t context = args.context.ptr<int32_t>()[s];
    for (int64_t t = std::max<int64_t>(first, start[s]); t < std::min<int64_t>(end, start[s + 1]);
         ++t)
      body(t - first, s, context - (start[s + 1] - t));
  }
}

}  // namespace

Support RefIndexScoresSupports(const IndexScores::Desc& desc, const device::DeviceFacts&) {
  if (Support kv = SupportsKv(desc.activation, desc.kv); !kv.ok) return kv;
  if (desc.heads <= 0 || desc.head_dim <= 0)
    return Support::No("head counts and head_dim must be above 0");
  if (desc.kv.kv_heads != 1 || desc.kv.k_head_dim != desc.head_dim || desc.kv.v_head_dim != 0)
    return Support::No("a token has one key as wide as a head, and nothing beside it");
  if (desc.kv.kernel_block_tokens <= 0)
    return Support::No(StrCat("kernel_block_tokens is ", desc.kv.kernel_block_tokens));
  if (!(desc.scale > 0.0f && std::isfinite(desc.scale)))
    return Support::No(StrCat("scale is ", desc.scale, ", it must be above 0"));
  return Support::Yes();
}

Status RefIndexScores(device::Stream&, const IndexScores::Desc& desc,
                      const IndexScores::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  std::fill_n(args.lengths.ptr<int32_t>(), args.lengths.dims[0], 0);
  ForScoredRows(args, [&](int64_t row, int64_t sequence, int64_t position) {
    args.lengths.ptr<int32_t>()[row] = static_cast<int32_t>(position + 1);
    const float* weights = args.weights.ptr<float>() + row * args.weights.strides[0];
    for (int64_t p = 0; p <= position; ++p) {
      double score = 0.0;
      for (int h = 0; h < desc.heads; ++h) {
        double product = 0.0;
        for (int i = 0; i < desc.head_dim; ++i) {
          const double q =
              LoadElement(desc.activation, RowData(args.q, row), int64_t{h} * desc.head_dim + i);
          product += q * KeyAt(args, sequence, p, i);
        }
        score += weights[h] * std::max(product, 0.0);
      }
      args.scores.ptr<float>()[row * args.scores.strides[0] + p] =
          static_cast<float>(score * desc.scale);
    }
  });
  return OkStatus();
}

}  // namespace sluice::ops
