// A row's bits do not depend on what is computed beside it, on how its prompt was cut into chunks,
// or on how many thread blocks share its history.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "backend/cuda/attention/impls.h"
#include "backend/cuda/cuda_test.h"
#include "ops/attention.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::Attention;

struct Kind {
  const char* name;
  DType activation, kv;
  int q_heads, kv_heads, head_dim;
  bool causal = true;
  int window = 0;
  float soft_cap = 0.0f;  // 0: none
};
constexpr Kind kKinds[] = {
    {"bf16", DType::kBF16, DType::kBF16, 8, 2, 128},
    {"bf16_window", DType::kBF16, DType::kBF16, 6, 2, 64, true, 300},
    {"bf16_256", DType::kBF16, DType::kBF16, 4, 1, 256},
    {"bf16_group1_cap", DType::kBF16, DType::kBF16, 2, 2, 96, true, 0, 3.0f},
    {"bf16_group12", DType::kBF16, DType::kBF16, 12, 1, 128},
    {"bf16_all", DType::kBF16, DType::kBF16, 8, 2, 128, false},
    {"f16_80", DType::kF16, DType::kF16, 7, 1, 80},
    {"f16_128_window", DType::kF16, DType::kF16, 4, 1, 128, true, 130},
    {"bf16_f8", DType::kBF16, DType::kF8E4M3, 8, 2, 128},
    {"bf16_f8_64", DType::kBF16, DType::kF8E4M3, 6, 2, 64},
    {"f16_i8", DType::kF16, DType::kI8, 4, 2, 96},
    {"f32", DType::kF32, DType::kF16, 9, 3, 64},
    {"f32_all", DType::kF32, DType::kF32, 2, 2, 20, false},
};
constexpr int kBlockTokens = 16;

// One sequence's history and the queries of all its positions.
struct Sequence {
  int context = 0;
  std::vector<int32_t> blocks;
  Array q;  // [context, width]
};

