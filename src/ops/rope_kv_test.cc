#include "ops/rope_kv.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

constexpr int kBlocks = 6, kRopeBlockTokens = 4, kTokens = 5, kPositions = 40;

// One call with everything it needs; q_heads 3, kv_heads 2.
struct RopeCall {
  explicit RopeCall(RopeKv::Desc d, uint64_t seed = 1) : desc(d) {
    desc.q_heads = 3;
    desc.kv_heads = 2;
    desc.kv.kv_heads = 2;
    desc.kv.k_head_dim = desc.head_dim;
    desc.kv.kernel_block_tokens = kRopeBlockTokens;
    TestNoise noise(seed);
    qkv = Array(desc.activation, {kTokens, 7 * desc.head_dim});
    noise.Fill(qkv);
    table = Array(DType::kF32, {kPositions, desc.rotary_dims});
    std::vector<double> frequencies;
    for (int i = 0; i < desc.rotary_dims / 2; ++i)
      frequencies.push_back(std::pow(100.0, -2.0 * i / desc.rotary_dims));
    FillRopeTable(frequencies, 1.0, kPositions, table.tensor().ptr<float>());
    k = Array(desc.kv.dtype, {kBlocks, 2, kRopeBlockTokens, desc.head_dim});
    v = Array(desc.kv.dtype, {kBlocks, 2, kRopeBlockTokens, desc.kv.v_head_dim});
    k_scale = v_scale = Array(DType::kF32, {kBlocks, 2, kRopeBlockTokens});
    q_out = Array(desc.activation, {kTokens, 3 * desc.head_dim});
  }
  RopeKv::Args args() {
    RopeKv::Args a{.qkv = qkv.tensor(),
                   .positions = positions.tensor(),
                   .table = table.tensor(),
                   .slots = slots.tensor()};
    if (desc.form != RopeKvForm::kPrefillQkvOut) a.q_out = q_out.tensor();
    a.kv.k = k.tensor();
    if (desc.kv.v_head_dim > 0) a.kv.v = v.tensor();
    if (KvHasScales(desc.kv.dtype)) a.kv.k_scale = k_scale.tensor();
    if (KvHasScales(desc.kv.dtype) && desc.kv.v_head_dim > 0) a.kv.v_scale = v_scale.tensor();
    return a;
  }
  // Element i of head h of token t, rotated, in double, from what qkv held in `before`.
  double Rotated(const Array& before, int t, int h, int i) {
    const int first = (t * 7 + h) * desc.head_dim, pairs = desc.rotary_dims / 2;
    const double x = before.At(first + i);
    if (i >= desc.rotary_dims) return x;
    const int pair = desc.interleaved ? i / 2 : i % pairs;
    const bool is_first = desc.interleaved ? i % 2 == 0 : i < pairs;
    const int step = desc.interleaved ? 1 : pairs;
    const double other = before.At(first + (is_first ? i + step : i - step));
    const double angle = positions.Int(t) * std::pow(100.0, -2.0 * pair / desc.rotary_dims);
    return is_first ? x * std::cos(angle) - other * std::sin(angle)
                    : other * std::sin(angle) + x * std::cos(angle);
  }
  // Which row of the cache a token has for a KV head.
  int RowOf(int t, int head) {
    const int slot = slots.Int(t);
    return (slot / kRopeBlockTokens * 2 + head) * kRopeBlockTokens + slot % kRopeBlockTokens;
  }
  float Kept(const Array& cache, const Array& scale, int width, int t, int head, int i) {
    const float value = cache.At(RowOf(t, head) * width + i);
    return KvHasScales(desc.kv.dtype) ? value * scale.At(RowOf(t, head)) : value;
  }
  // What the cache makes of a V that stands in `before` at `first`.
  float Rounded(const Array& before, int first, int i) {
    const float x = before.At(first + i);
    if (!KvHasScales(desc.kv.dtype)) return RoundTo(desc.kv.dtype, x);
    float largest = 0.0f;
    for (int j = 0; j < desc.kv.v_head_dim; ++j)
      largest = std::max(largest, std::abs(before.At(first + j)));
    const float scale = largest / (desc.kv.dtype == DType::kI8 ? 127.0f : 448.0f);
    Array code(desc.kv.dtype, {1});
    code.Set(0, x / scale);
    return code.At(0) * scale;
  }

