#include "backend/xpu/linear/config.h"

#include <algorithm>

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/linear/pack.h"

namespace sluice::xpu {
namespace {

constexpr int kItemsOnGpu = 16;
constexpr int64_t kRowsOfMany = 4;

// On the host's processor, whose own prefetching left most of the kernel's time to waiting for
// memory. Tokens/s of the demo model: 100 with 0, 118 with 1 KiB, 120 with 2, 109 with 4.
constexpr int kAheadBytes = 2048;

// Of a compute unit, so that one that starts late has less to do, and rounding x stays cheap.
constexpr int64_t kInt8GroupsPerUnit = 4;

int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RowsFor(int64_t m) { return m == 1 ? 1 : kRowsOfMany; }

std::string BlockOptions(const PackedShape& shape) {
  const ops::BlockFormat& format = *shape.format;
  const bool integers = shape.nibbles && !shape.e2m1;
  return StrCat(" -D SUB=", format.sub, " -D OFFSET=", integers ? format.offset : 0,
                " -D MINIMUM=", format.minimum ? 1 : 0,
                " -D SCALE=", shape.half_scales ? "f16" : "f32");
}

std::string WeightOptions(const ops::Linear::Desc& desc) {
  const PackedShape shape = PackedShapeOf(desc.weight, desc.k);
  const int scales = static_cast<int>(desc.weight_scales);
  const std::string of_scales = scales > 0 ? StrCat(" -D SCALES=", scales) : "";
  if (shape.format == nullptr) return StrCat(" -D PLAIN=", KvName(desc.weight), of_scales);
  return StrCat(" -D NIBBLE=", shape.nibbles ? 1 : 0, shape.e2m1 ? " -D E2M1=1" : "",
                BlockOptions(shape), of_scales, desc.ordered ? " -D ORDERED=1" : "");
}

std::string TypeOptions(const ops::Linear::Desc& desc, int items,
                        const device::DeviceFacts& facts) {
  return StrCat("-D ITEMS=", items, " -D AHEAD=", facts.on_host_processor ? kAheadBytes : 0,
                " -D ACT=", ClName(desc.activation), " -D OUT=", ClName(OutDType(desc)));
}

std::string BiasOptions(const ops::Linear::Desc& desc) {
  return StrCat(" -D BIAS=", desc.bias ? 1 : 0, " -D RESIDUAL=", desc.residual ? 1 : 0);
}

std::string Int8Options(const ops::Linear::Desc& desc) {
  int64_t capacity = 2048;
  while (capacity < desc.k) capacity *= 4;
  return StrCat(BlockOptions(PackedShapeOf(desc.weight, desc.k)), " -D K_MAX=", capacity);
}

}  // namespace

LinearConfig ConfigureLinear(const ops::Linear::Desc& desc, int64_t m,
                             const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu);
  const int64_t rows = RowsFor(m);
  LinearConfig config;
  config.function = rows == 1 ? "any_f32_linear_1" : "any_f32_linear_4";
  config.options = StrCat(TypeOptions(desc, items, facts), BiasOptions(desc), WeightOptions(desc));
  config.shape = {{static_cast<size_t>(Ceil(Ceil(desc.n, kPackedRows), items)),
                   static_cast<size_t>(Ceil(m, rows)), 1},
                  static_cast<size_t>(items)};
  return config;
}

LinearConfig ConfigureGroupedLinear(const ops::GroupedLinear::Desc& desc, int64_t places,
                                    const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu);
  const bool few = places <= 2 * (desc.by_columns ? 1 : desc.experts);
  const int64_t rows = few ? 1 : kRowsOfMany;
  LinearConfig config;
  config.function = few ? "any_f32_grouped_linear_1" : "any_f32_grouped_linear_4";
  if (desc.by_columns) config.function = few ? "any_f32_heads_linear_1" : "any_f32_heads_linear_4";
  config.options = StrCat(TypeOptions(desc.each, items, facts), BiasOptions(desc.each),
                          WeightOptions(desc.each));
  config.shape = {{static_cast<size_t>(Ceil(Ceil(desc.each.n, kPackedRows), items)),
                   static_cast<size_t>(Ceil(places, rows)),
                   static_cast<size_t>(desc.by_columns ? desc.experts : 1)},
                  static_cast<size_t>(items)};
  return config;
}

LinearConfig ConfigureInt8Linear(const ops::Linear::Desc& desc, int64_t m,
                                 const device::DeviceFacts& facts) {
  const int64_t rows = RowsFor(m), lines = Ceil(m, rows), groups = Ceil(desc.n, kPackedRows);
  // Lines of rows share the compute units as well.
  const int64_t wanted = Ceil(kInt8GroupsPerUnit * facts.compute_units, lines);
  LinearConfig config;
  config.function = rows == 1 ? "any_int8_linear_1" : "any_int8_linear_4";
  config.options = StrCat(TypeOptions(desc, 1, facts), BiasOptions(desc), Int8Options(desc));
  config.groups_each = static_cast<int>(Ceil(groups, std::min(groups, wanted)));
  config.shape = {
      {static_cast<size_t>(Ceil(groups, config.groups_each)), static_cast<size_t>(lines), 1}, 1};
  return config;
}

LinearConfig ConfigureInt8Chain(const ops::Linear::Desc& desc, int64_t m,
                                const device::DeviceFacts& facts) {
  LinearConfig config = ConfigureInt8Linear(desc, m, facts);
  config.function = RowsFor(m) == 1 ? "any_int8_linear_chain_1" : "any_int8_linear_chain_4";
  config.options = TypeOptions(desc, 1, facts) + Int8Options(desc);
  config.shape = {{static_cast<size_t>(facts.compute_units), 1, 1}, 1};
  return config;
}

}  // namespace sluice::xpu
