// Linear on any number of threads, more than there are cores among them, gives the same bits.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/linear/impls.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/formats/rows.h"
#include "ops/linear.h"

namespace sluice::cpu {
namespace {

using ops::Dense;
using ops::Linear;

device::View ViewOf(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float), {}, {}};
}

// Row counts around the kernels' tiles, the copies per thread and the panels of x.
TEST(LinearThreads, GiveTheSameBits) {
  device::DeviceFacts facts;
  facts.architecture = Name(DetectCpu().best);
  ops::OpTable table(&facts);
  RegisterLinear(table);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  constexpr int64_t kRowsMax = 700, kOutputs = 40, kInner = 1536;
  std::vector<float> w(kOutputs * kInner), x(kRowsMax * kInner);
  for (float& value : w) value = normal(random);
  for (float& value : x) value = normal(random);
  for (const DType dtype : {DType::kQ4_1, DType::kQ8_0, DType::kF16, DType::kBF16}) {
    const Linear::Desc desc = {.weight = dtype, .n = kOutputs, .k = kInner};
    std::vector<std::byte> rows(RowBytes(dtype, w.size()));
    ops::QuantizeRow(dtype, w, rows.data());
    for (const auto& implementation : table.List<Linear>()) {
      if (implementation.name == "ref_linear") continue;  // it uses one thread
      if (!implementation.supports(desc, facts).ok) continue;
      const ops::LinearPacking& packing = PackingOf(table, implementation.name);
      std::vector<std::byte> packed(packing.packed_bytes(desc));
      ASSERT_TRUE(packing.pack(desc, 0, rows, packed).ok());
      ops::PackedWeight weight;
      weight.data = Dense({packed.data(), packed.size(), {}, {}}, DType::kU8,
                          {static_cast<int64_t>(packed.size())});
      weight.dtype = dtype;
      weight.layout = packing.layout;
      weight.n = desc.n;
      weight.k = desc.k;
      for (const int64_t m : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{29}, kRowsMax}) {
        std::vector<uint32_t> expected;
        for (int threads = 1; threads <= 5; ++threads) {
          ThreadPool pool({.threads = threads});
          CpuStream stream(&pool, &facts);
          std::vector<float> out(m * desc.n);
          Linear::Args args;
          args.x = Dense(ViewOf(x), DType::kF32, {m, desc.k});
          args.weight = &weight;
          args.out = Dense(ViewOf(out), DType::kF32, {m, desc.n});
          ASSERT_TRUE(implementation.run(stream, desc, args).ok());
          std::vector<uint32_t> bits;
          for (float value : out) bits.push_back(std::bit_cast<uint32_t>(value));
          if (threads == 1) expected = bits;
          EXPECT_TRUE(bits == expected)
              << implementation.name << " " << desc.ToString() << " m=" << m << " on " << threads;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
