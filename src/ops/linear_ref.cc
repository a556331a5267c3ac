#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/element.h"
#include "ops/formats/format.h"
#include "ops/formats/rows.h"
#include "ops/group_quant.h"
#include "ops/linear.h"

namespace sluice::ops {

namespace {

constexpr int kActivationBlock = 32;
constexpr float kSmallest = 0x1p-100f;  // 127 / max|x| stays finite above it

void Finish(const Linear::Desc& desc, const Linear::Args& args, int64_t row, int64_t column,
            float acc) {
  if (desc.bias) acc += LoadElement(desc.activation, args.bias.data, column);
  if (desc.residual) {
    acc += LoadElement(OutDType(desc), args.residual.data, row * args.residual.strides[0] + column);
  }
  StoreElement(OutDType(desc), args.out.data, row * args.out.strides[0] + column, acc);
}

// The rows of x in F32, [m, k], in the order of the weight's columns.
std::vector<float> Widened(const Linear::Desc& desc, const Tensor& x,
                           const int32_t* order = nullptr) {
  std::vector<float> wide(static_cast<size_t>(x.dims[0] * desc.k));
  for (int64_t row = 0; row < x.dims[0]; ++row) {
    for (int64_t k = 0; k < desc.k; ++k) {
      const int64_t from = order != nullptr ? order[k] : k;
      wide[row * desc.k + k] = LoadElement(desc.activation, x.data, row * x.strides[0] + from);
    }
  }
  return wide;
}

void RunPlain(const Linear::Desc& desc, const Linear::Args& args) {
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  const std::vector<float> wide = Widened(desc, args.x);
  std::vector<float> w(desc.k);
  for (int64_t column = 0; column < desc.n; ++column) {
    DequantizeRow(desc.weight, args.weight->data.data + column * row_bytes, w);
    for (int64_t row = 0; row < args.x.dims[0]; ++row) {
      const float* x = &wide[row * desc.k];
      float acc = 0.0f;
      for (int64_t k = 0; k < desc.k; ++k) acc = std::fma(w[k], x[k], acc);
      Finish(desc, args, row, column, acc);
    }
  }
}

// A row of W as integers, value - offset, with scale and minimum per sub-block.
struct IntegerRow {
  std::vector<int16_t> values;
  std::vector<float> scales, minimums;

  void Load(const BlockFormat& format, const std::byte* row, int64_t k) {
    values.resize(k);
    scales.resize(k / format.sub);
    minimums.resize(k / format.sub);
    BlockParts parts;
    for (int64_t begin = 0; begin < k; begin += format.block) {
      TakeApart(format, row + RowBytes(format.dtype, static_cast<size_t>(begin)), &parts);
      for (int i = 0; i < format.block; ++i) {
        const int code = parts.codes[i];
        const int value = format.table ? CodeValues(format.dtype)[code] : code;
        values[begin + i] = static_cast<int16_t>(value - format.offset);
      }
      for (int i = 0; i < format.block / format.sub; ++i) {
        scales[begin / format.sub + i] = ScaleOf(format, parts, i);
        minimums[begin / format.sub + i] = MinimumOf(format, parts, i);
      }
    }
  }
};

float IntegerDot(const BlockFormat& format, const IntegerRow& w, const int8_t* codes,
                 const float* scales) {
  float acc = 0.0f;
  for (size_t s = 0; s < w.scales.size(); ++s) {
    int32_t dot = 0, sum = 0;
    for (int i = 0; i < format.sub; ++i) {
      const size_t k = s * format.sub + i;
      dot += w.values[k] * codes[k];
      sum += codes[k];
    }
    const float dx = scales[s * format.sub / kActivationBlock];
    acc = std::fma(w.scales[s] * dx, static_cast<float>(dot), acc);
    if (format.minimum) acc = std::fma(w.minimums[s], dx * static_cast<float>(sum), acc);
  }
  return acc;
}

void RunInteger(const BlockFormat& format, const Linear::Desc& desc, const Linear::Args& args) {
  const int64_t m = args.x.dims[0], blocks = desc.k / kActivationBlock;
  const std::vector<float> wide =
      Widened(desc, args.x, desc.ordered ? args.weight->order.ptr<int32_t>() : nullptr);
  std::vector<int8_t> codes(m * desc.k);
  std::vector<float> scales(m * blocks);
  for (int64_t row = 0; row < m; ++row) {
    QuantizeActivations({&wide[row * desc.k], static_cast<size_t>(desc.k)}, &codes[row * desc.k],
                        &scales[row * blocks]);
  }
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  const float* w_scales =
      desc.weight_scales == WeightScales::kNone ? nullptr : args.weight->scales.ptr<float>();
  IntegerRow w;
  for (int64_t column = 0; column < desc.n; ++column) {
    w.Load(format, args.weight->data.data + column * row_bytes, desc.k);
    for (int64_t row = 0; row < m; ++row) {
      float acc = IntegerDot(format, w, &codes[row * desc.k], &scales[row * blocks]);
      if (w_scales != nullptr) {
        acc *= w_scales[desc.weight_scales == WeightScales::kRow ? column : 0];
      }
      Finish(desc, args, row, column, acc);
    }
  }
}

// x as it meets an F8 weight with scales, [m, k]: as it is, or its codes' values with a scale for
// each `covers` elements of a row.
struct ScaledRows {
  std::vector<float> values, scales;
  int64_t covers = 0;