  RopeKv::Desc desc;
  Array qkv, table, k, v, k_scale, v_scale, q_out;
  Array positions = Array::Ints({0, 1, 17, 39, 3});
  Array slots = Array::Ints({0, 23, 9, -1, 14});
};

// Rotated numbers are at most 1.42.
double StepOf(DType dtype) {
  if (dtype == DType::kF8E4M3) return 1.42 / 28;
  if (dtype == DType::kI8) return 1.42 / 254;
  return dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 1e-3 : 8e-3;
}

class RopeKvTest : public OpTest {
 protected:
  void Check(RopeCall call) {
    const Array before = call.qkv;
    const int d = call.desc.head_dim;
    ASSERT_TRUE(Run<RopeKv>(call.desc, call.args()).ok());
    const bool keep = call.desc.form == RopeKvForm::kPrefillQkvOut;
    const double step = StepOf(call.desc.activation);
    const double kv_step = step + StepOf(call.desc.kv.dtype);
    for (int t = 0; t < kTokens; ++t) {
      for (int h = 0; h < 7; ++h) {
        for (int i = 0; i < d; ++i) {
          const double expected =
              h < 5 ? call.Rotated(before, t, h, i) : before.At((t * 7 + h) * d + i);
          const float left = call.qkv.At((t * 7 + h) * d + i);
          if (keep) {
            EXPECT_NEAR(left, expected, step);
          } else {
            EXPECT_EQ(left, before.At((t * 7 + h) * d + i)) << "qkv changed";
          }
          if (!keep && h < 3) {
            EXPECT_NEAR(call.q_out.At((t * 3 + h) * d + i), expected, step);
          }
          if (call.slots.Int(t) < 0 || h < 3) continue;
          if (h < 5) {
            EXPECT_NEAR(call.Kept(call.k, call.k_scale, d, t, h - 3, i), expected, kv_step);
          }
          if (h >= 5 && i < call.desc.kv.v_head_dim) {
            EXPECT_EQ(call.Kept(call.v, call.v_scale, call.desc.kv.v_head_dim, t, h - 5, i),
                      call.Rounded(before, (t * 7 + h) * d, i));
          }
        }
      }
    }
    for (const Array* cache : {&call.k, &call.v, &call.k_scale, &call.v_scale}) {
      size_t written = 0;
      for (size_t i = 0; i < cache->Count(); ++i) written += cache->At(i) != 0.0f;
      EXPECT_LE(written, cache->Count() / (kBlocks * kRopeBlockTokens) * 4) << "a slot too many";
    }
  }
};
SLUICE_FOR_EACH_INSTRUCTION_SET(RopeKvTest);

TEST_P(RopeKvTest, EveryFormStyleTypeAndWidth) {
  for (RopeKvForm form :
       {RopeKvForm::kPrefillQkvOut, RopeKvForm::kPrefillQOut, RopeKvForm::kDecode}) {
    for (DType kv : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
      for (DType activation : {DType::kF32, DType::kBF16, DType::kF16}) {
        for (int head_dim : {6, 32, 64, 80}) {
          for (int rotary : {0, head_dim, head_dim / 4 * 2}) {
            for (bool interleaved : {false, true}) {
              RopeKv::Desc desc{.form = form,
                                .activation = activation,
                                .head_dim = head_dim,
                                .rotary_dims = rotary,
                                .interleaved = interleaved};
              desc.kv.dtype = kv;
              desc.kv.v_head_dim = head_dim;
              Check(RopeCall(desc));
            }
          }
        }
      }
    }
  }
}

TEST_P(RopeKvTest, VMayBeNarrowerOrAbsent) {
  for (DType kv : {DType::kF16, DType::kI8, DType::kF8E4M3}) {
    for (int v_head_dim : {0, 4, 20}) {
      RopeKv::Desc desc{.head_dim = 32, .rotary_dims = 32};
      desc.kv.dtype = kv;
      desc.kv.v_head_dim = v_head_dim;
      Check(RopeCall(desc));
    }
  }
}

