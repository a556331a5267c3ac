#include <vector>

#include "ops/grouped_gate.h"

namespace sluice::ops {

Support RefGroupedGateSupports(const GroupedGate::Desc& desc, const device::DeviceFacts& facts) {
  const Linear::Desc& each = desc.products.each;
  if (each.n % 2 != 0) return Support::No(StrCat(each.n, " rows, which are no two halves"));
  if (desc.products.by_columns || each.bias || each.f32_out)
    return Support::No("biases, columns of its own for each matrix, or products in F32");
  if (Support support = RefGroupedLinearSupports(desc.products, facts); !support.ok) return support;
  return RefGroupQuantSupports(desc.gate(), facts);
}

Status RefGroupedGate(device::Stream& stream, const GroupedGate::Desc& desc,
                      const GroupedGate::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const Linear::Desc& each = desc.products.each;
  const int64_t places = args.codes.dims[0];
  if (places == 0) return OkStatus();
  std::vector<std::byte> bytes(RowBytes(each.activation, static_cast<size_t>(places * each.n)));
  Tensor made = args.x;
  made.data = bytes.data();
  made.dims[0] = places;
  made.dims[1] = made.strides[0] = each.n;
  SLUICE_RETURN_IF_ERROR(RefGroupedLinear(stream, desc.products,
                                          {.x = args.x,
                                           .tokens = args.tokens,
                                           .starts = args.starts,
                                           .weight = args.weight,
                                           .out = made}));
  return RefGroupQuant(stream, desc.gate(),
                       {.x = made,
                        .counts = args.starts.Rows(desc.products.experts, 1),
                        .codes = args.codes,
                        .scales = args.scales});
}

}  // namespace sluice::ops
