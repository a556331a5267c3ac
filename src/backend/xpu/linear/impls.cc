#include "backend/xpu/linear/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "backend/xpu/linear/pack.h"
#include "ops/linear.h"

namespace sluice::xpu {
namespace {

// On the host's processor, whose own prefetching left most of the kernel's time to waiting for
// memory. Tokens/s of the demo model: 100 with 0, 118 with 1 KiB, 120 with 2, 109 with 4.
constexpr int kAheadBytes = 2048;

std::string WeightOptions(DType weight, int64_t k) {
  const PackedShape shape = PackedShapeOf(weight, k);
  if (shape.format == nullptr) return StrCat(" -D PLAIN=", KvName(weight));
  const ops::BlockFormat& format = *shape.format;
  return StrCat(" -D SUB=", format.sub, " -D NIBBLE=", shape.nibbles ? 1 : 0,
                " -D OFFSET=", shape.nibbles ? format.offset : 0,
                " -D MINIMUM=", format.minimum ? 1 : 0,
                " -D SCALE=", shape.half_scales ? "f16" : "f32");
}

Status Run(device::Stream& stream, const ops::Linear::Desc& desc, const ops::Linear::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckLinearArgs(desc, args, ops::LayoutId::kXpuInterleaved16));
  const int64_t m = args.x.dims[0];
  if (m == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 16);
  const std::string options =
      StrCat("-D ITEMS=", items, " -D AHEAD=", FactsOf(stream).on_host_processor ? kAheadBytes : 0,
             " -D ACT=", ClName(desc.activation), " -D OUT=", ClName(OutDType(desc)),
             " -D BIAS=", desc.bias ? 1 : 0, " -D RESIDUAL=", desc.residual ? 1 : 0,
             WeightOptions(desc.weight, desc.k));
  const int64_t rows = m == 1 ? 1 : 4;
  const int64_t groups = (desc.n + kPackedRows - 1) / kPackedRows;
  LaunchShape shape{{static_cast<size_t>((groups + items - 1) / items),
                     static_cast<size_t>((m + rows - 1) / rows), 1},
                    static_cast<size_t>(items)};
  return Launch(
      stream, {"linear/any_f32_linear", rows == 1 ? "any_f32_linear_1" : "any_f32_linear_4"},
      options, shape, args.x.data, RowStride(args.x), args.weight->data.data,
      static_cast<uint64_t>(PackedShapeOf(desc.weight, desc.k).group_bytes), args.bias.data,
      args.residual.data, RowStride(args.residual), args.out.data, RowStride(args.out),
      static_cast<int32_t>(desc.n), static_cast<int32_t>(m), static_cast<int32_t>(desc.k));
}

}  // namespace

void RegisterLinear(ops::OpTable& table) {
  constexpr std::string_view kName = "any_f32_linear";
  table.Add<ops::Linear>({kName, &ops::RefLinearSupports, &Run});
  table.Attach(kName, ops::LinearPacking{ops::LayoutId::kXpuInterleaved16,
                                         static_cast<int>(kPackedRows), &PackedBytes, &Pack});
}

}  // namespace sluice::xpu