// Runs rows of V through the op; [row, i].
class KeptRowsTest : public OpTest {
 protected:
  void Keep(DType kv, const std::vector<std::vector<float>>& rows) {
    const int count = static_cast<int>(rows.size()), width = static_cast<int>(rows[0].size());
    RopeKv::Desc desc{.q_heads = 1, .kv_heads = 1, .head_dim = width};
    desc.kv = {kv, 1, width, width, 1};
    Array qkv(DType::kF32, {count, 3 * width}), q_out(DType::kF32, {count, width});
    std::vector<int32_t> numbers;
    for (int r = 0; r < count; ++r) {
      for (int i = 0; i < width; ++i) qkv.Set((r * 3 + 2) * width + i, rows[r][i]);
      numbers.push_back(r);
    }
    const Array slots = Array::Ints(numbers);
    codes = Array(kv, {count, 1, 1, width});
    scales = Array(DType::kF32, {count, 1, 1});
    Array k = codes, k_scale = scales;
    k_scale.Fill(7.0f);
    RopeKv::Args args{.qkv = qkv.tensor(), .positions = slots.tensor(), .slots = slots.tensor()};
    args.q_out = q_out.tensor();
    args.kv = {k.tensor(), codes.tensor(), k_scale.tensor(), scales.tensor()};
    ASSERT_TRUE(Run<RopeKv>(desc, args).ok());
    for (int r = 0; r < count; ++r) EXPECT_EQ(k_scale.At(r), 0.0f);  // K is all zeros
  }
  void ExpectRow(int row, float scale, const std::vector<float>& expected) {
    EXPECT_EQ(scales.At(row), scale);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(codes.At(row * expected.size() + i), expected[i]) << "row " << row << " at " << i;
  }
  Array codes, scales;
};
SLUICE_FOR_EACH_INSTRUCTION_SET(KeptRowsTest);

TEST_P(KeptRowsTest, CodesAreRoundedToNearestAndTiesToEven) {
  Keep(DType::kI8,
       {{127, 0.5f, 1.5f, 2.5f, -0.5f, -126.5f, -1.5f, 3.49f}, {-508, 4, 2, 6, -6, 507, 1.9f, 0}});
  ExpectRow(0, 1.0f, {127, 0, 2, 2, 0, -126, -2, 3});
  ExpectRow(1, 4.0f, {-127, 1, 0, 2, -2, 127, 0, 0});
  Keep(DType::kF8E4M3, {{448, 17, 19, -19, 0x1p-10f, 0x3p-10f, 0x1p-6f, 0x1p-6f - 0x1p-11f},
                        {-224, 8.5f, 9.5f, 215.9f, 216.1f, 0x1p-10f, 0x1.fp-8f, 0}});
  ExpectRow(0, 1.0f, {448, 16, 20, -20, 0, 0x1p-8f, 0x1p-6f, 0x1p-6f});
  ExpectRow(1, 0.5f, {-448, 16, 20, 416, 448, 0x1p-9f, 0x1p-6f, 0});
}

TEST_P(KeptRowsTest, ZerosAndWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (DType kv : {DType::kI8, DType::kF8E4M3}) {
    std::vector<std::vector<float>> rows(7, std::vector<float>(20, 1.0f));
    rows[0].assign(20, 0.0f);
    rows[1].assign(20, 1e-45f);  // the scale would be less than a float can be
    rows[2][19] = nan;
    rows[3][0] = -nan;
    rows[4][7] = infinity;
    rows[5][16] = -infinity;
    rows[6].assign(20, std::numeric_limits<float>::max());
    Keep(kv, rows);
    for (int row = 0; row < 6; ++row) {
      EXPECT_EQ(std::isnan(scales.At(row)), row >= 2) << row;
      if (row < 2) {
        EXPECT_EQ(scales.At(row), 0.0f);
      }
      for (int i = 0; i < 20; ++i) EXPECT_EQ(codes.At(row * 20 + i), 0.0f) << row;
    }
    for (int i = 0; i < 20; ++i) EXPECT_EQ(codes.At(6 * 20 + i), KvCodeMax(kv));
  }
}

