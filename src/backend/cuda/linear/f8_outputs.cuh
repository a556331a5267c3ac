// How products in F8 are written: a tile's sums, which lie by rows of W, with scales of whole rows,
// bias and residual.
#pragma once

#include "backend/cuda/linear/f8_params.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/bulk_write.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

// Rows [row, row + rows of a tile) of an expert's W and the tokens from `token` on, which end
// before `end`. A product that is not grouped has one expert.
struct F8Tile {
  int row, token, end, expert;
};

// Of a warp that multiplies: warp w has 16 rows of the tile from 16 w on.
template <int kTokens, int kGroups>
struct F8Outputs {
  static constexpr int kTurn = F8TurnTokens(kTokens), kSums = kTokens / 2;

  const F8LinearParams& p;
  float* const turn;  // the thread block's places to turn outputs round
  const int warp, lane;
  const int rows;  // of a tile

  // What is added to the first 16 tokens in 16 bits, asked for before the sums are there. With many
  // tokens there are no registers for it.
  static constexpr bool kAsksEarly = kTokens <= 64;
  __device__ __forceinline__ uint4 FirstResidual(const F8Tile& tile) const {
    if (!kAsksEarly || p.residual == nullptr || p.result == DType::kF32) return {};
    return ResidualOf(tile, 0);
  }
  __device__ __forceinline__ void WriteTile(const F8Tile& tile, bool boxes,
                                            const float (&sum)[kSums]) const {
    if (!boxes) {
      WriteTile(tile, uint4{}, sum);
    } else if (p.result == DType::kF16) {
      WriteBoxes<__half, false>(tile, sum);
    } else if (p.w_blocks && p.x_blocks && p.bias == nullptr) {
      WriteBoxes<__nv_bfloat16, true>(tile, sum);
    } else {
      WriteBoxes<__nv_bfloat16, false>(tile, sum);
    }
  }
  __device__ __forceinline__ void WriteTile(const F8Tile& tile, uint4 residual,
                                            const float (&sum)[kSums]) const {
    if (p.result == DType::kF32) {
      WriteTileF32(tile, sum);
    } else if (p.result == DType::kF16) {
      WriteTile16<__half>(tile, residual, sum);
    } else {
      WriteTile16<__nv_bfloat16>(tile, residual, sum);
    }
  }

