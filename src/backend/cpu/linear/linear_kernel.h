// The kernels of linear, written once over a vector type V and compiled per instruction set. All of
// it is in an unnamed namespace and calls nothing of the standard library, so that no code compiled
// for one instruction set can be linked into another's.
//
// V has kLanes, the types I (bytes or int32 lanes) and F (F32 lanes), and the functions used below.
#pragma once

#include "backend/cpu/linear/packed.h"

namespace sluice::cpu {
namespace {

#define SLUICE_INLINE inline __attribute__((always_inline))

template <int kValue>
struct Index {
  static constexpr int value = kValue;
};

// f(Index<kBegin>), ..., f(Index<kEnd - 1>), unrolled.
template <int kBegin, int kEnd, class F>
SLUICE_INLINE constexpr void Unroll(const F& f) {
  if constexpr (kBegin < kEnd) {
    f(Index<kBegin>{});
    Unroll<kBegin + 1, kEnd>(f);
  }
}
#define SLUICE_EACH(index) [&](auto index) __attribute__((always_inline))

// (v shifted so that bit kFrom comes to bit kTo) & mask, per byte.
template <class V, int kFrom, int kTo>
SLUICE_INLINE typename V::I Move(typename V::I v, int mask) {
  if constexpr (kFrom > kTo) {
    return V::And(V::template ShiftRight<kFrom - kTo>(v), V::Byte(mask));
  } else if constexpr (kFrom < kTo) {
    return V::And(V::template ShiftLeft<kTo - kFrom>(v), V::Byte(mask));
  } else {
    return V::And(v, V::Byte(mask));
  }
}

// Vector i of the codes of 32 elements (packed.h), as unsigned bytes value(code).
template <class V, int kFormat, int i>
SLUICE_INLINE typename V::I Codes(const std::byte* planes) {
  constexpr ops::BlockFormat kBlock = ops::kBlockFormats[kFormat];
  constexpr int kVector = V::kLanes * 4;
  typename V::I codes;
  if constexpr (kBlock.bits == 8) return V::Load(planes + i * kVector);
  if constexpr (kBlock.bits >= 4) {
    codes = Move<V, i % 2 * 4, 0>(V::Load(planes + i / 2 * kVector), 15);
  } else {
    codes = Move<V, i % 4 * 2, 0>(V::Load(planes + i / 4 * kVector), 3);
  }
  if constexpr (kBlock.bits == 6) {
    codes = V::Or(codes, Move<V, i % 4 * 2, 4>(V::Load(planes + (4 + i / 4) * kVector), 0x30));
  } else if constexpr (kBlock.bits == 5) {
    codes = V::Or(codes, Move<V, i, 4>(V::Load(planes + 4 * kVector), 0x10));
  } else if constexpr (kBlock.bits == 3) {
    codes = V::Or(codes, Move<V, i, 2>(V::Load(planes + 2 * kVector), 4));
  }
  if constexpr (kBlock.table) {
    constexpr bool kE2M1 = kBlock.dtype == DType::kMXFP4 || kBlock.dtype == DType::kNVFP4;
    codes = V::Lookup(kE2M1 ? ops::kMxfp4Values : ops::kIq4NlValues, codes);
  }
  return codes;
}

template <class V, int kRows>
SLUICE_INLINE void StoreTile(const typename V::F (&acc)[kRows], const LinearSink& sink) {
  Unroll<0, kRows>(SLUICE_EACH(r) {
    if (r.value >= sink.rows) return;
    typename V::F value = acc[r.value];
    if (sink.scales != nullptr) value = V::Mul(value, V::LoadPart(sink.scales, sink.lanes));
    if (sink.bias != nullptr) value = V::Add(value, V::LoadPart(sink.bias, sink.lanes));
    if (sink.residual != nullptr) {
      const float* residual = sink.residual + r.value * sink.residual_stride;
      value = V::Add(value, V::LoadPart(residual, sink.lanes));
    }
    V::StorePart(sink.out + r.value * sink.stride, value, sink.lanes);
  });
}

// What a block's d is; 1 where it has none.
template <class V, int kFormat>
SLUICE_INLINE typename V::F LoadBlockScale(const std::byte* scales) {
  constexpr ops::BlockScale kScale = ops::kBlockFormats[kFormat].scale;
  const float one = 1.0f;
  if constexpr (kScale == ops::BlockScale::kE8M0) return V::LoadE8M0Half(scales);
  if constexpr (kScale == ops::BlockScale::kF16) return V::LoadF16(scales);
  return V::Broadcast(&one);
}

// Scale and minimum of a sub-block from those of its block, in place.
template <class V, int kFormat>
SLUICE_INLINE void SubScales(const std::byte* scales, typename V::F* scale,
                             typename V::F* minimum) {
  using Layout = GroupLayout<kFormat, V::kLanes>;
  constexpr ops::BlockFormat kBlock = ops::kBlockFormats[kFormat];
  if constexpr (Layout::kNibbleScales) {
    const typename V::I both = V::LoadInt8(scales);
    *scale = V::Mul(*scale, V::ToFloat(V::And(both, V::Int(15))));
    *minimum = V::Mul(V::Negate(*minimum), V::ToFloat(V::And(V::ShiftRightInt4(both), V::Int(15))));
  } else if constexpr (kBlock.scale == ops::BlockScale::kE4M3) {
    const float half = 0.5f;
    *scale = V::Mul(V::LoadF8(scales), V::Broadcast(&half));
  } else if constexpr (kBlock.sub_scales) {
    *scale = V::Mul(*scale, V::ToFloat(V::LoadInt8(scales)));
    if constexpr (kBlock.minimum) {
      *minimum = V::Mul(V::Negate(*minimum), V::ToFloat(V::LoadInt8(scales + V::kLanes)));
    }
  }
}

// One sub-block: exact integer sums, then one fused multiply-add per output and term. `planes`: of
// 32 elements, or, with `kUnpacked`, the sub-block's codes.
template <class V, int kFormat, int kRows, int kSub, bool kUnpacked = false>
SLUICE_INLINE void SubBlock(const std::byte* planes, const std::byte* tile, typename V::F scale,
                            typename V::F minimum, typename V::F (&acc)[kRows]) {
  constexpr ops::BlockFormat kBlock = ops::kBlockFormats[kFormat];
  constexpr int kVectors = kBlock.sub / 4;
  // Codes of 8 bits overflow the 16-bit sums of AVX2, which multiplies them as signed numbers.
  constexpr bool kSigned = V::kNarrowSums && kBlock.offset == 128;
  const auto* dx = reinterpret_cast<const float*>(tile + 32 * kRows);
  const std::byte* extra = tile + 36 * kRows + 4 * kRows * kSub;
  typename V::I dot[kRows];
  Unroll<0, kRows>(SLUICE_EACH(r) {
    dot[r.value] = kBlock.minimum || kSigned ? V::Zero() : V::BroadcastInt(extra + 4 * r.value);
  });
  Unroll<0, kVectors>(SLUICE_EACH(v) {
    constexpr int kVector = kSub * kVectors + v.value;
    typename V::I codes;
    if constexpr (kUnpacked) {
      codes = V::Load(planes + v.value * V::kLanes * 4);
    } else {
      codes = Codes<V, kFormat, kVector>(planes);
    }
    Unroll<0, kRows>(SLUICE_EACH(r) {
      const std::byte* x = tile + (kVector * kRows + r.value) * 4;
      if constexpr (kSigned) {
        dot[r.value] = V::DotSigned(dot[r.value], codes, x);
      } else {
        dot[r.value] = V::Dot(dot[r.value], codes, x);
      }
    });
  });
  Unroll<0, kRows>(SLUICE_EACH(r) {
    const typename V::F factor = V::Mul(scale, V::Broadcast(dx + r.value));
    acc[r.value] = V::Fma(factor, V::ToFloat(dot[r.value]), acc[r.value]);
  });
  if constexpr (kBlock.minimum) {
    const auto* sums = reinterpret_cast<const float*>(extra);
    Unroll<0, kRows>(SLUICE_EACH(r) {
      acc[r.value] = V::Fma(minimum, V::Broadcast(sums + r.value), acc[r.value]);
    });
  }
}

template <class V, int kFormat, int kRows>
void BlockKernel(const std::byte* group, const std::byte* tile, int64_t steps,
                 const LinearSink& sink) {
  using Layout = GroupLayout<kFormat, V::kLanes>;
  constexpr ops::BlockFormat kBlock = ops::kBlockFormats[kFormat];
  constexpr int kSubs = kActivationBlock / kBlock.sub;
  constexpr int kStepsPerBlock = kBlock.block / kActivationBlock;
  typename V::F acc[kRows];
  Unroll<0, kRows>(SLUICE_EACH(r) { acc[r.value] = V::ZeroFloat(); });
  const std::byte* planes = group;
  const std::byte* scales = group + steps * Layout::kCodeBytes;
  for (int64_t step = 0; step < steps; step += kStepsPerBlock) {
    const typename V::F d = LoadBlockScale<V, kFormat>(scales);
    typename V::F m = V::ZeroFloat();
    if constexpr (kBlock.minimum) m = V::LoadF16(scales + Layout::kScaleBytes);
    scales += Layout::kScaleBytes + Layout::kMinimumBytes;
    for (int i = 0; i < kStepsPerBlock; ++i) {
      V::Prefetch(planes, Layout::kCodeBytes);
      Unroll<0, kSubs>(SLUICE_EACH(s) {
        typename V::F scale = d, minimum = m;
        SubScales<V, kFormat>(scales, &scale, &minimum);
        SubBlock<V, kFormat, kRows, s.value>(planes, tile, scale, minimum, acc);
        scales += Layout::kSubBytes;
      });
      planes += Layout::kCodeBytes;
      tile += kRows * (36 + 4 * kSubs);
    }
  }
  StoreTile<V, kRows>(acc, sink);
}

template <class V, DType kDType>
SLUICE_INLINE typename V::F LoadPlain(const std::byte* p) {
  if constexpr (kDType == DType::kF32) return V::LoadF32(p);
  if constexpr (kDType == DType::kF16) return V::LoadF16(p);
  if constexpr (kDType == DType::kBF16) return V::LoadBF16(p);
  if constexpr (kDType == DType::kF8E4M3) return V::LoadF8(p);
}

template <class V, DType kDType, int kBytes, int kRows>
void PlainKernel(const std::byte* group, const std::byte* tile, int64_t steps,
                 const LinearSink& sink) {
  typename V::F acc[kRows];
  Unroll<0, kRows>(SLUICE_EACH(r) { acc[r.value] = V::ZeroFloat(); });
  const auto* x = reinterpret_cast<const float*>(tile);
  for (int64_t step = 0; step < steps; ++step) {
    const typename V::F w = LoadPlain<V, kDType>(group);
    Unroll<0, kRows>(
        SLUICE_EACH(r) { acc[r.value] = V::Fma(w, V::Broadcast(x + r.value), acc[r.value]); });
    group += V::kLanes * kBytes;
    x += kRows;
  }
  StoreTile<V, kRows>(acc, sink);
}

// Two groups; see RowKernels::plain_pair.
template <class V, DType kDType, int kBytes, int kRows>
void PlainPairKernel(const std::byte* group, const std::byte* tile, int64_t steps,
                     const LinearSink& sink) {
  constexpr int kStepsPerLine = 4;  // as often as that a line is asked for
  constexpr int64_t kStride = V::kLanes * kBytes;
  const std::byte* second =
      group + (steps * kStride + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
  typename V::F acc[2][kRows];
  Unroll<0, kRows>(SLUICE_EACH(r) { acc[0][r.value] = acc[1][r.value] = V::ZeroFloat(); });
  const auto* x = reinterpret_cast<const float*>(tile);
  const auto step = [&]() __attribute__((always_inline)) {
    const typename V::F w = LoadPlain<V, kDType>(group), v = LoadPlain<V, kDType>(second);
    Unroll<0, kRows>(SLUICE_EACH(r) {
      const typename V::F value = V::Broadcast(x + r.value);
      acc[0][r.value] = V::Fma(w, value, acc[0][r.value]);
      acc[1][r.value] = V::Fma(v, value, acc[1][r.value]);
    });
    group += kStride;
    second += kStride;
    x += kRows;
  };
  int64_t done = 0;
  for (int64_t line = 0; done + kStepsPerLine <= steps; done += kStepsPerLine, ++line) {
    if (line < sink.ahead_lines) __builtin_prefetch(sink.ahead + line * kLineBytes);
#pragma GCC unroll 4
    for (int i = 0; i < kStepsPerLine; ++i) step();
  }
  for (; done < steps; ++done) step();
  LinearSink half = sink;
  half.lanes = V::kLanes;
  StoreTile<V, kRows>(acc[0], half);
  half.lanes = sink.lanes - V::kLanes;
  half.out += V::kLanes;
  if (half.bias != nullptr) half.bias += V::kLanes;
  if (half.residual != nullptr) half.residual += V::kLanes;
  StoreTile<V, kRows>(acc[1], half);
}

// F8 with scales: the products of 128 elements are added apart, then scaled as the block is.
template <class V, int kRows>
void ScaledF8Kernel(const std::byte* group, const std::byte* tile, int64_t steps,
                    const LinearSink& sink) {
  typename V::F acc[kRows];
  Unroll<0, kRows>(SLUICE_EACH(r) { acc[r.value] = V::ZeroFloat(); });
  const auto* x = reinterpret_cast<const float*>(tile);
  const float one = 1.0f;
  for (int64_t begin = 0; begin < steps; begin += kScaledElements) {
    const int64_t left = steps - begin;
    const int count = left < kScaledElements ? static_cast<int>(left) : kScaledElements;
    typename V::F sum[kRows];
    Unroll<0, kRows>(SLUICE_EACH(r) { sum[r.value] = V::ZeroFloat(); });
    for (int i = 0; i < count; ++i) {
      const typename V::F w = V::LoadF8(group);
      Unroll<0, kRows>(
          SLUICE_EACH(r) { sum[r.value] = V::Fma(w, V::Broadcast(x + r.value), sum[r.value]); });
      group += V::kLanes;
      x += kRows;
    }
    const float* at =
        sink.block_scales != nullptr ? sink.block_scales + begin / kScaledElements : &one;
    const typename V::F scale = V::Broadcast(at);
    Unroll<0, kRows>(SLUICE_EACH(r) { acc[r.value] = V::Fma(sum[r.value], scale, acc[r.value]); });
  }
  StoreTile<V, kRows>(acc, sink);
}

// The scale and the factor of a block of x from the bits of max|x| (linear.h).
SLUICE_INLINE float ActivationScale(uint32_t bits, float* factor) {
  const float largest = __builtin_bit_cast(float, bits);
  *factor = 0.0f;
  if (bits >= 0x7f800000u) return __builtin_nanf("");
  if (largest < 0x1p-100f) return 0.0f;
  *factor = 127.0f / largest;
  return largest / 127.0f;
}

template <class V>
void QuantizeRows(const TileSource& source, const ops::BlockFormat& format, std::byte* tile) {
  const int tile_rows = source.tile_rows, subs = kActivationBlock / format.sub;
  const int64_t step_bytes = static_cast<int64_t>(tile_rows) * (36 + 4 * subs);
  const int64_t steps = source.k / kActivationBlock;
  if (source.rows < tile_rows) __builtin_memset(tile, 0, steps * step_bytes);
  for (int row = 0; row < source.rows; ++row) {
    const float* x = source.x + row * source.stride;
    std::byte* step = tile;
    for (int64_t i = 0; i < steps; ++i) {
      alignas(64) int8_t codes[kActivationBlock];
      int32_t sums[2];  // of each half
      const float dx = V::QuantizeBlock(x, codes, sums);
      for (int v = 0; v < 8; ++v) {
        __builtin_memcpy(step + (v * tile_rows + row) * 4, codes + 4 * v, 4);
      }
      std::byte* rest = step + 32 * tile_rows;
      __builtin_memcpy(rest + 4 * row, &dx, 4);
      rest += 4 * tile_rows;
      // In unsigned numbers: the codes of a NaN are the smallest integers, and their sums may wrap.
      if (subs == 1) sums[0] = static_cast<int32_t>(static_cast<uint32_t>(sums[0]) + sums[1]);
      for (int s = 0; s < subs; ++s) {
        const uint32_t start = 0u - static_cast<uint32_t>(format.offset) * sums[s];
        const float sum = dx * static_cast<float>(sums[s]);
        __builtin_memcpy(rest + 4 * row, format.minimum ? static_cast<const void*>(&sum) : &start,
                         4);
        rest += 4 * tile_rows;
      }
      x += kActivationBlock;
      step += step_bytes;
    }
  }
}

using Four [[gnu::vector_size(16)]] = float;
using FourInts [[gnu::vector_size(16)]] = int;

// Four elements from `k` on of four rows from `row` on, turned.
SLUICE_INLINE void CopySquare(const TileSource& source, int64_t k, int row, float* out) {
  Four in[4], pairs[4];
  Unroll<0, 4>(SLUICE_EACH(i) {
    const int at = row + i.value;
    in[i.value] = Four{};
    if (at < source.rows) __builtin_memcpy(&in[i.value], source.x + at * source.stride + k, 16);
  });
  constexpr FourInts kLow = {0, 4, 1, 5}, kHigh = {2, 6, 3, 7};
  pairs[0] = __builtin_shuffle(in[0], in[2], kLow);
  pairs[1] = __builtin_shuffle(in[1], in[3], kLow);
  pairs[2] = __builtin_shuffle(in[0], in[2], kHigh);
  pairs[3] = __builtin_shuffle(in[1], in[3], kHigh);
  Unroll<0, 4>(SLUICE_EACH(i) {
    constexpr int kPair = i.value / 2 * 2;
    const Four turned = i.value % 2 == 0 ? __builtin_shuffle(pairs[kPair], pairs[kPair + 1], kLow)
                                         : __builtin_shuffle(pairs[kPair], pairs[kPair + 1], kHigh);
    __builtin_memcpy(out + (k + i.value) * source.tile_rows + row, &turned, 16);
  });
}

inline void CopyRows(const TileSource& source, std::byte* tile) {
  auto* const out = reinterpret_cast<float*>(tile);
  int64_t k = 0;
  if (source.tile_rows % 4 == 0) {
    for (; k + 4 <= source.k; k += 4) {
      for (int row = 0; row < source.tile_rows; row += 4) CopySquare(source, k, row, out);
    }
  }
  for (; k < source.k; ++k) {
    for (int row = 0; row < source.tile_rows; ++row) {
      out[k * source.tile_rows + row] =
          row < source.rows ? source.x[row * source.stride + k] : 0.0f;
    }
  }
}

// The kernels for tiles of kCount rows.
template <class V, int kCount>
constexpr RowKernels MakeRowKernels() {
  RowKernels kernels;
  kernels.rows = kCount;
  kernels.quantize = &QuantizeRows<V>;
  kernels.copy = &CopyRows;
  Unroll<0, kBlockFormatCount>(
      [&](auto f) { kernels.block[f.value] = &BlockKernel<V, f.value, kCount>; });
  kernels.plain[0] = &PlainKernel<V, DType::kF32, 4, kCount>;
  kernels.plain[1] = &PlainKernel<V, DType::kF16, 2, kCount>;
  kernels.plain[2] = &PlainKernel<V, DType::kBF16, 2, kCount>;
  kernels.plain[3] = &PlainKernel<V, DType::kF8E4M3, 1, kCount>;
  kernels.scaled_f8 = &ScaledF8Kernel<V, kCount>;
  if constexpr (kCount >= 4) {
    kernels.plain_pair[0] = &PlainPairKernel<V, DType::kF32, 4, kCount>;
    kernels.plain_pair[1] = &PlainPairKernel<V, DType::kF16, 2, kCount>;
    kernels.plain_pair[2] = &PlainPairKernel<V, DType::kBF16, 2, kCount>;
    kernels.plain_pair[3] = &PlainPairKernel<V, DType::kF8E4M3, 1, kCount>;
  }
  return kernels;
}

template <class V, int... kRows>
constexpr LinearKernels MakeKernels() {
  LinearKernels kernels;
  kernels.lanes = V::kLanes;
  ((kernels.by_rows[kernels.row_counts++] = MakeRowKernels<V, kRows>()), ...);
  return kernels;
}

}  // namespace
}  // namespace sluice::cpu
