#include "backend/cpu/linear/row_linear.h"

#include <algorithm>
#include <mutex>

#include "backend/cpu/parallel.h"
#include "backend/cpu/stream.h"
#include "ops/formats/format.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"

namespace sluice::cpu {
namespace {

using ops::GroupedLinear;
using ops::Linear;

ops::Support Codebook(DType weight) {
  const ops::BlockFormat* format = ops::FindBlockFormat(weight);
  return format != nullptr && format->codebook
             ? ops::Support::Yes()
             : ops::Support::No(StrCat("weights in ", Name(weight), ", which have no codebook"));
}

ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = Codebook(desc.weight);
  return support.ok ? ops::RefLinearSupports(desc, facts) : support;
}

ops::Support GroupedSupports(const GroupedLinear::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = Codebook(desc.each.weight);
  return support.ok ? ops::RefGroupedLinearSupports(desc, facts) : support;
}

// Entries [begin, begin + count) of a vector that may be empty.
ops::Tensor Part(const ops::Tensor& vector, int64_t begin, int64_t count) {
  return vector.empty() ? vector : vector.Columns(begin, count);
}

// The product of rows [begin, end) of W.
Status RunPart(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args,
               int64_t begin, int64_t end) {
  const int64_t count = end - begin;
  Linear::Desc part = desc;
  part.n = count;
  ops::PackedWeight weight = *args.weight;
  weight.n = weight.data.dims[0] = count;
  weight.data.data +=
      RowBytes(desc.weight, static_cast<size_t>(desc.k)) * static_cast<size_t>(begin);
  if (desc.weight_scales == ops::WeightScales::kRow) {
    weight.scales = weight.scales.Rows(begin, count);
  }
  return ops::RefLinear(stream, part,
                        {.x = args.x,
                         .weight = &weight,
                         .bias = Part(args.bias, begin, count),
                         .residual = Part(args.residual, begin, count),
                         .out = args.out.Columns(begin, count)});
}

Status Run(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) {
  SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, ops::LayoutId::kRowMajor));
  std::mutex mutex;
  Status first;
  ForRows(AsCpu(stream), desc.n, desc.k, [&](int64_t begin, int64_t end) {
    Status status = RunPart(stream, desc, args, begin, end);
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (first.ok()) first = std::move(status);
  });
  return first;
}

Status RunGrouped(device::Stream& stream, const GroupedLinear::Desc& desc,
                  const GroupedLinear::Args& args) {
  return ops::GroupedByExpert(stream, desc, args, &Run);
}

template <class Op>
std::string_view Slow(const typename Op::Desc&) {
  return "weights are looked up in a codebook for every product, by plain loops";
}

}  // namespace

void RegisterRowLinear(ops::OpTable& table) {
  table.Add<Linear>(
      {.name = "any_codebook_linear", .supports = &Supports, .run = &Run, .slow = &Slow<Linear>});
  table.Add<GroupedLinear>({.name = "any_codebook_grouped_linear",
                            .supports = &GroupedSupports,
                            .run = &RunGrouped,
                            .slow = &Slow<GroupedLinear>});
}

}  // namespace sluice::cpu
