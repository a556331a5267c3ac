#include "backend/xpu/linear/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "backend/xpu/linear/config.h"
#include "backend/xpu/linear/pack.h"
#include "ops/linear.h"

namespace sluice::xpu {
namespace {

Status Run(device::Stream& stream, const ops::Linear::Desc& desc, const ops::Linear::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckLinearArgs(desc, args, ops::LayoutId::kXpuInterleaved16));
  const int64_t m = args.x.dims[0];
  if (m == 0) return OkStatus();
  const LinearConfig config = ConfigureLinear(desc, m, FactsOf(stream));
  return Launch(stream, {"linear/any_f32_linear", config.function}, config.options, config.shape,
                args.x.data, RowStride(args.x), args.weight->data.data,
                static_cast<uint64_t>(PackedShapeOf(desc.weight, desc.k).group_bytes),
                args.bias.data, args.residual.data, RowStride(args.residual), args.out.data,
                RowStride(args.out), static_cast<int32_t>(desc.n), static_cast<int32_t>(m),
                static_cast<int32_t>(desc.k));
}

}  // namespace

void RegisterLinear(ops::OpTable& table) {
  constexpr std::string_view kName = "any_f32_linear";
  table.Add<ops::Linear>({kName, &ops::RefLinearSupports, &Run});
  table.Attach(kName, ops::LinearPacking{ops::LayoutId::kXpuInterleaved16,
                                         static_cast<int>(kPackedRows), &PackedBytes, &Pack});
}

}  // namespace sluice::xpu
