// Rows of the embedding table as activations: a thread block has one token. The products of the
// block formats are exact, so each number is rounded once, as on the host. An id outside
// the table gives NaN.
#include "backend/cuda/embedding/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/dequantize.cuh"
#include "backend/cuda/simt/element.cuh"

namespace sluice::cuda {
namespace {

template <class T>
__device__ void WriteNan(T* out, int64_t count) {
  const T nan = FromFloat<T>(__uint_as_float(0x7fc00000u));
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) out[i] = nan;
}

// Scales a stored number, adds it to what is there where that is asked for, and rounds once.
template <class T>
__device__ void Put(const EmbeddingParams& p, float value, T* out) {
  const float scaled = p.scale * value;
  *out = FromFloat<T>(p.add != 0 ? __fadd_rn(scaled, ToFloat(*out)) : scaled);
}

template <class T, class Stored, class Widen>
__device__ void PlainRow(const EmbeddingParams& p, const uint8_t* row, T* out, Widen widen) {
  const Stored* values = reinterpret_cast<const Stored*>(row);
  for (int64_t i = threadIdx.x; i < p.hidden; i += blockDim.x) Put(p, widen(values[i]), out + i);
}

// Four lanes take a block of the format together.
template <class T, DType kFormat>
__device__ void BlockRow(const EmbeddingParams& p, const uint8_t* row, T* out) {
  using Format = Block<kFormat>;
  const int t = threadIdx.x % 4;
  const int64_t elements = Format::kWindows * 32, blocks = p.hidden / elements;
  for (int64_t b = threadIdx.x / 4; b < blocks; b += blockDim.x / 4) {
    const typename Format::Raw raw = Format::Load(row + b * Format::kBytes, t);
#pragma unroll
    for (int w = 0; w < Format::kWindows; ++w) {
      uint32_t codes[2];
      float scale[2] = {}, minimum[2] = {};
      Format::Codes(raw, w, t, codes);
      Format::Scales(raw, w, scale, minimum);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int sub = Format::kSub == 16 ? half : 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int code = static_cast<int>(codes[half] >> (8 * i) & 255u) - Format::kOffset;
          float value = scale[sub] * static_cast<float>(code);
          if (Format::kMinimum) value += minimum[sub];
          Put(p, value, out + b * elements + w * 32 + half * 16 + 4 * t + i);
        }
      }
    }
  }
}

template <class T>
__device__ void StoredRow(const EmbeddingParams& p, const uint8_t* row, T* out) {
  const auto plain = [](auto x) { return ToFloat(x); };
  switch (static_cast<DType>(p.format)) {
    case DType::kF32:
      return PlainRow<T, float>(p, row, out, plain);
    case DType::kF16:
      return PlainRow<T, __half>(p, row, out, plain);
    case DType::kBF16:
      return PlainRow<T, __nv_bfloat16>(p, row, out, plain);
    case DType::kF8E4M3:
      return PlainRow<T, uint8_t>(p, row, out, [](uint8_t code) {
        return (code & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000u) : F8ToFloat(code);
      });
    case DType::kQ8_0:
      return BlockRow<T, DType::kQ8_0>(p, row, out);
    case DType::kQ4_0:
      return BlockRow<T, DType::kQ4_0>(p, row, out);
    case DType::kQ4_1:
      return BlockRow<T, DType::kQ4_1>(p, row, out);
    case DType::kQ5_0:
      return BlockRow<T, DType::kQ5_0>(p, row, out);
    case DType::kQ5_1:
      return BlockRow<T, DType::kQ5_1>(p, row, out);
    case DType::kQ2_K:
      return BlockRow<T, DType::kQ2_K>(p, row, out);
    case DType::kQ3_K:
      return BlockRow<T, DType::kQ3_K>(p, row, out);
    case DType::kQ4_K:
      return BlockRow<T, DType::kQ4_K>(p, row, out);
    case DType::kQ5_K:
      return BlockRow<T, DType::kQ5_K>(p, row, out);
    case DType::kQ6_K:
      return BlockRow<T, DType::kQ6_K>(p, row, out);
    case DType::kIQ4_NL:
      return BlockRow<T, DType::kIQ4_NL>(p, row, out);
    case DType::kMXFP4:
      return BlockRow<T, DType::kMXFP4>(p, row, out);
    default:
      return WriteNan(out, p.hidden);
  }
}

template <class T>
__device__ void EmbedToken(const EmbeddingParams& p) {
  const int64_t token = blockIdx.x;
  T* out = static_cast<T*>(p.out) + token * p.out_stride;
  int64_t id = p.ids[token];
  if (p.first_beyond != 0 && id >= p.vocab) id = 0;
  if (id < 0 || id >= p.vocab) return WriteNan(out, p.hidden);
  StoredRow(p, p.table + id * p.row_bytes, out);
}

}  // namespace

#define SLUICE_EMBEDDING(name, type)                                             \
  extern "C" __global__ void any_f32_embedding_##name(const EmbeddingParams p) { \
    WaitForInputs();                                                             \
    EmbedToken<type>(p);                                                         \
  }
SLUICE_EMBEDDING(f32, float)
SLUICE_EMBEDDING(f16, __half)
SLUICE_EMBEDDING(bf16, __nv_bfloat16)

}  // namespace sluice::cuda