class AttentionSameness : public CudaTest, public ::testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (device_ == nullptr) return;
    const Kind& kind = GetParam();
    desc_.activation = kind.activation;
    desc_.q_heads = kind.q_heads;
    desc_.kv_heads = kind.kv_heads;
    desc_.head_dim = kind.head_dim;
    desc_.causal = kind.causal;
    desc_.window = kind.window;
    if (kind.soft_cap > 0.0f) desc_.soft_cap = kind.soft_cap;
    desc_.kv = {kind.kv, kind.kv_heads, kind.head_dim, kind.head_dim, kBlockTokens};
    ops::TestNoise noise(5);
    int32_t blocks = 0;
    for (const int context : {700, 1, 1300, 64, 257}) {
      Sequence& s = sequences_.emplace_back();
      s.context = context;
      for (int p = 0; p < context; p += kBlockTokens) s.blocks.push_back(blocks++);
      s.q = Array(desc_.activation, {context, width()});
      noise.Fill(s.q, 2.0f);
    }
    k_ = v_ = Array(kind.kv, {blocks, kind.kv_heads, kBlockTokens, kind.head_dim});
    k_scale_ = v_scale_ = Array(DType::kF32, {blocks, kind.kv_heads, kBlockTokens});
    for (auto [cache, scales] : {std::pair{&k_, &k_scale_}, {&v_, &v_scale_}}) {
      std::vector<float> row(static_cast<size_t>(kind.head_dim));
      for (int64_t r = 0; r < blocks * kind.kv_heads * kBlockTokens; ++r) {
        for (float& x : row) x = noise.Value();
        ops::StoreKvRow(kind.kv, row.data(), kind.head_dim, cache->tensor().data, r * kind.head_dim,
                        scales->tensor().ptr<float>() + r);
      }
    }
    kv_.k = memory_->Upload(k_);
    kv_.v = memory_->Upload(v_);
    if (ops::KvHasScales(kind.kv)) {
      kv_.k_scale = memory_->Upload(k_scale_);
      kv_.v_scale = memory_->Upload(v_scale_);
    }
  }

  // Makes K and V of positions [first, end) of a sequence NaN, or their scales.
  void Spoil(int sequence, int first, int end) {
    const bool scales = ops::KvHasScales(desc_.kv.dtype);
    const int64_t count = scales ? 1 : desc_.head_dim;
    for (int p = first; p < end; ++p) {
      const int64_t block = sequences_[sequence].blocks[p / kBlockTokens];
      for (int64_t h = 0; h < desc_.kv_heads; ++h) {
        const int64_t row = (block * desc_.kv_heads + h) * kBlockTokens + p % kBlockTokens;
        for (int64_t i = row * count; i < (row + 1) * count; ++i) {
          (scales ? k_scale_ : k_).Set(static_cast<size_t>(i), NAN);
          (scales ? v_scale_ : v_).Set(static_cast<size_t>(i), NAN);
        }
      }
    }
    memory_->Write(scales ? kv_.k_scale : kv_.k, scales ? k_scale_ : k_);
    memory_->Write(scales ? kv_.v_scale : kv_.v, scales ? v_scale_ : v_);
  }

  // K and V of a position, or their codes and scales, become those of another one.
  void CopyKv(const Sequence& from, int position, const Sequence& to, int place) {
    for (Array* const array : {&k_, &v_, &k_scale_, &v_scale_}) {
      const ops::Tensor tensor = array->tensor();
      const size_t numbers = tensor.rank == 4 ? static_cast<size_t>(desc_.head_dim) : 1;
      const size_t bytes = Info(tensor.dtype).bytes * numbers;
      for (int64_t h = 0; h < desc_.kv_heads; ++h) {
        const auto at = [&](const Sequence& s, int p) {
          const int64_t block = s.blocks[p / kBlockTokens];
          return tensor.data + ((block * desc_.kv_heads + h) * kBlockTokens + p % kBlockTokens) *
                                   static_cast<int64_t>(bytes);
        };
        std::copy_n(at(from, position), bytes, at(to, place));
      }
    }
    memory_->Write(kv_.k, k_);
    memory_->Write(kv_.v, v_);
    if (!ops::KvHasScales(desc_.kv.dtype)) return;
    memory_->Write(kv_.k_scale, k_scale_);
    memory_->Write(kv_.v_scale, v_scale_);
  }

  int64_t width() const { return int64_t{desc_.q_heads} * desc_.head_dim; }

  // Positions [first, end) of a sequence whose context ends there.
  struct Chunk {
    int sequence, first, end;
  };

  struct Inputs {
    Array q, start, context, table;
    size_t bytes = 0;  // of the chunks' rows
  };

  // Tensors of `tokens` rows and `sequences` sequences; what the chunks leave is padding.
  Inputs MakeInputs(const std::vector<Chunk>& chunks, int tokens, int sequences,
                    int64_t blocks_max) const {
    const size_t row = RowBytes(desc_.activation, width());
    std::vector<int32_t> start = {0}, context, table;
    Inputs inputs;
    inputs.q = Array(desc_.activation, {tokens, width()});
    for (const Chunk& chunk : chunks) {
      const Sequence& s = sequences_[chunk.sequence];
      start.push_back(start.back() + chunk.end - chunk.first);
      context.push_back(chunk.end);
      for (int64_t b = 0; b < blocks_max; ++b)
        table.push_back(b * kBlockTokens < chunk.end ? s.blocks[b] : -1);
      std::copy(s.q.bytes().begin() + chunk.first * row, s.q.bytes().begin() + chunk.end * row,
                inputs.q.tensor().data + inputs.bytes);
      inputs.bytes += (chunk.end - chunk.first) * row;
    }
    start.resize(sequences + 1, start.back());
    context.resize(sequences, 0);
    table.resize(sequences * blocks_max, -1);
    CHECK(start.back() <= tokens);
    inputs.start = Array::Ints(start);
    inputs.context = Array::Ints(context);
    inputs.table = Array::Ints({sequences, blocks_max}, table);
    return inputs;
  }

  Attention::Args Upload(const Inputs& inputs) {
    Attention::Args args;
    args.q = memory_->Upload(inputs.q);
    args.query_start = memory_->Upload(inputs.start);
    args.context = memory_->Upload(inputs.context);
    args.block_table = memory_->Upload(inputs.table);
    args.kv = kv_;
    args.out = memory_->Upload(Array(desc_.activation, {inputs.q.tensor().dims[0], width()}));
    return args;
  }

  std::vector<std::byte> RowsOf(const Attention::Args& args, const Inputs& inputs) {
    const Array got = memory_->Download(args.out, inputs.q);
    return {got.bytes().begin(), got.bytes().begin() + inputs.bytes};
  }

  // The output rows of the chunks, one behind the other, as bytes.
  std::vector<std::byte> Run(const std::vector<Chunk>& chunks, int padding = 0,
                             int64_t blocks_max = 100) {
    int tokens = padding;
    for (const Chunk& chunk : chunks) tokens += chunk.end - chunk.first;
    const Inputs inputs =
        MakeInputs(chunks, tokens, static_cast<int>(chunks.size()) + padding, blocks_max);
    const Attention::Args args = Upload(inputs);
    const Status status = Call(memory_->stream(), args);
    EXPECT_TRUE(status.ok()) << status.message();
    return RowsOf(args, inputs);
  }

  // The output row of a position that is decoded in so many sequences at once that they are
  // streamed (stream_attention.cuh). All of them have the same.
  std::vector<std::byte> Streamed(int sequence, int position) {
    constexpr int kCopies = 80;
    std::vector<std::byte> rows =
        Run(std::vector<Chunk>(kCopies, Chunk{sequence, position, position + 1}));
    const size_t row = rows.size() / kCopies;
    for (int i = 1; i < kCopies; ++i) {
      EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + row, rows.begin() + i * row)) << i;
    }
    rows.resize(row);
    return rows;
  }

  Status Call(device::Stream& stream, const Attention::Args& args) {
    const auto bound = ops::Bind<Attention>(memory_->device().ops(), desc_);
    return bound.ok() ? (*bound)(stream, args) : bound.status();
  }

  Attention::Desc desc_;
  std::vector<Sequence> sequences_;
  Array k_, v_, k_scale_, v_scale_;
  ops::PagedKv kv_;
};
INSTANTIATE_TEST_SUITE_P(Cuda, AttentionSameness, ::testing::ValuesIn(kKinds),
                         [](const auto& one) { return one.param.name; });

