// Sampling on a GPU gives the reference's tokens, and a row's bits do not depend on its neighbours.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/sampling/impls.h"
#include "ops/sampling.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Sample;
using ops::SampleRow;

class SampleOnDevice : public CudaTest {};

TEST_F(SampleOnDevice, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterSampling, 400), "");
}

constexpr int64_t kVocab = 32003;
constexpr int kTopMax = 20;

struct Results {
  std::vector<std::byte> outputs, ids, logprobs;
  friend bool operator==(const Results&, const Results&) = default;
};

Results SampleRows(DeviceMemory& memory, const Array& logits, const std::vector<SampleRow>& rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  Array row(DType::kU8, {count, int64_t{sizeof(SampleRow)}});
  std::memcpy(row.tensor().data, rows.data(), rows.size() * sizeof(SampleRow));
  const Array output(DType::kU8, {count, int64_t{sizeof(ops::SampleOutput)}});
  const Array ids(DType::kI32, {count, kTopMax + 1}), logprobs(DType::kF32, {count, kTopMax + 1});
  Sample::Args args;
  args.logits = memory.Upload(logits);
  args.rows = memory.Upload(row);
  args.outputs = memory.Upload(output);
  args.top_ids = memory.Upload(ids);
  args.top_logprobs = memory.Upload(logprobs);
  const auto bound = ops::Bind<Sample>(memory.device().ops(), {kVocab, kTopMax});
  CHECK(bound.ok(), bound.status().message());
  EXPECT_TRUE((*bound)(memory.stream(), args).ok());
  return {memory.Download(args.outputs, output).bytes(), memory.Download(args.top_ids, ids).bytes(),
          memory.Download(args.top_logprobs, logprobs).bytes()};
}

TEST_F(SampleOnDevice, ARowGivesTheSameBitsAloneAndInABatch) {
  ops::TestNoise noise(2);
  constexpr int kRows = 33;
  Array logits(DType::kF32, {kRows, kVocab});
  noise.Fill(logits, 9.0f);
  std::vector<SampleRow> rows(kRows);
  for (int r = 0; r < kRows; ++r) {
    rows[r].temperature = r % 5 == 0 ? 0.0f : 0.7f;
    rows[r].top_k = r % 3 == 0 ? 40 : 0;
    rows[r].top_p = r % 2 == 0 ? 0.9f : 1.0f;
    rows[r].min_p = r % 7 == 0 ? 0.01f : 0.0f;
    rows[r].seed = noise.Next();
    rows[r].top_logprobs = r % 4 == 0 ? -1 : kTopMax;
  }
  const Results batch = SampleRows(*memory_, logits, rows);
  for (int r = 0; r < kRows; ++r) {
    Array one(DType::kF32, {1, kVocab});
    std::memcpy(one.tensor().data, logits.bytes().data() + r * kVocab * 4, kVocab * 4);
    const Results alone = SampleRows(*memory_, one, {rows[r]});
    const auto same = [&](const std::vector<std::byte>& all, const std::vector<std::byte>& mine) {
      const size_t size = mine.size() - 1;  // an Array has a byte to spare
      return std::equal(mine.begin(), mine.begin() + size, all.begin() + r * size);
    };
    EXPECT_TRUE(same(batch.outputs, alone.outputs)) << r;
    EXPECT_TRUE(same(batch.ids, alone.ids)) << r;
    EXPECT_TRUE(same(batch.logprobs, alone.logprobs)) << r;
    memory_->FreeAll();
  }
}

}  // namespace
}  // namespace sluice::cuda
