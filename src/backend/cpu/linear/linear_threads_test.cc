// Linear on any number of threads, more than there are cores among them, gives the same bits, and
// a row the same bits whatever the rows beside it.
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

constexpr int64_t kRowsMax = 700;
// Of which 12 and 4 are a row count of kernels, and 29, 23 and 14 leave each kind of tail.
constexpr int64_t kRowCounts[] = {1, 2, 4, 7, 12, 14, 23, 29, kRowsMax};

device::View ViewOf(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float), {}, {}};
}

std::vector<float> Normal(int64_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Calls body(m, out) for the outputs of the first m rows on one thread, after more threads have
// given the same.
template <class Body>
void ForRowCounts(const ops::OpTable& table, const ops::Implementation<Linear>& implementation,
                  const Linear::Desc& desc, const Body& body) {
  std::vector<float> w = Normal(desc.n * desc.k, 5), x = Normal(kRowsMax * desc.k, 6),
                     bias = Normal(desc.n, 7), residual = Normal(kRowsMax * desc.n, 8);
  std::vector<std::byte> rows(RowBytes(desc.weight, w.size()));
  ops::QuantizeRow(desc.weight, w, rows.data());
  const ops::LinearPacking& packing = PackingOf(table, implementation.name);
  std::vector<std::byte> packed(packing.packed_bytes(desc));
  ASSERT_TRUE(packing.pack(desc, 0, rows, packed).ok());
  ops::PackedWeight weight;
  weight.data = Dense({packed.data(), packed.size(), {}, {}}, DType::kU8,
                      {static_cast<int64_t>(packed.size())});
  weight.dtype = desc.weight;
  weight.layout = packing.layout;
  weight.n = desc.n;
  weight.k = desc.k;
  for (const int64_t m : kRowCounts) {
    std::vector<uint32_t> expected;
    for (int threads = 1; threads <= 5; ++threads) {
      ThreadPool pool({.threads = threads});
      CpuStream stream(&pool, &table.facts());
      std::vector<float> out(m * desc.n);
      Linear::Args args;
      args.x = Dense(ViewOf(x), DType::kF32, {m, desc.k});
      args.weight = &weight;
      args.bias = Dense(ViewOf(bias), DType::kF32, {desc.n});
      args.residual = Dense(ViewOf(residual), DType::kF32, {m, desc.n});
      args.out = Dense(ViewOf(out), DType::kF32, {m, desc.n});
      ASSERT_TRUE(implementation.run(stream, desc, args).ok());
      std::vector<uint32_t> bits;
      for (float value : out) bits.push_back(std::bit_cast<uint32_t>(value));
      if (threads == 1) expected = bits;
      EXPECT_TRUE(bits == expected)
          << implementation.name << " " << desc.ToString() << " m=" << m << " on " << threads;
    }
    body(m, expected);
  }
}

// Row counts around the kernels' tiles, the copies per thread and the panels of x; outputs that
// leave the last group of W alone or a part of it empty; and an inner size that no unrolled loop
// divides.
TEST(LinearThreads, AndRowsBesideGiveTheSameBits) {
  device::DeviceFacts facts;
  facts.architecture = Name(DetectCpu().best);
  ops::OpTable table(&facts);
  RegisterLinear(table);
  for (const DType dtype : {DType::kQ4_1, DType::kQ8_0, DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t outputs : {24, 40}) {
      const Linear::Desc desc = {.weight = dtype,
                                 .n = outputs,
                                 .k = IsQuantized(dtype) ? 1536 : 1538,
                                 .bias = true,
                                 .residual = true};
      for (const auto& implementation : table.List<Linear>()) {
        if (implementation.name == "ref_linear") continue;  // it uses one thread
        if (!implementation.supports(desc, facts).ok) continue;
        std::vector<uint32_t> alone;
        ForRowCounts(table, implementation, desc, [&](int64_t m, std::vector<uint32_t> bits) {
          bits.resize(outputs);
          if (m == 1) alone = bits;
          EXPECT_TRUE(bits == alone)
              << implementation.name << " " << desc.ToString() << " beside " << m;
        });
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