TEST_P(AttentionSameness, ARowIsTheSameAloneAndInAnyBatch) {
  std::vector<Chunk> all;
  for (int s = 0; s < static_cast<int>(sequences_.size()); ++s) {
    const int context = sequences_[s].context;
    all.push_back({s, std::max(0, context - (s % 2 == 0 ? 1 : 40)), context});
  }
  const std::vector<std::byte> together = Run(all), padded = Run(all, 7);
  EXPECT_EQ(together, padded);
  size_t at = 0;
  for (const Chunk& chunk : all) {
    for (const int64_t blocks_max : {100, 1000, 8000}) {
      const std::vector<std::byte> alone = Run({chunk}, 0, blocks_max);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + at))
          << "sequence " << chunk.sequence << " with room for " << blocks_max << " blocks";
    }
    at += Run({chunk}).size();
  }
}

// So many that each warp of the kernel that streams (stream_attention.cuh) takes several items, and
// that not all of the plan is near.
TEST_P(AttentionSameness, DecodeOfManyLongContextsGivesTheBitsOfEachAlone) {
  constexpr int kEnds[] = {1300, 1201, 1025};
  std::vector<std::byte> alone[3];
  for (int i = 0; i < 3; ++i) alone[i] = Run({{2, kEnds[i] - 1, kEnds[i]}});
  for (const int sequences : {60, 260, 700}) {
    std::vector<Chunk> chunks;
    for (int s = 0; s < sequences; ++s) chunks.push_back({2, kEnds[s % 3] - 1, kEnds[s % 3]});
    const std::vector<std::byte> together = Run(chunks);
    for (int s = 0; s < sequences; ++s) {
      const std::vector<std::byte>& row = alone[s % 3];
      EXPECT_TRUE(std::equal(row.begin(), row.end(), together.begin() + s * row.size()))
          << "sequence " << s << " of " << sequences;
    }
  }
}

