#include "backend/xpu/linear/config.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/linear/pack.h"

namespace sluice::xpu {
namespace {

constexpr int kItemsOnGpu = 16;
constexpr int64_t kRowsOfMany = 4;

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

}  // namespace

LinearConfig ConfigureLinear(const ops::Linear::Desc& desc, int64_t m,
                             const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu);
  const int64_t rows = m == 1 ? 1 : kRowsOfMany;
  const int64_t groups = (desc.n + kPackedRows - 1) / kPackedRows;
  LinearConfig config;
  config.function = rows == 1 ? "any_f32_linear_1" : "any_f32_linear_4";
  config.options =
      StrCat("-D ITEMS=", items, " -D AHEAD=", facts.on_host_processor ? kAheadBytes : 0,
             " -D ACT=", ClName(desc.activation), " -D OUT=", ClName(OutDType(desc)),
             " -D BIAS=", desc.bias ? 1 : 0, " -D RESIDUAL=", desc.residual ? 1 : 0,
             WeightOptions(desc.weight, desc.k));
  config.shape = {{static_cast<size_t>((groups + items - 1) / items),
                   static_cast<size_t>((m + rows - 1) / rows), 1},
                  static_cast<size_t>(items)};
  return config;
}

}  // namespace sluice::xpu
