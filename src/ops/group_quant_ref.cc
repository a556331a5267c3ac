#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/check_args.h"
#include "ops/element.h"
#include "ops/group_quant.h"

namespace sluice::ops {
namespace {

float LargestCode(DType codes) { return codes == DType::kI8 ? 127.0f : 448.0f; }

// One row, which is in F32 what it is in the activation type.
void QuantizeRow(const GroupQuant::Desc& desc, const GroupQuant::Args& args, int64_t row,
                 std::span<const float> x) {
  for (int64_t group = 0; group < desc.groups(); ++group) {
    const int64_t begin = group * desc.group, count = std::min(desc.group, desc.width - begin);
    float scale = GroupScale(desc.codes, x.subspan(static_cast<size_t>(begin), count));
    std::byte* const scales = RowData(args.scales, group);
    if (desc.ue8m0) {
      const uint8_t exponent = Ue8m0Of(scale);
      scales[row] = static_cast<std::byte>(exponent);
      scale = Ue8m0ToF32(exponent);
    } else {
      reinterpret_cast<float*>(scales)[row] = scale;
    }
    for (int64_t i = begin; i < begin + count; ++i)
      StoreElement(desc.codes, RowData(args.codes, row), i, x[i] / scale);
  }
}

Support CheckFormat(const GroupQuant::Desc& desc) {
  if (desc.codes != DType::kF8E4M3 && desc.codes != DType::kI8)
    return Support::No(StrCat("codes in ", Name(desc.codes), "; they are F8_E4M3 or I8"));
  if (desc.group <= 0) return Support::No(StrCat("groups of ", desc.group, " elements"));
  if (desc.parts < 0) return Support::No(StrCat(desc.parts, " parts"));
  return Support::Yes();
}

}  // namespace

float GroupScale(DType codes, std::span<const float> x) {
  uint32_t bits = 0;  // compared as integers, so that NaN is the largest
  for (const float value : x) bits = std::max(bits, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  const float largest = std::bit_cast<float>(bits);
  if (!std::isfinite(largest)) return std::numeric_limits<float>::quiet_NaN();
  const float scale = largest / LargestCode(codes);
  return scale == 0.0f ? 1.0f : scale;
}

uint8_t Ue8m0Of(float scale) {
  if (std::isnan(scale)) return 255;
  const auto bits = std::bit_cast<uint32_t>(scale);
  return static_cast<uint8_t>((bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1 : 0));
}

float Ue8m0ToF32(uint8_t bits) {
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  return bits == 0 ? 0x1p-127f : std::bit_cast<float>(uint32_t{bits} << 23);
}

void CodeRow(std::span<const float> x, std::byte* codes, float* scales, int64_t scale_step) {
  for (size_t begin = 0; begin < x.size(); begin += kCodeGroup, scales += scale_step) {
    const size_t end = std::min(begin + kCodeGroup, x.size());
    *scales = GroupScale(DType::kF8E4M3, x.subspan(begin, end - begin));
    for (size_t i = begin; i < end; ++i)
      StoreElement(DType::kF8E4M3, codes, static_cast<int64_t>(i), x[i] / *scales);
  }
}

Support RefGroupQuantSupports(const GroupQuant::Desc& desc, const device::DeviceFacts& facts) {
  if (const Support format = CheckFormat(desc); !format.ok) return format;
  return RefGatedActivationSupports({.kind = desc.kind,
                                     .activation = desc.activation,
                                     .width = desc.width,
                                     .gate_scale = desc.gate_scale,
                                     .out_scale = desc.out_scale},
                                    facts);
}

Status RefGroupQuant(device::Stream& stream, const GroupQuant::Desc& desc,
                     const GroupQuant::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t rows = args.x.dims[0], of_part = desc.parts > 0 ? rows / desc.parts : rows;
  if (desc.parts > 0)
    SLUICE_RETURN_IF_ERROR(CheckIndices(GroupQuant::kName, "counts", args.counts, 0, of_part + 1));
  const size_t width = static_cast<size_t>(desc.width);
  std::vector<float> values(width);
  std::vector<std::byte> made(RowBytes(desc.activation, width));
  for (int64_t row = 0; row < rows; ++row) {
    if (desc.parts > 0 && row % of_part >= args.counts.ptr<int32_t>()[row / of_part]) continue;
    Tensor x = args.x.Rows(row, 1);
    if (desc.gated) {
      Tensor out = x;
      out.data = made.data();
      out.dims[1] = out.strides[0] = desc.width;
      SLUICE_RETURN_IF_ERROR(RefGatedActivation(stream,
                                                {.kind = desc.kind,
                                                 .activation = desc.activation,
                                                 .width = desc.width,
                                                 .gate_scale = desc.gate_scale,
                                                 .out_scale = desc.out_scale},
                                                {.gate_up = x, .out = out}));
      x = out;
    }
    for (size_t i = 0; i < width; ++i)
      values[i] = LoadElement(desc.activation, x.data, static_cast<int64_t>(i));
    QuantizeRow(desc, args, row, values);
  }
  return OkStatus();
}

}  // namespace sluice::ops