// Padding may leave a step in the shape of decode with several tokens of a sequence: in a small
// step, and in one that is streamed.
TEST_P(AttentionSameness, SeveralTokensInTheShapeOfDecodeGiveTheBitsOfEachAlone) {
  const std::vector<Chunk> chunks = {{2, 1253, 1257}, {0, 100, 101}, {4, 255, 257}};
  for (const int sequences : {8, 80}) {
    const Inputs inputs = MakeInputs(chunks, sequences - 1, sequences, 100);
    const Attention::Args args = Upload(inputs);
    const Status status = Call(memory_->stream(), args);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(RowsOf(args, inputs), Run(chunks)) << sequences;
  }
}

class AttentionOfF8 : public AttentionSameness {};

std::vector<Kind> KindsOfF8() {
  std::vector<Kind> kinds;
  std::copy_if(std::begin(kKinds), std::end(kKinds), std::back_inserter(kinds),
               [](const Kind& kind) { return kind.kv == DType::kF8E4M3; });
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(Cuda, AttentionOfF8, ::testing::ValuesIn(KindsOfF8()),
                         [](const auto& one) { return one.param.name; });

// Codes of the smallest numbers among them, which the kernel that streams multiplies as numbers
// below the least normal one.
TEST_P(AttentionOfF8, EveryCodeIsTheSameNumberWhereItIsStreamed) {
  uint32_t next = 1;
  for (Array* const cache : {&k_, &v_}) {
    std::byte* const codes = cache->tensor().data;
    for (size_t i = 0; i < cache->Count(); ++i) {
      next = next * 1664525u + 1013904223u;
      const uint32_t value = next >> 24;
      codes[i] = static_cast<std::byte>((value & 0x7fu) == 0x7fu ? 1u : value);  // no NaN
    }
  }
  memory_->Write(kv_.k, k_);
  memory_->Write(kv_.v, v_);
  for (const int position : {699, 200}) {
    const std::vector<std::byte> streamed = Streamed(0, position);
    EXPECT_EQ(streamed, Run({{0, position, position + 1}})) << position;
    const std::vector<std::byte> chunk = Run({{0, position - 9, position + 1}});
    EXPECT_TRUE(std::equal(streamed.begin(), streamed.end(), chunk.end() - streamed.size()))
        << position;
  }
}

// Tables of sequences that share their pages: all splits together have no room for partial results,
// so that a warp takes all splits of some of them.
TEST_P(AttentionSameness, DecodeWithoutRoomForAllSplitsGivesTheBitsOfEachAlone) {
  constexpr int kPages = 2000, kEnd = kPages * kBlockTokens;
  const int64_t slot_bytes = int64_t{4} * desc_.q_heads * (desc_.head_dim + 2);
  const int sequences = static_cast<int>((int64_t{300} << 20) / slot_bytes * 256 / kEnd);
  if (desc_.activation == DType::kF32) GTEST_SKIP() << "plain F32 arithmetic is too slow for it";
  const auto run = [&](int count) {
    Inputs inputs;
    inputs.q = Array(desc_.activation, {count, width()});
    std::vector<int32_t> start = {0}, table;
    for (int s = 0; s < count; ++s) {
      start.push_back(s + 1);
      for (int page = 0; page < kPages; ++page)
        table.push_back(sequences_[2].blocks[page % sequences_[2].blocks.size()]);
      const size_t row = RowBytes(desc_.activation, width());
      std::copy_n(sequences_[2].q.bytes().begin(), row, inputs.q.tensor().data + s * row);
    }
    inputs.bytes = RowBytes(desc_.activation, width()) * count;
    inputs.start = Array::Ints(start);
    inputs.context = Array::Ints(std::vector<int32_t>(count, kEnd));
    inputs.table = Array::Ints({count, kPages}, table);
    const Attention::Args args = Upload(inputs);
    const Status status = Call(memory_->stream(), args);
    EXPECT_TRUE(status.ok()) << status.message();
    return RowsOf(args, inputs);
  };
  const std::vector<std::byte> alone = run(1), together = run(sequences);
  for (int s = 0; s < sequences; ++s) {
    ASSERT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + s * alone.size()))
        << "sequence " << s << " of " << sequences;
  }
}

