#include "backend/xpu/linear/config.h"

#include <gtest/gtest.h>

#include "backend/xpu/linear/pack.h"

namespace sluice::xpu {
namespace {

ops::Linear::Desc Matrix(DType weight, int64_t n, int64_t k) {
  ops::Linear::Desc desc;
  desc.weight = weight;
  desc.n = n;
  desc.k = k;
  return desc;
}

device::DeviceFacts Facts(bool on_host) {
  device::DeviceFacts facts;
  facts.on_host_processor = on_host;
  return facts;
}

// A group has `items` times kPackedRows rows of W and the rows of x that its kernel's name says.
TEST(XpuLinearConfigTest, GroupsCoverTheOutputOnce) {
  for (const bool on_host : {false, true}) {
    for (const int64_t n : {1, 16, 17, 255, 256, 257, 49152}) {
      for (const int64_t m : {1, 2, 4, 5, 64, 1001}) {
        const LinearConfig config = ConfigureLinear(Matrix(DType::kQ4_1, n, 64), m, Facts(on_host));
        const auto width = static_cast<int64_t>(config.shape.items) * kPackedRows;
        const int64_t rows = std::string(config.function).back() - '0';
        const auto columns = static_cast<int64_t>(config.shape.groups[0]);
        const auto lines = static_cast<int64_t>(config.shape.groups[1]);
        EXPECT_TRUE(columns * width >= n && (columns - 1) * width < n) << n;
        EXPECT_TRUE(lines * rows >= m && (lines - 1) * rows < m) << m;
        EXPECT_EQ(config.shape.groups[2], 1u);
        EXPECT_EQ(config.shape.items, on_host ? 1u : 16u);
      }
    }
  }
}

TEST(XpuLinearConfigTest, ALoneRowHasItsOwnKernel) {
  const ops::Linear::Desc desc = Matrix(DType::kBF16, 100, 64);
  EXPECT_STREQ(ConfigureLinear(desc, 1, Facts(true)).function, "any_f32_linear_1");
  EXPECT_STREQ(ConfigureLinear(desc, 2, Facts(true)).function, "any_f32_linear_4");
}

// Programs are compiled when first used: what changes from step to step, or from layer to layer,
// must not make another one.
TEST(XpuLinearConfigTest, ProgramsAreOfTypesAlone) {
  for (const DType weight : {DType::kF32, DType::kBF16, DType::kQ4_1, DType::kQ6_K}) {
    const std::string options = ConfigureLinear(Matrix(weight, 64, 256), 1, Facts(false)).options;
    EXPECT_EQ(ConfigureLinear(Matrix(weight, 4096, 14336), 1, Facts(false)).options, options);
    EXPECT_EQ(ConfigureLinear(Matrix(weight, 64, 256), 300, Facts(false)).options, options);
    EXPECT_NE(ConfigureLinear(Matrix(weight, 64, 256), 1, Facts(true)).options, options);
    ops::Linear::Desc other = Matrix(weight, 64, 256);
    other.bias = true;
    EXPECT_NE(ConfigureLinear(other, 1, Facts(false)).options, options);
    other.activation = DType::kBF16;
    EXPECT_NE(ConfigureLinear(other, 1, Facts(false)).options.find("ACT=bf16"), std::string::npos);
  }
  EXPECT_NE(ConfigureLinear(Matrix(DType::kQ4_0, 64, 256), 1, Facts(false)).options,
            ConfigureLinear(Matrix(DType::kQ4_1, 64, 256), 1, Facts(false)).options);
}

TEST(XpuLinearConfigTest, ScalesOfF8HaveProgramsByWhatTheyCover) {
  ops::Linear::Desc desc = Matrix(DType::kF8E4M3, 64, 256);
  EXPECT_EQ(ConfigureLinear(desc, 1, Facts(false)).options.find("SCALES"), std::string::npos);
  desc.weight_scales = ops::WeightScales::kRow;
  EXPECT_TRUE(ConfigureLinear(desc, 1, Facts(false)).options.ends_with("-D PLAIN=f8 -D SCALES=2"));
  desc.weight_scales = ops::WeightScales::kBlock;
  EXPECT_TRUE(ConfigureLinear(desc, 1, Facts(false)).options.ends_with("-D PLAIN=f8 -D SCALES=3"));
}

TEST(XpuLinearConfigTest, BlockFormatsWithScalesOrAnOrderHaveTheirOwn) {
  ops::Linear::Desc desc = Matrix(DType::kNVFP4, 64, 256);
  desc.weight_scales = ops::WeightScales::kTensor;
  EXPECT_TRUE(ConfigureLinear(desc, 1, Facts(false))
                  .options.ends_with("-D NIBBLE=1 -D E2M1=1 -D SUB=16 -D OFFSET=0 -D MINIMUM=0 "
                                     "-D SCALE=f16 -D SCALES=1"));
  desc = Matrix(DType::kI8, 64, 256);
  desc.weight_scales = ops::WeightScales::kRow;
  EXPECT_TRUE(ConfigureLinear(desc, 1, Facts(false)).options.ends_with("-D PLAIN=i8 -D SCALES=2"));
  EXPECT_EQ(PackedBytes(desc), size_t{64 * 256});
  desc = Matrix(DType::kQ4_1, 64, 256);
  desc.ordered = true;
  EXPECT_TRUE(ConfigureLinear(desc, 1, Facts(false)).options.ends_with("-D ORDERED=1"));
}

// Floats of four bits stay in four: with their scales they take five bits each.
TEST(XpuLinearConfigTest, FloatsOfFourBitsAreNibbles) {
  EXPECT_EQ(PackedBytes(Matrix(DType::kNVFP4, 16, 64)), size_t{16 * 64 * 5 / 8});
  EXPECT_EQ(PackedBytes(Matrix(DType::kMXFP4, 16, 64)), size_t{16 * 64 * 5 / 8});
}

TEST(XpuLinearConfigTest, PlacesOfExpertsAreTakenTogetherWhereMostHaveSeveral) {
  const ops::GroupedLinear::Desc desc = {.each = Matrix(DType::kQ4_1, 96, 256), .experts = 8};
  for (const int64_t places : {1, 16, 17, 18, 300}) {
    const LinearConfig config = ConfigureGroupedLinear(desc, places, Facts(false));
    const int64_t rows = places <= 16 ? 1 : 4;
    EXPECT_EQ(std::string(config.function).back() - '0', rows) << places;
    EXPECT_EQ(config.shape.groups[0], 1u);  // six groups of 16 outputs for 16 work-items
    EXPECT_EQ(static_cast<int64_t>(config.shape.groups[1]), (places + rows - 1) / rows);
  }
  EXPECT_EQ(ConfigureGroupedLinear(desc, 1, Facts(false)).options,
            ConfigureGroupedLinear(desc, 300, Facts(false)).options);
}

TEST(XpuLinearConfigTest, OnlyTheHostsProcessorIsAskedAhead) {
  const ops::Linear::Desc desc = Matrix(DType::kQ8_0, 64, 256);
  EXPECT_NE(ConfigureLinear(desc, 1, Facts(false)).options.find("AHEAD=0 "), std::string::npos);
  EXPECT_EQ(ConfigureLinear(desc, 1, Facts(true)).options.find("AHEAD=0 "), std::string::npos);
}

TEST(XpuLinearConfigTest, Int8WorkGroupsCoverTheOutputOnceAndAreFew) {
  device::DeviceFacts facts = Facts(true);
  for (const int units : {1, 2, 16, 96}) {
    facts.compute_units = units;
    for (const int64_t n : {1, 16, 17, 576, 3072, 49152}) {
      for (const int64_t m : {1, 2, 4, 5, 64, 512}) {
        const LinearConfig config = ConfigureInt8Linear(Matrix(DType::kQ4_1, n, 576), m, facts);
        const int64_t width = config.groups_each * kPackedRows;
        const int64_t rows = std::string(config.function).back() - '0';
        const auto columns = static_cast<int64_t>(config.shape.groups[0]);
        const auto lines = static_cast<int64_t>(config.shape.groups[1]);
        EXPECT_TRUE(columns * width >= n && (columns - 1) * width < n) << n << " " << units;
        EXPECT_TRUE(lines * rows >= m && (lines - 1) * rows < m) << m;
        EXPECT_LE(columns, 4 * units);
        EXPECT_EQ(config.shape.items, 1u);
      }
    }
  }
}

// Linears of one model must agree in their options to be put into one launch.
TEST(XpuLinearConfigTest, LinearsOfAModelShareAChain) {
  device::DeviceFacts facts = Facts(true);
  facts.compute_units = 6;
  ops::Linear::Desc down = Matrix(DType::kQ4_1, 576, 1536);
  down.residual = true;
  const LinearConfig up = ConfigureInt8Chain(Matrix(DType::kQ4_1, 3072, 576), 5, facts);
  const LinearConfig config = ConfigureInt8Chain(down, 5, facts);
  EXPECT_EQ(config.options, up.options);
  EXPECT_STREQ(config.function, "any_int8_linear_chain_4");
  EXPECT_EQ(config.shape.groups[0], 6u);
  EXPECT_EQ(config.shape.groups[1], 1u);
  EXPECT_NE(ConfigureInt8Chain(Matrix(DType::kQ4_0, 3072, 576), 5, facts).options, up.options);
  EXPECT_NE(ConfigureInt8Chain(Matrix(DType::kQ4_1, 576, 4096), 5, facts).options, up.options);
}

}  // namespace
}  // namespace sluice::xpu
