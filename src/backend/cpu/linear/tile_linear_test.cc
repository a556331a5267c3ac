// BF16 weights in matrix tiles against plain loops, to the bit, whatever the number of rows.
#include "backend/cpu/linear/tile_linear.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/linear/impls.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "base/dtype.h"
#include "ops/linear.h"

namespace sluice::cpu {
namespace {

using ops::Dense;
using ops::Linear;

template <class T>
device::View ViewOf(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T), {}, {}};
}

// What linear.h says of BF16 on matrix units.
float Dot(const uint16_t* w, const float* x, int64_t k) {
  float acc = 0.0f;
  for (int64_t begin = 0; begin < k; begin += 32) {
    float sums[2] = {};
    for (int64_t i = begin; i < std::min(begin + 32, k); ++i) {
      sums[i % 2] = std::fma(BF16ToF32(w[i]), BF16ToF32(F32ToBF16(x[i])), sums[i % 2]);
    }
    acc += sums[0] + sums[1];
  }
  return acc;
}

struct Size {
  int64_t n, k;
};

TEST(TileLinear, IsThePlainLoopToTheBit) {
  if (DetectCpu().best < Isa::kAmx) GTEST_SKIP() << "this machine has no matrix tiles";
  device::DeviceFacts facts;
  facts.architecture = Name(Isa::kAmx);
  ops::OpTable table(&facts);
  RegisterLinear(table);
  const ops::LinearPacking& packing = PackingOf(table, "amx_bf16_linear");
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  ThreadPool pool({.threads = 2});
  CpuStream stream(&pool, &facts);
  // 2100 elements are more than one chunk of tiles; 17 outputs end in a group of one row.
  for (const Size size : {Size{17, 32}, Size{48, 70}, Size{33, 2100}}) {
    Linear::Desc desc = {.weight = DType::kBF16, .n = size.n, .k = size.k};
    desc.bias = desc.residual = true;
    std::vector<uint16_t> w(size.n * size.k);
    for (uint16_t& value : w) value = F32ToBF16(normal(random));
    std::vector<std::byte> packed(packing.packed_bytes(desc));
    ASSERT_TRUE(packing.pack(desc, 0, std::as_bytes(std::span(w)), packed).ok());
    ops::PackedWeight weight;
    weight.data = Dense(ViewOf(packed), DType::kU8, {static_cast<int64_t>(packed.size())});
    weight.dtype = desc.weight;
    weight.layout = packing.layout;
    weight.n = desc.n;
    weight.k = desc.k;
    for (const int64_t m : {1, 2, 15, 16, 17, 32, 33, 70}) {
      std::vector<float> x(m * size.k), bias(size.n), residual(m * size.n), out(m * size.n);
      for (std::vector<float>* values : {&x, &bias, &residual}) {
        for (float& value : *values) value = normal(random);
      }
      Linear::Args args;
      args.x = Dense(ViewOf(x), DType::kF32, {m, size.k});
      args.weight = &weight;
      args.bias = Dense(ViewOf(bias), DType::kF32, {size.n});
      args.residual = Dense(ViewOf(residual), DType::kF32, {m, size.n});
      args.out = Dense(ViewOf(out), DType::kF32, {m, size.n});
      const auto bound = ops::Bind<Linear>(table, desc);
      ASSERT_TRUE(bound.ok());
      ASSERT_EQ(bound->name(), "amx_bf16_linear");
      ASSERT_TRUE((*bound)(stream, args).ok());
      int64_t wrong = 0;
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t column = 0; column < size.n; ++column) {
          const float dot = Dot(&w[column * size.k], &x[row * size.k], size.k);
          const float expected = (dot + bias[column]) + residual[row * size.n + column];
          const float got = out[row * size.n + column];
          if (std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(expected)) ++wrong;
        }
      }
      EXPECT_EQ(wrong, 0) << "of " << m << " x " << size.n << ", k " << size.k;
    }
  }
}

TEST(TileLinear, PanelsAreOfEqualSizeAndFitTheCache) {
  constexpr int64_t kRowBytes = 64 * 19;
  for (const int64_t m : {33, 64, 500, 900, 2048, 5000}) {
    const int64_t rows = TilePanelRows(m, kRowBytes);
    EXPECT_EQ(rows % kStreamRowsMax, 0) << m;
    EXPECT_LE(rows * kRowBytes, 1 << 20) << m;
    const int64_t panels = (m + rows - 1) / rows;
    EXPECT_LT(panels * rows - m, panels * kStreamRowsMax) << m;
  }
  EXPECT_EQ(TilePanelRows(7, kRowBytes), 7) << "few rows are one panel";
  EXPECT_EQ(TilePanelRows(100, int64_t{1} << 21), kStreamRowsMax) << "rows larger than the cache";
}

}  // namespace
}  // namespace sluice::cpu