// Around 32 splits, up to which a warp combines a row: a table that ends with the context, and one
// with room for twice as much.
TEST_P(AttentionSameness, TheWidthOfTheTableChangesNoBit) {
  const auto run = [&](int context, int pages) {
    Inputs inputs;
    inputs.q = Array(desc_.activation, {1, width()});
    std::vector<int32_t> table;
    for (int page = 0; page < pages; ++page)
      table.push_back(sequences_[2].blocks[page % sequences_[2].blocks.size()]);
    inputs.bytes = RowBytes(desc_.activation, width());
    std::copy_n(sequences_[2].q.bytes().begin(), inputs.bytes, inputs.q.tensor().data);
    inputs.start = Array::Ints({0, 1});
    inputs.context = Array::Ints({context});
    inputs.table = Array::Ints({1, pages}, table);
    const Attention::Args args = Upload(inputs);
    const Status status = Call(memory_->stream(), args);
    EXPECT_TRUE(status.ok()) << status.message();
    return RowsOf(args, inputs);
  };
  for (const int context : {8000, 8192, 8193, 8208, 8400, 8449}) {
    const int pages = (context + kBlockTokens - 1) / kBlockTokens;
    EXPECT_EQ(run(context, pages), run(context, 2 * pages)) << context;
  }
}

TEST_P(AttentionSameness, DecodeVerifyAndPrefillGiveTheSameBits) {
  if (!desc_.causal) return;  // a row sees its whole context: a chunk's end changes it
  const Sequence& s = sequences_[2];
  const size_t row = RowBytes(desc_.activation, width());
  const std::vector<std::byte> whole = Run({{2, 0, s.context}});
  std::vector<std::byte> chunks;
  for (int first = 0, size = 37; first < s.context; size = size * 2 + 1) {
    const int end = std::min(s.context, first + size);
    const std::vector<std::byte> part = Run({{2, first, end}});
    chunks.insert(chunks.end(), part.begin(), part.end());
    first = end;
  }
  EXPECT_EQ(chunks, whole);
  for (const int position : {0, 1, 63, 64, 255, 256, 257, 511, 640, 1023, 1299}) {
    const std::vector<std::byte> expected(whole.begin() + position * row,
                                          whole.begin() + (position + 1) * row);
    for (const int64_t blocks_max : {100, 8000}) {
      EXPECT_EQ(Run({{2, position, position + 1}}, 0, blocks_max), expected)
          << "decode at " << position << " with room for " << blocks_max << " blocks";
    }
    EXPECT_EQ(Streamed(2, position), expected) << "decode of many at " << position;
    const int first = std::max(0, position - 4);
    const std::vector<std::byte> verify = Run({{0, 650, 700}, {2, first, position + 1}});
    EXPECT_TRUE(std::equal(verify.begin() + 50 * row, verify.end(), whole.begin() + first * row))
        << "verify at " << position;
  }
}