  float ScaleAt(int64_t row, int64_t k, int64_t begin) const {
    return scales[row * ((k + covers - 1) / covers) + begin / covers];
  }
};

// Of rows that come as codes.
ScaledRows TakeCodes(const Linear::Desc& desc, const Linear::Args& args) {
  ScaledRows rows = {{}, {}, kScaleBlock};
  for (int64_t row = 0; row < args.x.dims[0]; ++row) {
    for (int64_t i = 0; i < desc.k; ++i)
      rows.values.push_back(LoadElement(DType::kF8E4M3, RowData(args.x, row), i));
    for (int64_t group = 0; group < args.x_scales.dims[0]; ++group)
      rows.scales.push_back(LoadElement(DType::kF32, RowData(args.x_scales, group), row));
  }
  return rows;
}

ScaledRows ScaleRows(const Linear::Desc& desc, const Linear::Args& args) {
  if (!args.x_scales.empty()) return TakeCodes(desc, args);
  ScaledRows rows = {Widened(desc, args.x), {}, desc.k};
  if (desc.x_scales == ActivationScales::kBlock) rows.covers = kScaleBlock;
  const bool dynamic =
      desc.x_scales == ActivationScales::kRow || desc.x_scales == ActivationScales::kBlock;
  for (int64_t row = 0; row < args.x.dims[0]; ++row) {
    for (int64_t begin = 0; begin < desc.k; begin += rows.covers) {
      const int64_t count = std::min(rows.covers, desc.k - begin);
      const std::span<float> x(&rows.values[row * desc.k + begin], static_cast<size_t>(count));
      float scale = 1.0f;
      if (desc.x_scales == ActivationScales::kTensor) scale = *args.weight->x_scale.ptr<float>();
      if (dynamic) scale = GroupScale(DType::kF8E4M3, x);
      rows.scales.push_back(scale);
      if (desc.x_scales == ActivationScales::kNone) continue;
      for (float& value : x) value = F8E4M3ToF32(F32ToF8E4M3(value / scale));
    }
  }
  return rows;
}

// Of at most kScaleBlock elements.
float BlockSum(const Linear::Desc& desc, std::span<const float> w, const float* x) {
  if (desc.x_scales == ActivationScales::kNone) {
    float sum = 0.0f;
    for (size_t i = 0; i < w.size(); ++i) sum = std::fma(w[i], x[i], sum);
    return sum;
  }
  double sum = 0.0;  // exact: products of codes are multiples of 2^-18 up to 2^17.7
  for (size_t i = 0; i < w.size(); ++i) sum += double{w[i]} * double{x[i]};
  return static_cast<float>(sum);
}

void RunScaled(const Linear::Desc& desc, const Linear::Args& args) {
  const ScaledRows rows = ScaleRows(desc, args);
  const float* scales = args.weight->scales.ptr<float>();
  const bool w_blocks = desc.weight_scales == WeightScales::kBlock;
  const bool x_blocks = desc.x_scales == ActivationScales::kBlock;
  const int64_t blocks = (desc.k + kScaleBlock - 1) / kScaleBlock;
  std::vector<float> w(desc.k);
  for (int64_t column = 0; column < desc.n; ++column) {
    DequantizeRow(desc.weight, args.weight->data.data + column * desc.k, w);
    const float w_scale =
        w_blocks ? 1.0f : scales[desc.weight_scales == WeightScales::kRow ? column : 0];
    for (int64_t row = 0; row < args.x.dims[0]; ++row) {
      float acc = 0.0f;
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t begin = block * kScaleBlock, count = std::min(kScaleBlock, desc.k - begin);
        const float inner = (w_blocks ? scales[column / kScaleBlock * blocks + block] : 1.0f) *
                            (x_blocks ? rows.ScaleAt(row, desc.k, begin) : 1.0f);
        const float sum = BlockSum(desc, {&w[begin], static_cast<size_t>(count)},
                                   &rows.values[row * desc.k + begin]);
        acc = std::fma(sum, inner, acc);
      }
      const float outer = w_scale * (x_blocks ? 1.0f : rows.ScaleAt(row, desc.k, 0));
      Finish(desc, args, row, column, acc * outer);
    }
  }
}

}  // namespace