TEST_P(KeptRowsTest, EveryInstructionSetKeepsTheBitsOfTheReferenceRowByRow) {
  TestNoise noise(3);
  std::vector<std::vector<float>> rows(300, std::vector<float>(37));
  for (auto& row : rows) {
    const int shift = static_cast<int>(noise.Below(240)) - 130;  // some are subnormal
    for (float& x : row) x = std::ldexp(noise.Value(), shift + static_cast<int>(noise.Below(18)));
  }
  for (DType kv : {DType::kI8, DType::kF8E4M3}) {
    Keep(kv, rows);
    Array expected(kv, {300, 37}), expected_scales(DType::kF32, {300});
    for (int r = 0; r < 300; ++r) {
      StoreKvRow(kv, rows[r].data(), 37, expected.tensor().data, r * 37,
                 expected_scales.tensor().ptr<float>() + r);
    }
    EXPECT_EQ(codes.bytes(), expected.bytes());
    EXPECT_EQ(scales.bytes(), expected_scales.bytes());
  }
}

TEST_P(RopeKvTest, FormsKeepTheSameBitsInTheCache) {
  for (auto [activation, kv] : {std::pair{DType::kF32, DType::kF16},
                                {DType::kBF16, DType::kF16},
                                {DType::kF32, DType::kI8},
                                {DType::kBF16, DType::kF8E4M3}}) {
    RopeKv::Desc desc{.activation = activation, .head_dim = 64, .rotary_dims = 64};
    desc.kv.dtype = kv;
    desc.kv.v_head_dim = 64;
    desc.form = RopeKvForm::kPrefillQkvOut;
    RopeCall all(desc);
    desc.form = RopeKvForm::kDecode;
    RopeCall decode(desc);
    ASSERT_TRUE(Run<RopeKv>(all.desc, all.args()).ok());
    ASSERT_TRUE(Run<RopeKv>(decode.desc, decode.args()).ok());
    EXPECT_EQ(all.k, decode.k);
    EXPECT_EQ(all.v, decode.v);
    EXPECT_EQ(all.k_scale, decode.k_scale);
    EXPECT_EQ(all.v_scale, decode.v_scale);
    for (int t = 0; t < kTokens; ++t) {
      for (int i = 0; i < 3 * 64; ++i)
        EXPECT_EQ(all.qkv.At(t * 7 * 64 + i), decode.q_out.At(t * 3 * 64 + i));
    }
  }
}

TEST_P(RopeKvTest, WithoutRotationTheTableIsNeverRead) {
  RopeKv::Desc desc{.head_dim = 16, .rotary_dims = 0};
  desc.kv.v_head_dim = 16;
  RopeCall call(desc);
  RopeKv::Args args = call.args();
  args.table = Array(DType::kF32, {1, 16}).tensor();
  args.table.data = nullptr;
  const Array positions = Array::Ints({-5, 1 << 30, 0, 7, 9});
  args.positions = positions.tensor();
  ASSERT_TRUE(Run<RopeKv>(call.desc, args).ok());
  for (int i = 0; i < 48; ++i) EXPECT_EQ(call.q_out.At(i), call.qkv.At(i));
}

TEST_P(RopeKvTest, WhatIsMissingOrOutsideIsAnErrorAndNothingIsWritten) {
  RopeKv::Desc desc{.head_dim = 16, .rotary_dims = 16};
  desc.kv.v_head_dim = 16;
  RopeCall call(desc);
  const Array k = call.k, q_out = call.q_out;
  const auto refused = [&](RopeKv::Args args, const char* why) {
    EXPECT_THAT(Run<RopeKv>(call.desc, args).message(), HasSubstr(why));
    EXPECT_EQ(call.k, k);
    EXPECT_EQ(call.q_out, q_out);
  };
  RopeKv::Args args = call.args();
  args.slots = Tensor();
  refused(args, "slots is missing");
  args = call.args();
  args.slots.data = nullptr;
  refused(args, "slots is null");
  args = call.args();
  args.table = Tensor();
  refused(args, "table is missing");
  args = call.args();
  args.q_out = Tensor();
  refused(args, "q_out is missing");
  args = call.args();
  args.kv.v = Tensor();
  refused(args, "v is missing");
  args = call.args();
  args.kv.k_scale = call.table.tensor();
  refused(args, "k_scale is given");
  args = call.args();
  args.kv.k.dims[2] = 8;
  refused(args, "expected F16");
  args = call.args();
  args.q_out.data = call.qkv.tensor().data;
  refused(args, "overlap");
  for (int32_t bad : {-2, kBlocks * kRopeBlockTokens}) {
    call.slots.Int(3) = bad;
    refused(call.args(), "slots[3]");
  }
  call.slots.Int(3) = -1;
  for (int32_t bad : {-1, kPositions}) {
    call.positions.Int(2) = bad;
    refused(call.args(), "positions[2]");
  }
}