// A step with a tree beside decode and a chunk: positions 624 to 627 follow position 623, and so do
// three others, whose KV lies behind theirs.
TEST_P(AttentionSameness, RowsAsideHaveTheBitsOfTheirAncestorsInARow) {
  if (!desc_.causal) {  // which trees have: nothing takes them
    desc_.paths = true;
    const auto bound = ops::Bind<Attention>(memory_->device().ops(), desc_);
    ASSERT_FALSE(bound.ok());
    EXPECT_NE(bound.status().message().find("causal mask"), std::string::npos);
    return;
  }
  constexpr int kRoot = 623, kBranch = 5, kAside = 3, kPlace = kRoot + kBranch;
  Sequence other = {kRoot + 1 + kAside, sequences_[0].blocks, sequences_[0].q};
  other.blocks[(kRoot + 1) / kBlockTokens] = sequences_[2].blocks.back();
  const auto row = static_cast<int64_t>(RowBytes(desc_.activation, width()));
  for (int i = 0; i < kAside; ++i) {
    CopyKv(sequences_[0], kPlace + i, other, kRoot + 1 + i);
    std::copy_n(sequences_[0].q.tensor().data + (kPlace + i) * row, row,
                other.q.tensor().data + (kRoot + 1 + i) * row);
  }
  const int index = static_cast<int>(sequences_.size());
  sequences_.push_back(other);
  const std::vector<std::byte> branch = Run({{0, kRoot, kPlace}});
  const std::vector<std::byte> aside = Run({{index, kRoot + 1, kRoot + 1 + kAside}});

  const std::vector<Chunk> chunks = {{4, 256, 257}, {0, kRoot, kPlace + kAside}, {2, 0, 400}};
  const Inputs inputs = MakeInputs(chunks, 1 + kBranch + kAside + 400 + 3, 5, 100);
  const int64_t tokens = inputs.q.tensor().dims[0];
  Array paths =
      Array::Ints({tokens, ops::kPathNumbers},
                  std::vector<int32_t>(static_cast<size_t>(tokens * ops::kPathNumbers), 0));
  const std::vector<int32_t> parents = {0, 1, 2, 3, 0, 5, 6};
  ops::WritePaths(parents, paths.tensor().ptr<int32_t>() + ops::kPathNumbers);
  desc_.paths = true;
  Attention::Args args = Upload(inputs);
  args.paths = memory_->Upload(paths);
  const Status status = Call(memory_->stream(), args);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<std::byte> got = RowsOf(args, inputs);
  const auto tree = got.begin() + row;
  EXPECT_TRUE(std::equal(branch.begin(), branch.end(), tree));
  EXPECT_TRUE(std::equal(aside.begin(), aside.end(), tree + kBranch * row));
}

TEST_P(AttentionSameness, WhatARowDoesNotSeeDoesNotChangeItsBits) {
  if (!desc_.causal) return;  // a row sees all of its sequence
  const size_t row = RowBytes(desc_.activation, width());
  const std::vector<std::byte> clean = Run({{2, 0, 700}});
  // Rows [first, end) of `got`, whose first row is that of position `from`.
  const auto same = [&](const std::vector<std::byte>& got, int from, int first, int end) {
    return std::equal(got.begin() + (first - from) * row, got.begin() + (end - from) * row,
                      clean.begin() + first * row);
  };
  Spoil(2, 655, 1300);  // what comes later, and stale slots of blocks
  EXPECT_TRUE(same(Run({{2, 0, 700}}), 0, 0, 655));
  EXPECT_TRUE(same(Run({{2, 600, 700}}), 600, 600, 655));
  EXPECT_TRUE(same(Run({{2, 651, 657}}), 651, 651, 655)) << "verify";
  EXPECT_TRUE(same(Run({{2, 654, 655}}), 654, 654, 655)) << "decode";
  EXPECT_TRUE(same(Streamed(2, 654), 654, 654, 655)) << "decode of many";
  EXPECT_FALSE(same(Run({{2, 600, 700}}), 600, 655, 700)) << "nothing was spoilt";
  if (desc_.window == 0) return;
  Spoil(2, 0, 200);  // what a window has passed
  const int first = 199 + desc_.window;
  EXPECT_TRUE(same(Run({{2, 0, 700}}), 0, first, 655));
  EXPECT_TRUE(same(Run({{2, first - 5, 655}}), first - 5, first, 655));
  EXPECT_TRUE(same(Streamed(2, 654), 654, 654, 655)) << "decode of many";
}

