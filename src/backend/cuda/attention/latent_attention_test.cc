// Latent attention: many cases against the reference, and a row's bits, which do not depend on what
// is computed beside it, on the chunk that it came in, or on who computes which split.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cuda/attention/latent_impls.h"
#include "backend/cuda/cuda_test.h"
#include "ops/conformance_case.h"
#include "ops/latent_attention.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::LatentAttention;

struct Kind {
  const char* name;
  DType activation, kv;
  int heads, key_width, value_width;
};
constexpr Kind kKinds[] = {
    {"bf16_16", DType::kBF16, DType::kBF16, 16, 576, 512},
    {"bf16_128", DType::kBF16, DType::kBF16, 128, 576, 512},
    {"f16_20", DType::kF16, DType::kF16, 20, 576, 512},
    {"bf16_f8", DType::kBF16, DType::kF8E4M3, 4, 576, 512},
    {"f32_small", DType::kF32, DType::kF16, 4, 48, 32},
};
constexpr int kBlockTokens = 16;
constexpr int kContexts[] = {300, 4200, 64, 2048};

// Rows of the places [first, end) of a sequence. The last `aside` of them are aside in a tree: they
// have the positions and the queries of the rows behind the first.
struct Chunk {
  int sequence, first, end, aside = 0;
  int PositionAt(int place) const {
    return place < end - aside ? place : place - (end - aside) + first + 1;
  }
};

