#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "ops/attention.h"
#include "ops/element.h"
#include "ops/reference_support.h"

namespace sluice::ops {
namespace {

// Where the KV of one head of one sequence lies, as a row sees it.
class RefHistory {
 public:
  // `path`: of the row, or null; `position`: where it stands.
  RefHistory(const Attention::Desc& desc, const Attention::Args& args, int64_t sequence, int head,
             const int32_t* path, int64_t position)
      : desc_(desc),
        kv_(args.kv),
        blocks_(args.block_table.ptr<int32_t>() + sequence * args.block_table.strides[0]),
        head_(head),
        path_(path),
        elsewhere_(path == nullptr ? 0 : position - path[0]) {}

  float K(int64_t position, int i) const { return At(kv_.k, kv_.k_scale, position, i); }
  float V(int64_t position, int i) const { return At(kv_.v, kv_.v_scale, position, i); }

 private:
  int64_t PlaceOf(int64_t position) const {
    if (path_ == nullptr || position <= elsewhere_) return position;
    return position + path_[position - elsewhere_];
  }
  float At(const Tensor& cache, const Tensor& scales, int64_t position, int i) const {
    const int64_t place = PlaceOf(position);
    const int64_t block = blocks_[place / desc_.kv.kernel_block_tokens];
    const int64_t offset = place % desc_.kv.kernel_block_tokens;
    const float value = LoadElement(
        desc_.kv.dtype, cache.data,
        block * cache.strides[0] + head_ * cache.strides[1] + offset * cache.strides[2] + i);
    if (!KvHasScales(desc_.kv.dtype)) return value;
    return value *
           scales.ptr<float>()[block * scales.strides[0] + head_ * scales.strides[1] + offset];
  }

  const Attention::Desc& desc_;
  const PagedKv& kv_;
  const int32_t* blocks_;
  int head_;
  const int32_t* path_;
  int64_t elsewhere_;  // the last position before those that lie elsewhere
};

// A row of one head: where it stands, the positions that it sees, and what goes into its softmax.
struct Row {
  int64_t position = 0, first = 0, end = 0;  // it sees [first, end)
  double sink = -INFINITY;                   // one more score; -infinity where there is none
  double slope = 0.0;
  const Tensor* bias = nullptr;
  int head = 0;