  // What a thread's four rows have for all tokens.
  struct RowTerms {
    float scale[4], bias[4];
  };
  __device__ __forceinline__ RowTerms TermsOf(int expert, int row) const {
    RowTerms terms;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int at = min(row + r, p.n - 1);
      terms.scale[r] = RowScale(expert, at);
      terms.bias[r] =
          p.bias == nullptr ? 0.0f : LoadAs(p.bias_type, p.bias, expert * p.bias_stride + at);
    }
    return terms;
  }
  // A sum is multiplied by the scale of its row, then by that of its token, as cuBLASLt does it;
  // where both are of whole tensors, by their product.
  __device__ __forceinline__ float RowScale(int expert, int row) const {
    const float scale = p.w_blocks ? 1.0f : p.w_scales[p.w_by_row ? expert * p.n + row : 0];
    return p.one_scale ? __fmul_rn(scale, p.x_scales[0]) : scale;
  }
  __device__ __forceinline__ float TokenScale(int token, int end) const {
    return p.x_in_sums ? 1.0f : p.x_scales[p.x_by_row ? min(token, end - 1) : 0];
  }
  __device__ __forceinline__ void WriteFour(const float* from, const RowTerms& terms, float scale,
                                            const float4& residual, bool wide, int row, int token,
                                            int end) const {
    float out[4];
    float* const to = static_cast<float*>(p.out) + token * p.out_stride + row;
    const float* const add =
        static_cast<const float*>(p.residual) + token * p.residual_stride + row;
    const float four[4] = {residual.x, residual.y, residual.z, residual.w};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (row + r >= end) return;
      out[r] = __fmul_rn(__fmul_rn(from[r], terms.scale[r]), scale);
      if (p.bias != nullptr) out[r] = __fadd_rn(out[r], terms.bias[r]);
      if (p.residual != nullptr) out[r] = __fadd_rn(out[r], wide ? four[r] : add[r]);
      if (!wide) to[r] = out[r];
    }
    if (wide) *reinterpret_cast<float4*>(to) = {out[0], out[1], out[2], out[3]};
  }

  // Turns a tile's sums round in shared memory, so that neighbouring threads write neighbouring
  // rows of a token. What is read from memory is asked for before it is needed, and all at once.
  __device__ __forceinline__ void WriteTileF32(const F8Tile& tile,
                                               const float (&sum)[kSums]) const {
    constexpr int kEach = kTurn / 8;  // of a thread: the same rows of every eighth token
    int row = tile.row, token = tile.token;
    const int group = warp / 4, end = min(row + rows, p.n), at = warp % 4 * 32 + lane;
    float* mine = turn + group * kTurn * kF8TurnPitch;
    float* to = mine + lane % 4 * 2 * kF8TurnPitch + warp % 4 * 16 + lane / 4;
    row += group * kF8GroupRows + at % 16 * 4;
    token += at / 16;
    const bool wide = p.wide && row + 4 <= end;
    const RowTerms terms = TermsOf(tile.expert, row);
#pragma unroll
    for (int first = 0; first < kTokens; first += kTurn) {
      float scale[kEach];
      float4 residual[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int t = token + first + 8 * i;
        scale[i] = TokenScale(t, tile.end);
        if (p.residual != nullptr && wide && t < tile.end) {
          residual[i] = *reinterpret_cast<const float4*>(static_cast<const float*>(p.residual) +
                                                         t * p.residual_stride + row);
        }
      }
      SyncSome(kGroups == 1 ? 1 : 1 + group, 128);
#pragma unroll
      for (int j = 0; j < kTurn / 8; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          to[(8 * j + c % 2) * kF8TurnPitch + c / 2 * 8] = sum[first / 2 + 4 * j + c];
        }
      }
      SyncSome(kGroups == 1 ? 1 : 1 + group, 128);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int t = token + first + 8 * i;
        if (t >= tile.end) continue;
        WriteFour(mine + (at / 16 + 8 * i) * kF8TurnPitch + at % 16 * 4, terms, scale[i],
                  residual[i], wide, row, t, end);
      }
    }
  }

  // Eight neighbouring elements in 16 bits, of which `count` are there.
  static __device__ __forceinline__ uint4 LoadEight(const uint16_t* from, int count, bool wide) {
    if (wide) return *reinterpret_cast<const uint4*>(from);
    alignas(16) uint16_t eight[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) eight[r] = r < count ? from[r] : 0;
    return *reinterpret_cast<const uint4*>(eight);
  }
  // A lane has eight rows of a token, of every 16 tokens from `first` on that of lane / 2.
  __device__ __forceinline__ int RowOf(const F8Tile& tile) const {
    return tile.row + warp * 16 + lane % 2 * 8;
  }
  __device__ __forceinline__ int RowsAt(const F8Tile& tile) const {
    return min(tile.row + rows, p.n) - RowOf(tile);
  }
  __device__ __forceinline__ bool Has(const F8Tile& tile, int token) const {
    return RowsAt(tile) > 0 && token < tile.end && (kTokens >= 16 || lane / 2 < kTokens);
  }
  __device__ __forceinline__ uint4 ResidualOf(const F8Tile& tile, int first) const {
    const int token = tile.token + first + lane / 2, count = RowsAt(tile);
    if (!Has(tile, token)) return {};
    const auto* const from = static_cast<const uint16_t*>(p.residual);
    return LoadEight(from + token * p.residual_stride + RowOf(tile), count, p.wide && count >= 8);
  }
  template <class T>
  static __device__ __forceinline__ void StoreEight(T* to, int count, bool wide, const uint4& v) {
    if (wide) {
      *reinterpret_cast<uint4*>(to) = v;
      return;
    }
    const T* const eight = reinterpret_cast<const T*>(&v);
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      if (r < count) to[r] = eight[r];
    }
  }
  // The copy engine's way, where a group has places for all outputs of the tile. One thread of the
  // group asks for boxes and waits for them.
  static constexpr bool kHasPlaces = F8HasPlaces(kGroups);
  __device__ __forceinline__ bool Asks() const { return warp % 4 == 0 && lane == 0; }
  __device__ __forceinline__ uint32_t Places() const {
    return SharedAddress(turn) + static_cast<uint32_t>(warp / 4 * kTokens * kF8PlaceBytes);
  }
  __device__ __forceinline__ int FirstByte(const F8Tile& tile) const {
    return (tile.row + warp / 4 * kF8GroupRows) * 2;
  }
  // By the thread that asks: the residual goes where the outputs of the tile before have left from.
  __device__ __forceinline__ void FetchResidual(const F8Tile& tile, uint32_t arrived) const {
    WaitForBoxesToLeave();
    ArriveExpecting(arrived, kTokens * kF8PlaceBytes);
    CopyBox(Places(), &p.residual_map, FirstByte(tile), tile.token, arrived);
  }
  // The group: the places are free again.
  __device__ __forceinline__ void WaitForPlaces() const {
    if (Asks()) WaitForBoxesToLeave();
    __syncwarp();
    SyncSome(1 + warp / 4, 128);
  }
  // REQUIRES: the residual is there, or WaitForPlaces came before. kSumsAlone: nothing but that is
  // to be done to sums.
  template <class T, bool kSumsAlone>
  __device__ __forceinline__ void WriteBoxes(const F8Tile& tile, const float (&sum)[kSums]) const {
    // A matrix of eight tokens by eight rows: its eight parts of 16 bytes lie in different banks.
    const auto part = static_cast<uint32_t>((warp % 4 * 2 + lane / 8 % 2) ^ lane % 8);
    const uint32_t at = Places() + (lane / 16 * 8 + lane % 8) * kF8PlaceBytes + part * 16;
    const WarpTerms terms = kSumsAlone ? WarpTerms{} : WarpTermsOf(tile);
#pragma unroll
    for (int first = 0; first < kTokens; first += 16) {
      float v[8];
      if constexpr (kSumsAlone) {
#pragma unroll
        for (int c = 0; c < 8; ++c) v[c] = sum[first / 2 + c];
      } else {
        ScaleEight(tile, first, terms, sum, v);
      }
      if (p.residual != nullptr) {
        uint32_t add[4];
        LoadMatricesTransposed(at + first * kF8PlaceBytes, add);
#pragma unroll
        for (int c = 0; c < 4; ++c) AddPair<T>(add[c], v[2 * c], v[2 * c + 1]);
        __syncwarp();
      }
      const uint32_t out[4] = {Pack<T>(v[0], v[1]), Pack<T>(v[2], v[3]), Pack<T>(v[4], v[5]),
                               Pack<T>(v[6], v[7])};
      StoreMatricesTransposed(at + first * kF8PlaceBytes, out);
    }
    PublishToMatrices();
    SyncSome(1 + warp / 4, 128);
    if (Asks()) {
      WriteBox(&p.out_map, FirstByte(tile), tile.token, Places());
      CommitBoxes();
    }
    __syncwarp();
  }

  // Of the two rows whose sums a thread has.
  struct WarpTerms {
    float scale[2], bias[2];
  };
  __device__ __forceinline__ WarpTerms WarpTermsOf(const F8Tile& tile) const {
    WarpTerms terms;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int at = min(tile.row + warp * 16 + lane / 4 + 8 * r, p.n - 1);
      terms.scale[r] = RowScale(tile.expert, at);
      terms.bias[r] =
          p.bias == nullptr ? 0.0f : LoadAs(p.bias_type, p.bias, tile.expert * p.bias_stride + at);
    }
    return terms;
  }
  // A thread's sums of 16 tokens from `first` on, with scales of whole rows and bias.
  __device__ __forceinline__ void ScaleEight(const F8Tile& tile, int first, const WarpTerms& terms,
                                             const float (&sum)[kSums], float (&v)[8]) const {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      v[c] = 0.0f;
      if (c >= kSums) continue;
      const int of = tile.token + first + c / 4 * 8 + lane % 4 * 2 + c % 2;
      v[c] = __fmul_rn(__fmul_rn(sum[first / 2 + c], terms.scale[c / 2 % 2]),
                       TokenScale(of, tile.end));
      if (p.bias != nullptr) v[c] = __fadd_rn(v[c], terms.bias[c / 2 % 2]);
    }
  }

  template <class T>
  static __device__ __forceinline__ void AddPair(uint32_t pair, float& low, float& high) {
    const T* const both = reinterpret_cast<const T*>(&pair);
    low = __fadd_rn(low, ToFloat(both[0]));
    high = __fadd_rn(high, ToFloat(both[1]));
  }

  // In 16 bits a warp turns 16 tokens by its 16 rows at a time, and the residual the other way
  // round before: no warp waits for another.
  template <class T>
  __device__ __forceinline__ void WriteTile16(const F8Tile& tile, uint4 residual,
                                              const float (&sum)[kSums]) const {
    // Within the group's places, which the other group's boxes don't leave from.
    const uint32_t mine = kHasPlaces
                              ? Places() + static_cast<uint32_t>(warp % 4 * kF8Turn16Bytes)
                              : SharedAddress(turn) + static_cast<uint32_t>(warp * kF8Turn16Bytes);
    const uint32_t by_token = mine + lane / 2 * kF8Turn16Pitch + lane % 2 * 16;
    const uint32_t by_row = mine + (lane / 16 * 8 + lane % 8) * kF8Turn16Pitch + lane / 8 % 2 * 16;
    const int row = RowOf(tile), count = RowsAt(tile);
    const bool wide = p.wide && count >= 8;
    const WarpTerms terms = WarpTermsOf(tile);
#pragma unroll
    for (int first = 0; first < kTokens; first += 16) {
      const int token = tile.token + first + lane / 2;
      if (p.residual != nullptr) {
        StoreShared(by_token, kAsksEarly ? residual : ResidualOf(tile, first));
        __syncwarp();
        if (kAsksEarly && first + 16 < kTokens) residual = ResidualOf(tile, first + 16);
      }
      float v[8];
      ScaleEight(tile, first, terms, sum, v);
      if (p.residual != nullptr) {
        uint32_t add[4];
        LoadMatricesTransposed(by_row, add);
        __syncwarp();
#pragma unroll
        for (int c = 0; c < 4; ++c) AddPair<T>(add[c], v[2 * c], v[2 * c + 1]);
      }
      const uint32_t out[4] = {Pack<T>(v[0], v[1]), Pack<T>(v[2], v[3]), Pack<T>(v[4], v[5]),
                               Pack<T>(v[6], v[7])};
      StoreMatricesTransposed(by_row, out);
      __syncwarp();
      const uint4 eight = LoadShared(by_token);
      T* const to = static_cast<T*>(p.out) + token * p.out_stride + row;
      if (Has(tile, token)) StoreEight(to, count, wide, eight);
      __syncwarp();
    }
  }
};

}  // namespace sluice::cuda