class LatentSameness : public CudaTest, public ::testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (device_ == nullptr) return;
    const Kind& kind = GetParam();
    desc_ = {.activation = kind.activation,
             .heads = kind.heads,
             .key_width = kind.key_width,
             .value_width = kind.value_width,
             .scale = 0.1f};
    desc_.kv = {kind.kv, 1, kind.key_width, 0, kBlockTokens};
    int32_t blocks = 0;
    for (const int context : kContexts) {
      first_block_.push_back(blocks);
      blocks += (context + kBlockTokens - 1) / kBlockTokens;
    }
    ops::TestNoise noise(5);
    k_ = Array(kind.kv, {blocks, 1, kBlockTokens, kind.key_width});
    scale_ = Array(DType::kF32, {blocks, 1, kBlockTokens});
    noise.Fill(k_, ops::KvHasScales(kind.kv) ? 100.0f : 1.0f);
    scale_.Fill(0.01f);
  }

  int64_t width() const { return int64_t{desc_.heads} * desc_.key_width; }

  // The rows of `chunks`, one chunk's behind the other's.
  std::vector<std::byte> Run(const std::vector<Chunk>& chunks) {
    std::vector<int32_t> start = {0}, context;
    int64_t columns = 1;
    for (const Chunk& c : chunks) {
      start.push_back(start.back() + c.end - c.first);
      context.push_back(c.end);
      columns = std::max<int64_t>(columns, (c.end + kBlockTokens - 1) / kBlockTokens);
    }
    const auto sequences = static_cast<int64_t>(chunks.size());
    std::vector<int32_t> table(static_cast<size_t>(sequences * columns), -1);
    Array q(desc_.activation, {start.back(), width()});
    size_t row = 0;
    for (size_t s = 0; s < chunks.size(); ++s) {
      const Chunk& c = chunks[s];
      for (int b = 0; b * kBlockTokens < c.end; ++b)
        table[s * static_cast<size_t>(columns) + static_cast<size_t>(b)] =
            first_block_[static_cast<size_t>(c.sequence)] + b;
      for (int place = c.first; place < c.end; ++place, ++row) {
        // The same query of a position whenever it is asked.
        ops::TestNoise noise(static_cast<uint64_t>(c.sequence * 10000 + c.PositionAt(place) + 1));
        Array one(desc_.activation, {width()});
        noise.Fill(one, 2.0f);
        const auto bytes = RowBytes(desc_.activation, static_cast<size_t>(width()));
        std::copy_n(one.tensor().data, bytes, q.tensor().data + row * bytes);
      }
    }
    LatentAttention::Args args{
        .q = memory_->Upload(q),
        .query_start = memory_->Upload(Array::Ints(start)),
        .context = memory_->Upload(Array::Ints(context)),
        .block_table = memory_->Upload(Array::Ints({sequences, columns}, table))};
    args.kv.k = memory_->Upload(k_);
    if (ops::KvHasScales(desc_.kv.dtype)) args.kv.k_scale = memory_->Upload(scale_);
    if (desc_.listed_max > 0) args.listed = memory_->Upload(Lists(chunks, start.back()));
    if (desc_.paths) args.paths = memory_->Upload(Paths(chunks, start.back()));
    const Array out =
        ops::Untouched(desc_.activation, {start.back(), int64_t{desc_.heads} * desc_.value_width});
    args.out = memory_->Upload(out);
    const auto bound = ops::Bind<LatentAttention>(memory_->device().ops(), desc_);
    EXPECT_TRUE(bound.ok()) << bound.status().message();
    const Status status = (*bound)(memory_->stream(), args);
    EXPECT_TRUE(status.ok()) << status.message();
    const Array got = memory_->Download(args.out, out);
    memory_->FreeAll();
    const size_t size =
        RowBytes(desc_.activation, static_cast<size_t>(desc_.heads) * desc_.value_width) * row;
    return {got.tensor().data, got.tensor().data + size};
  }

  // Of each row so many positions up to its own, as evenly as may be: all, where it has no more.
  Array Lists(const std::vector<Chunk>& chunks, int64_t tokens) const {
    const int64_t most = desc_.listed_max;
    std::vector<int32_t> lists(static_cast<size_t>(tokens * most), -1);
    size_t row = 0;
    for (const Chunk& c : chunks) {
      for (int64_t seen = c.first + 1; seen <= c.end; ++seen, ++row) {
        for (int64_t i = 0; i < std::min(seen, most); ++i)
          lists[row * static_cast<size_t>(most) + static_cast<size_t>(i)] =
              static_cast<int32_t>(i * seen / std::min(seen, most));
      }
    }
    return Array::Ints({tokens, most}, lists);
  }

  static Array Paths(const std::vector<Chunk>& chunks, int64_t tokens) {
    Array paths =
        Array::Ints({tokens, ops::kPathNumbers},
                    std::vector<int32_t>(static_cast<size_t>(tokens * ops::kPathNumbers), 0));
    int32_t* of_chunk = paths.tensor().ptr<int32_t>();
    for (const Chunk& c : chunks) {
      std::vector<int32_t> parents;
      for (int place = c.first + 1; place < c.end && c.aside > 0; ++place)
        parents.push_back(place == c.end - c.aside ? 0 : place - c.first - 1);
      ops::WritePaths(parents, of_chunk);
      of_chunk += int64_t{c.end - c.first} * ops::kPathNumbers;
    }
    return paths;
  }

  // The KV at `place` of a sequence becomes that at `from`.
  void CopyKv(int sequence, int from, int place) {
    const auto row = [&](int at) {
      const int block = first_block_[static_cast<size_t>(sequence)] + at / kBlockTokens;
      return int64_t{block} * kBlockTokens + at % kBlockTokens;
    };
    const auto bytes =
        static_cast<int64_t>(RowBytes(desc_.kv.dtype, static_cast<size_t>(desc_.key_width)));
    std::copy_n(k_.tensor().data + row(from) * bytes, bytes, k_.tensor().data + row(place) * bytes);
    float* const scales = scale_.tensor().ptr<float>();
    scales[row(place)] = scales[row(from)];
  }

  // Positions [first, end) of a sequence become NaN.
  void Spoil(int sequence, int first, int end) {
    for (int position = first; position < end; ++position) {
      const int block = first_block_[static_cast<size_t>(sequence)] + position / kBlockTokens;
      const int64_t row = int64_t{block} * kBlockTokens + position % kBlockTokens;
      if (ops::KvHasScales(desc_.kv.dtype))
        scale_.Set(static_cast<size_t>(row), std::numeric_limits<float>::quiet_NaN());
      for (int i = 0; i < desc_.key_width; ++i) {
        k_.Set(static_cast<size_t>(row * desc_.key_width + i),
               std::numeric_limits<float>::quiet_NaN());
      }
    }
  }

  LatentAttention::Desc desc_;
  std::vector<int32_t> first_block_;
  Array k_{DType::kF32, {0}}, scale_{DType::kF32, {0}};
};
INSTANTIATE_TEST_SUITE_P(Kinds, LatentSameness, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(LatentSameness, DecodeVerifyAndChunksGiveTheSameBitsInAnyCompany) {
  for (const int position :
       {0, 63, 255, 256, 299, 1023, 2046, 2047, 2048, 2049, 4095, 4096, 4199}) {
    const int sequence = position < 300 ? 0 : 1;
    const std::vector<std::byte> alone = Run({{sequence, position, position + 1}});
    const auto same = [&](const std::vector<std::byte>& got, size_t row) {
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(row * alone.size());
      return std::equal(alone.begin(), alone.end(), begin);
    };
    const int first = std::max(0, position - 9);
    const auto at = static_cast<size_t>(position - first);
    EXPECT_TRUE(same(Run({{sequence, first, position + 1}}), at)) << "verify at " << position;
    EXPECT_TRUE(same(Run({{2, 0, 64}, {sequence, first, position + 1}}), 64 + at))
        << "chunk at " << position;
    std::vector<Chunk> many;
    for (int i = 0; i < 150; ++i) many.push_back({i % 4, kContexts[i % 4] - 1, kContexts[i % 4]});
    many[77] = {sequence, position, position + 1};
    EXPECT_TRUE(same(Run(many), 77)) << "among others at " << position;
  }
}

TEST_P(LatentSameness, WhatARowDoesNotSeeDoesNotChangeItsBits) {
  const std::vector<std::byte> clean = Run({{1, 2040, 2051}});
  const std::vector<std::byte> decode = Run({{1, 2049, 2050}});
  Spoil(1, 2050, 4200);
  const std::vector<std::byte> spoilt = Run({{1, 2040, 2051}});
  const auto rows = static_cast<std::ptrdiff_t>(10 * decode.size());
  EXPECT_TRUE(std::equal(clean.begin(), clean.begin() + rows, spoilt.begin()));
  EXPECT_NE(clean, spoilt) << "nothing was spoilt";
  EXPECT_EQ(Run({{1, 2049, 2050}}), decode);
}

// A tree across the end of a split, beside others: two rows behind its first, and the same aside.
TEST_P(LatentSameness, RowsAsideHaveTheBitsOfTheirAncestorsInARow) {
  for (const int first : {2046, 250, 4100}) {
    for (int i = 1; i <= 2; ++i) CopyKv(1, first + i, first + 2 + i);
    const std::vector<std::byte> branch = Run({{1, first, first + 3}});
    desc_.paths = true;
    const std::vector<std::byte> got = Run({{2, 0, 64}, {1, first, first + 5, 2}, {3, 90, 91}});
    desc_.paths = false;
    const auto row = static_cast<std::ptrdiff_t>(branch.size() / 3);
    const auto tree = got.begin() + 64 * row;
    EXPECT_TRUE(std::equal(branch.begin(), branch.end(), tree)) << first;
    EXPECT_TRUE(std::equal(branch.begin() + row, branch.end(), tree + 3 * row)) << first;
  }
}

// Lists of several splits, of one, and of all positions, which give the bits of a row without one.
TEST_P(LatentSameness, ListsGiveTheSameBitsInAnyCompany) {
  for (const auto& [most, position] :
       {std::pair(2100, 4199), std::pair(64, 1023), std::pair(2100, 2090), std::pair(70, 0)}) {
    desc_.listed_max = most;
    const std::vector<std::byte> alone = Run({{1, position, position + 1}});
    const auto same = [&](const std::vector<std::byte>& got, size_t row) {
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(row * alone.size());
      return std::equal(alone.begin(), alone.end(), begin);
    };
    const int first = std::max(0, position - 9);
    EXPECT_TRUE(same(Run({{2, 0, 64}, {1, first, position + 1}}),
                     static_cast<size_t>(64 + position - first)))
        << "chunk at " << position;
    std::vector<Chunk> many;
    for (int i = 0; i < 50; ++i) many.push_back({i % 4, kContexts[i % 4] - 1, kContexts[i % 4]});
    many[27] = {1, position, position + 1};
    EXPECT_TRUE(same(Run(many), 27)) << "among others at " << position;
    desc_.listed_max = 0;
    EXPECT_EQ(Run({{1, position, position + 1}}) == alone, position < most) << position;
  }
}

// In parts, so that processes can share them: the reference takes its time.
class LatentConformance : public CudaTest, public ::testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, LatentConformance, ::testing::Range(uint64_t{21}, uint64_t{25}));

TEST_P(LatentConformance, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterLatentAttention, 40, GetParam()), "");
}

}  // namespace
}  // namespace sluice::cuda