  double BiasOf(const Attention::Desc& desc, int64_t p) const {
    if (desc.bias_buckets == 0) return 0.0;
    const int64_t bucket = BiasBucket(desc.bias_buckets, p - position);
    return bias->ptr<float>()[bucket * bias->strides[0] + head];
  }
};

// softmax(scale * q K^T + bias - slope * distance) V over the positions that a row sees, in double.
std::vector<double> Attend(const Attention::Desc& desc, const RefHistory& history,
                           const std::vector<double>& q, const Row& row) {
  const auto [first, end, sink] = std::tuple(row.first, row.end, row.sink);
  const double scale = ScaleAt(desc, row.position);
  std::vector<double> scores;
  for (int64_t p = first; p < end; ++p) {
    double score = 0.0;
    for (int i = 0; i < desc.head_dim; ++i) score += q[i] * history.K(p, i);
    score = score * scale + row.BiasOf(desc, p);
    if (desc.soft_cap.has_value()) score = *desc.soft_cap * std::tanh(score / *desc.soft_cap);
    score -= row.slope * static_cast<double>(row.position - p);
    scores.push_back(score);
  }
  const double largest = std::max(sink, *std::max_element(scores.begin(), scores.end()));
  std::vector<double> out(static_cast<size_t>(desc.head_dim), 0.0);
  double sum = std::exp(sink - largest);
  for (int64_t p = first; p < end; ++p) {
    const double weight = std::exp(scores[p - first] - largest);
    sum += weight;
    for (int i = 0; i < desc.head_dim; ++i) out[i] += weight * history.V(p, i);
  }
  for (double& value : out) value /= sum;
  return out;
}

}  // namespace

Support RefAttentionSupports(const Attention::Desc& desc, const device::DeviceFacts&) {
  if (Support kv = SupportsKv(desc.activation, desc.kv); !kv.ok) return kv;
  if (desc.q_heads <= 0 || desc.kv_heads <= 0 || desc.head_dim <= 0)
    return Support::No("head counts and head_dim must be above 0");
  if (desc.q_heads % desc.kv_heads != 0)
    return Support::No(
        StrCat(desc.q_heads, " query heads are no multiple of ", desc.kv_heads, " KV heads"));
  if (desc.kv.kv_heads != desc.kv_heads || desc.kv.k_head_dim != desc.head_dim ||
      desc.kv.v_head_dim != desc.head_dim)
    return Support::No("the KV's heads or widths differ from the query's");
  if (desc.kv.kernel_block_tokens <= 0)
    return Support::No(StrCat("kernel_block_tokens is ", desc.kv.kernel_block_tokens));
  if (desc.window < 0) return Support::No(StrCat("window is ", desc.window));
  if (desc.chunked && (desc.window == 0 || !desc.causal))
    return Support::No("chunks need a length and the causal mask");
  if (desc.alibi && !desc.causal) return Support::No("ALiBi needs the causal mask");
  if (desc.growth_tokens < 0 || !std::isfinite(desc.growth_scale))
    return Support::No(
        StrCat("queries grow by ", desc.growth_scale, " at ", desc.growth_tokens, " tokens"));
  if (desc.bias_buckets < 0 || desc.bias_buckets % 2 != 0 || desc.bias_buckets == 2)
    return Support::No(StrCat("bias_buckets is ", desc.bias_buckets,
                              ", it must be 0 or an even number from 4 on"));
  if (desc.paths && !desc.causal) return Support::No("rows of trees need the causal mask");
  if (desc.soft_cap.has_value() && !(*desc.soft_cap > 0.0f && std::isfinite(*desc.soft_cap)))
    return Support::No(StrCat("soft_cap is ", *desc.soft_cap, ", it must be above 0"));
  if (desc.scale.has_value() && !std::isfinite(*desc.scale))
    return Support::No("scale is not finite");
  return Support::Yes();
}

Support PlainAttentionSupports(const Attention::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.bias_buckets > 0) return Support::No("biases of scores are not supported");
  if (desc.window > 0 && !desc.causal) return Support::No("a window needs the causal mask");
  return RefAttentionSupports(desc, facts);
}

Status RefAttention(device::Stream&, const Attention::Desc& desc, const Attention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const int group = desc.q_heads / desc.kv_heads;
  std::vector<double> q(static_cast<size_t>(desc.head_dim));
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    const int32_t* start = args.query_start.ptr<int32_t>() + s;
    const int64_t context = args.context.ptr<int32_t>()[s];
    for (int64_t t = start[0]; t < start[1]; ++t) {
      const int32_t* const path = args.paths.empty() ? nullptr : PathOf(args.paths, t);
      const int64_t place = context - (start[1] - t);
      const int64_t position = path == nullptr ? place : place - AsideOf(path);
      for (int h = 0; h < desc.q_heads; ++h) {
        const int64_t column = int64_t{h} * desc.head_dim;
        for (int i = 0; i < desc.head_dim; ++i)
          q[i] = LoadElement(desc.activation, RowData(args.q, t), column + i);
        Row row{.position = position,
                .first = FirstVisible(desc, position),
                .end = EndOfVisible(desc, position, context),
                .bias = &args.bias,
                .head = h};
        if (desc.sinks) row.sink = args.sinks.ptr<float>()[h];
        if (desc.alibi) row.slope = args.slopes.ptr<float>()[h];
        const auto out = Attend(desc, RefHistory(desc, args, s, h / group, path, position), q, row);
        for (int i = 0; i < desc.head_dim; ++i)
          StoreElement(desc.activation, RowData(args.out, t), column + i,
                       static_cast<float>(out[i]));
      }
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
