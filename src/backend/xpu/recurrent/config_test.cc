#include "backend/xpu/recurrent/config.h"

#include <gtest/gtest.h>

namespace sluice::xpu {
namespace {

device::DeviceFacts Facts(bool processor) {
  device::DeviceFacts facts;
  facts.on_host_processor = processor;
  return facts;
}

const ops::GatedDelta::Desc kDesc = {.activation = DType::kBF16,
                                     .k_heads = 16,
                                     .v_heads = 32,
                                     .k_head_dim = 128,
                                     .v_head_dim = 128,
                                     .block_tokens = 64};

TEST(GatedDeltaConfigTest, AGpuSharesColumnsBetweenWorkItems) {
  const StateConfig config = ConfigureGatedDelta(kDesc, 3, Facts(false));
  EXPECT_EQ(config.options, "-D ITEMS=128 -D ACT=bf16 -D DK=128 -D COLS=1 -D PARTS=8");
  EXPECT_EQ(config.shape.items, 128u);
  EXPECT_EQ(config.shape.groups[0], 8u);
  EXPECT_EQ(config.shape.groups[1], 32u);
  EXPECT_EQ(config.shape.groups[2], 3u);
}

TEST(GatedDeltaConfigTest, AProcessorTakesVectorsOfColumnsWhereTheyAreWhole) {
  ops::GatedDelta::Desc desc = kDesc;
  EXPECT_EQ(ConfigureGatedDelta(desc, 1, Facts(true)).shape.groups[0], 8u);
  desc.v_head_dim = 20;
  const StateConfig config = ConfigureGatedDelta(desc, 1, Facts(true));
  EXPECT_EQ(config.options, "-D ITEMS=1 -D ACT=bf16 -D DK=128 -D COLS=1 -D PARTS=1");
  EXPECT_EQ(config.shape.groups[0], 20u);
}

TEST(SsdConfigTest, StepsAndSkipAreCompiledIn) {
  ops::Ssd::Desc desc = {.activation = DType::kBF16,
                         .k_heads = 8,
                         .v_heads = 128,
                         .k_head_dim = 128,
                         .v_head_dim = 64,
                         .block_tokens = 64,
                         .skip = true};
  const StateConfig config = ConfigureSsd(desc, 3, Facts(false));
  EXPECT_EQ(config.options,
            "-D ITEMS=128 -D ACT=bf16 -D DK=128 -D COLS=1 -D PARTS=8 -D STEPS=0 -D SKIP=1");
  EXPECT_EQ(config.shape.groups[0], 4u);
  EXPECT_EQ(config.shape.groups[1], 128u);
  EXPECT_EQ(config.shape.groups[2], 3u);
  desc.k_head_dim = 257;
  EXPECT_EQ(SsdSupports(desc, Facts(false)).reason, "k_head_dim is 257, above 256");
}

TEST(GatedDeltaConfigTest, EveryColumnHasAWorkItem) {
  ops::GatedDelta::Desc desc = kDesc;
  desc.v_head_dim = 17;
  EXPECT_EQ(ConfigureGatedDelta(desc, 1, Facts(false)).shape.groups[0], 2u);
}

TEST(GatedDeltaConfigTest, KeysThatFitNoRegistersAreDeclined) {
  ops::GatedDelta::Desc desc = kDesc;
  desc.k_head_dim = 256;
  EXPECT_TRUE(GatedDeltaSupports(desc, Facts(false)).ok);
  desc.k_head_dim = 257;
  EXPECT_EQ(GatedDeltaSupports(desc, Facts(false)).reason, "k_head_dim is 257, above 256");
}

TEST(SelectiveScanConfigTest, AGroupHasSomeChannelsOfASequence) {
  ops::SelectiveScan::Desc desc = {
      .activation = DType::kBF16, .channels = 130, .state_size = 16, .block_tokens = 64};
  const StateConfig config = ConfigureSelectiveScan(desc, 3, Facts(false));
  EXPECT_EQ(config.options, "-D ITEMS=64 -D PIECE=64 -D ACT=bf16 -D SIZE=16");
  EXPECT_EQ(config.shape.items, 64u);
  EXPECT_EQ(config.shape.groups.x, 3u);
  EXPECT_EQ(config.shape.groups.y, 3u);
  EXPECT_EQ(ConfigureSelectiveScan(desc, 3, Facts(true)).options,
            "-D ITEMS=1 -D PIECE=64 -D ACT=bf16 -D SIZE=16");
  EXPECT_TRUE(SelectiveScanSupports(desc, Facts(false)).ok);
  desc.state_size = 129;
  EXPECT_EQ(SelectiveScanSupports(desc, Facts(false)).reason, "state_size is 129, above 128");
}

}  // namespace
}  // namespace sluice::xpu