void QuantizeActivations(std::span<const float> x, int8_t* codes, float* scales) {
  for (size_t begin = 0; begin < x.size(); begin += kActivationBlock) {
    // Compared as integers, so that NaN is the largest.
    uint32_t bits = 0;
    for (int i = 0; i < kActivationBlock; ++i) {
      bits = std::max(bits, std::bit_cast<uint32_t>(x[begin + i]) & 0x7fffffffu);
    }
    const float largest = std::bit_cast<float>(bits);
    const bool finite = bits < 0x7f800000u;
    const float inverse = finite && largest >= kSmallest ? 127.0f / largest : 0.0f;
    float* scale = scales + begin / kActivationBlock;
    *scale = !finite ? std::numeric_limits<float>::quiet_NaN()
                     : (largest >= kSmallest ? largest / 127.0f : 0.0f);
    for (int i = 0; i < kActivationBlock; ++i) {
      codes[begin + i] =
          inverse > 0.0f ? static_cast<int8_t>(std::lrintf(x[begin + i] * inverse)) : 0;
    }
  }
}

Support RefLinearSupports(const Linear::Desc& desc, const device::DeviceFacts&) {
  if (!IsPlainFloat(desc.activation)) {
    return Support::No(StrCat("activations in ", Name(desc.activation)));
  }
  if (!CanDequantize(desc.weight)) {
    return Support::No(StrCat("weights in ", Name(desc.weight)));
  }
  const BlockFormat* format = FindBlockFormat(desc.weight);
  if (desc.n < 1 || desc.k < 1 || !WholeBlocks(desc.weight, desc.k)) {
    return Support::No(StrCat("k = ", desc.k, " is no multiple of the block of ",
                              format != nullptr ? format->block : 1, " elements"));
  }
  if (desc.ordered && format == nullptr) {
    return Support::No(StrCat("columns in an order of their own in ", Name(desc.weight)));
  }
  const bool scaled = desc.weight_scales != WeightScales::kNone;
  if (format != nullptr && desc.x_scales != ActivationScales::kNone) {
    return Support::No(StrCat("activations in F8 beside weights in ", Name(desc.weight)));
  }
  const bool takes_scales = format != nullptr ? desc.weight_scales != WeightScales::kBlock
                                              : desc.weight == DType::kF8E4M3;
  if (scaled && !takes_scales) {
    return Support::No(StrCat("scales of weights in ", Name(desc.weight)));
  }
  if (!scaled && desc.x_scales != ActivationScales::kNone) {
    return Support::No("activations in F8 beside weights without scales");
  }
  return Support::Yes();
}

Status RefLinear(device::Stream&, const Linear::Desc& desc, const Linear::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckLinearArgs(desc, args, LayoutId::kRowMajor, true));
  if (const BlockFormat* format = FindBlockFormat(desc.weight)) {
    RunInteger(*format, desc, args);
  } else if (desc.weight_scales != WeightScales::kNone) {
    RunScaled(desc, args);
  } else {
    RunPlain(desc, args);
  }
  return OkStatus();
}

}  // namespace sluice::ops