// Other kernels would give other bits: a call that the bound one can't take is an error.
TEST_P(AttentionSameness, RowsAtOddPlacesAreRefused) {
  if (desc_.activation == DType::kF32) return;  // any_f32_attention takes them
  const Attention::Args args = Upload(MakeInputs({{1, 0, 1}}, 1, 1, 1));
  ASSERT_TRUE(Call(memory_->stream(), args).ok());
  Attention::Args odd = args;
  odd.q.data += Info(desc_.activation).bytes;
  EXPECT_EQ(Call(memory_->stream(), odd).code(), StatusCode::kInvalidArgument);
  odd = args;
  odd.kv.v.data += 4 * Info(desc_.kv.dtype).bytes;
  EXPECT_EQ(Call(memory_->stream(), odd).code(), StatusCode::kInvalidArgument);
}

// As the layers of a model do: the first plans, the others follow. The plan is made anew in the
// next step, whatever the one before has left.
TEST_P(AttentionSameness, LayersOfAStepShareItsPlan) {
  const std::vector<Chunk> steps[] = {{{0, 699, 700}, {2, 1299, 1300}, {3, 0, 64}},
                                      {{2, 900, 1000}, {0, 255, 256}, {4, 200, 210}}};
  ops::Tensor plan = memory_->Upload(
      Array::Ints(std::vector<int32_t>(static_cast<size_t>(ops::AttentionPlanNumbers(3)), 77)));
  for (const std::vector<Chunk>& chunks : steps) {
    const std::vector<std::byte> expected = Run(chunks);
    const Inputs inputs = MakeInputs(chunks, 111, 3, 100);
    for (int layer = 0; layer < 3; ++layer) {
      Attention::Args args = Upload(inputs);
      args.plan = plan;
      args.planned = layer > 0;
      ASSERT_TRUE(Call(memory_->stream(), args).ok());
      EXPECT_EQ(RowsOf(args, inputs), expected) << layer;
    }
  }
}

TEST_P(AttentionSameness, AReplayedGraphSeesOtherLengthsRowsAndBlocks) {
  constexpr int kTokens = 12, kSequences = 5, kBlocks = 100;
  const Inputs first = MakeInputs({{0, 699, 700}, {2, 1299, 1300}}, kTokens, kSequences, kBlocks);
  const Attention::Args args = Upload(first);
  ASSERT_TRUE(Call(memory_->stream(), args).ok());
  auto graph = memory_->device().Capture(
      memory_->stream(), nullptr, [&](device::Stream& stream) { return Call(stream, args); });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const std::vector<Chunk> steps[] = {
      {{4, 256, 257}, {2, 900, 905}, {1, 0, 1}, {0, 20, 21}, {3, 60, 64}},
      {{2, 1288, 1300}},
      {{1, 0, 1}},
      {{0, 255, 256}, {2, 511, 512}, {4, 0, 10}},
  };
  for (const std::vector<Chunk>& chunks : steps) {
    const Inputs inputs = MakeInputs(chunks, kTokens, kSequences, kBlocks);
    memory_->Write(args.q, inputs.q);
    memory_->Write(args.query_start, inputs.start);
    memory_->Write(args.context, inputs.context);
    memory_->Write(args.block_table, inputs.table);
    ASSERT_TRUE((*graph)->Replay(memory_->stream(), {}).ok());
    EXPECT_EQ(RowsOf(args, inputs), Run(chunks));
  }
}

// In parts, so that processes can share them: the reference takes its time.
class AttentionConformance : public CudaTest, public ::testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, AttentionConformance, ::testing::Range(uint64_t{11}, uint64_t{19}));

TEST_P(AttentionConformance, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterAttention, 50, GetParam()), "");
}

}  // namespace
}  // namespace sluice::cuda
