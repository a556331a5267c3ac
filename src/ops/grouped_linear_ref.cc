#include <cstring>
#include <vector>

#include "ops/check_args.h"
#include "ops/element.h"
#include "ops/grouped_linear.h"

namespace sluice::ops {
namespace {

// The matrix of one expert, of a stack in rows.
PackedWeight WeightOf(const GroupedLinear::Desc& desc, const PackedWeight& stack, int expert) {
  const int64_t n = desc.each.n;
  PackedWeight weight = stack;
  weight.n = n;
  weight.data.dims[0] = n;
  weight.data.data += RowBytes(stack.dtype, static_cast<size_t>(desc.each.k)) *
                      static_cast<size_t>(n) * static_cast<size_t>(expert);
  switch (desc.each.weight_scales) {
    case WeightScales::kRow:
      weight.scales = stack.scales.Rows(expert * n, n);
      break;
    case WeightScales::kBlock:
      weight.scales = stack.scales.Rows(expert * (n / kScaleBlock), n / kScaleBlock);
      break;
    default:
      break;
  }
  return weight;
}

// The rows of x of places [begin, begin + count), one behind the other in `memory`.
Tensor RowsOf(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args, int64_t begin,
              int64_t count, std::vector<std::byte>* memory) {
  if (args.tokens.empty()) return args.x.Rows(begin, count);
  const size_t bytes = RowBytes(desc.each.activation, static_cast<size_t>(desc.each.k));
  memory->resize(bytes * static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = args.tokens.ptr<int32_t>()[begin + i];
    std::memcpy(memory->data() + bytes * i, RowData(args.x, token), bytes);
  }
  Tensor rows = args.x;
  rows.data = memory->data();
  rows.dims[0] = count;
  rows.strides[0] = desc.each.k;
  return rows;
}

// A row of a matrix as a vector.
Tensor RowOf(const Tensor& matrix, int64_t row) {
  Tensor vector = matrix.Rows(row, 1);
  vector.rank = 1;
  vector.dims[0] = matrix.dims[1];
  vector.strides[0] = 1;
  return vector;
}

Status CheckPlaces(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args) {
  const int32_t* starts = args.starts.ptr<int32_t>();
  for (int e = 0; e <= desc.experts; ++e) {
    if (starts[e] >= (e == 0 ? 0 : starts[e - 1]) && starts[e] <= args.out.dims[0]) continue;
    return InvalidArgument(StrCat(GroupedLinear::kName, ": starts[", e, "] is ", starts[e],
                                  ", which does not ascend from 0 to ", args.out.dims[0]));
  }
  if (args.tokens.empty()) return OkStatus();
  return CheckIndices(GroupedLinear::kName, "tokens", args.tokens.Rows(0, starts[desc.experts]), 0,
                      args.x.dims[0]);
}

using Product = Status (*)(device::Stream&, const Linear::Desc&, const Linear::Args&);

Status ByColumns(device::Stream& stream, const GroupedLinear::Desc& desc,
                 const GroupedLinear::Args& args, Product product) {
  for (int e = 0; e < desc.experts; ++e) {
    const PackedWeight weight = WeightOf(desc, *args.weight, e);
    Linear::Args one;
    one.x = args.x.Columns(e * desc.x_step, desc.each.k);
    one.weight = &weight;
    one.out = args.out.Columns(e * desc.out_step, desc.each.n);
    SLUICE_RETURN_IF_ERROR(product(stream, desc.each, one));
  }
  return OkStatus();
}

}  // namespace

Support RefGroupedLinearSupports(const GroupedLinear::Desc& desc,
                                 const device::DeviceFacts& facts) {
  if (desc.experts < 1) return Support::No(StrCat(desc.experts, " experts"));
  if (desc.each.residual) return Support::No("experts with a residual");
  if (desc.each.ordered) return Support::No("experts whose columns have an order of their own");
  if (desc.by_columns && (desc.each.bias || desc.x_step < 0 || desc.out_step < desc.each.n))
    return Support::No("heads with a bias, or whose outputs would overlap");
  if (desc.each.weight_scales == WeightScales::kBlock && desc.each.n % kScaleBlock != 0) {
    return Support::No(StrCat("experts of ", desc.each.n, " rows, which are no whole blocks of ",
                              kScaleBlock, " with a scale"));
  }
  return RefLinearSupports(desc.each, facts);
}

Status RefGroupedLinear(device::Stream& stream, const GroupedLinear::Desc& desc,
                        const GroupedLinear::Args& args) {
  return GroupedByExpert(stream, desc, args, &RefLinear);
}

Status GroupedByExpert(device::Stream& stream, const GroupedLinear::Desc& desc,
                       const GroupedLinear::Args& args, Product product) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args, LayoutId::kRowMajor, true));
  if (desc.by_columns) return ByColumns(stream, desc, args, product);
  SLUICE_RETURN_IF_ERROR(CheckPlaces(desc, args));
  const int32_t* starts = args.starts.ptr<int32_t>();
  std::vector<std::byte> memory;
  for (int e = 0; e < desc.experts; ++e) {
    const int64_t count = starts[e + 1] - starts[e];
    if (count == 0) continue;
    const PackedWeight weight = WeightOf(desc, *args.weight, e);
    Linear::Args one;
    one.x = RowsOf(desc, args, starts[e], count, &memory);
    one.weight = &weight;
    if (desc.each.bias) one.bias = RowOf(args.bias, e);
    one.out = args.out.Rows(starts[e], count);
    if (!args.x_scales.empty()) one.x_scales = args.x_scales.Columns(starts[e], count);
    SLUICE_RETURN_IF_ERROR(product(stream, desc.each, one));
  }
  return OkStatus();
}

}  // namespace sluice::ops