TEST_P(RopeKvTest, CodesWithoutScalesAreRefused) {
  RopeKv::Desc desc{.head_dim = 16, .rotary_dims = 16};
  desc.kv.dtype = DType::kI8;
  desc.kv.v_head_dim = 16;
  RopeCall call(desc);
  RopeKv::Args args = call.args();
  args.kv.k_scale = Tensor();
  EXPECT_THAT(Run<RopeKv>(call.desc, args).message(), HasSubstr("k_scale is missing"));
  args = call.args();
  args.kv.v_scale.dims[1] = 1;
  EXPECT_THAT(Run<RopeKv>(call.desc, args).message(), HasSubstr("v_scale"));
}

TEST_P(RopeKvTest, UnsupportedDescriptorsSayWhy) {
  RopeKv::Desc good{.head_dim = 16, .rotary_dims = 16};
  good.kv.v_head_dim = 16;
  const RopeCall call(good);
  const auto reason = [&](auto&& change) {
    RopeKv::Desc desc = call.desc;
    change(desc);
    return Bind<RopeKv>(device_->ops(), desc).status().message();
  };
  EXPECT_THAT(reason([](auto& d) { d.rotary_dims = 7; }), HasSubstr("must be even"));
  EXPECT_THAT(reason([](auto& d) { d.rotary_dims = 18; }), HasSubstr("at most head_dim"));
  EXPECT_THAT(reason([](auto& d) { d.kv.dtype = DType::kQ8_0; }), HasSubstr("KV of Q8_0"));
  EXPECT_THAT(reason([](auto& d) { d.kv.k_head_dim = 8; }), HasSubstr("other heads"));
  EXPECT_THAT(reason([](auto& d) { d.kv.v_head_dim = 17; }), HasSubstr("V width"));
}

TEST_P(RopeKvTest, TheEmptyBatchIsFine) {
  RopeKv::Desc desc{.head_dim = 16, .rotary_dims = 16};
  desc.kv.v_head_dim = 16;
  RopeCall call(desc);
  RopeKv::Args args = call.args();
  for (Tensor* t : {&args.qkv, &args.positions, &args.slots, &args.q_out}) {
    t->dims[0] = 0;
    t->data = nullptr;
  }
  EXPECT_TRUE(Run<RopeKv>(call.desc, args).ok());
}

TEST(RopeTableTest, HoldsCosinesThenSinesInFullPrecision) {
  const double frequencies[] = {1.0, 1e-4};
  std::vector<float> table(3 * 4);
  FillRopeTable(frequencies, 2.0, 3, table.data());
  EXPECT_EQ(table[0], 2.0f);
  EXPECT_EQ(table[2], 0.0f);
  EXPECT_EQ(table[8], static_cast<float>(2.0 * std::cos(2.0)));
  EXPECT_EQ(table[11], static_cast<float>(2.0 * std::sin(2e-4)));
}

// As layers have it that read the K and V of others.
TEST_P(RopeKvTest, WithoutKvHeadsThereIsOnlyQAndNothingIsKept) {
  RopeKv::Desc desc = {.head_dim = 32, .rotary_dims = 16};
  desc.kv.v_head_dim = 32;
  RopeCall all(desc), own(desc);
  own.desc.kv_heads = own.desc.kv.kv_heads = 0;
  own.slots = Array::Ints({0, 1000000, 9, -1, 14});  // leads nowhere, and nobody follows it
  RopeKv::Args args = own.args();
  args.qkv = args.qkv.Columns(0, 3 * 32);
  args.kv = {};
  const Array before = own.qkv;
  ASSERT_TRUE(Run<RopeKv>(own.desc, args).ok());
  ASSERT_TRUE(Run<RopeKv>(all.desc, all.args()).ok());
  EXPECT_EQ(own.q_out, all.q_out);
  EXPECT_EQ(own.qkv, before);
}

}  // namespace
}  // namespace sluice::ops
