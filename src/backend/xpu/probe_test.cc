// Devices and parts of devices, chosen by masks. PoCL's device, divided equally, stands for a GPU
// with tiles.
#include "backend/xpu/probe.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "backend/xpu/xpu_fixture.h"
#include "ops/embedding.h"

namespace sluice::xpu {
namespace {

using ::testing::HasSubstr;

class TileTest : public XpuTest {
 protected:
  void SetUp() override {
    XpuTest::SetUp();
    FoundDevice gpu = AllDevices().back();
    if (!gpu.facts.on_host_processor || gpu.facts.compute_units < 2) {
      GTEST_SKIP() << "no OpenCL device of type CPU with two cores";
    }
    constexpr cl_device_partition_property kOneUnitEach[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    // Devices stay for the life of the process; never destroyed, so that a search for leaks at its
    // end finds who holds them.
    static const auto& parts = *new std::vector<cl_device_id>(PartsOf(gpu.device, kOneUnitEach));
    gpu.tiles = parts;
    ASSERT_EQ(gpu.tiles.size(), static_cast<size_t>(gpu.facts.compute_units));
    gpu.facts.on_host_processor = false;
    all_ = {gpu};
  }
  std::vector<FoundDevice> Select(std::vector<device::VisibleDevices::Entry> entries) {
    device::VisibleDevices visible;
    visible.restricted = true;
    visible.entries = std::move(entries);
    return SelectDevices(all_, visible);
  }
  std::vector<FoundDevice> all_;
};

TEST_F(TileTest, ATileThatIsNamedIsADeviceOfItsOwn) {
  const auto both = Select({{0, 0, ""}, {0, 1, ""}});
  ASSERT_EQ(both.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(both[i].device, all_[0].tiles[i]);
    EXPECT_EQ(both[i].facts.id.index, i);
    EXPECT_EQ(both[i].facts.compute_units, 1);
    EXPECT_THAT(both[i].facts.name, HasSubstr(StrCat(", tile ", i)));
  }
  const auto whole = Select({{0, -1, ""}});
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].device, all_[0].device);
  EXPECT_TRUE(Select({{0, 4096, ""}}).empty());
}

TEST_F(TileTest, ATileThatIsOpenedComputes) {
  const auto tiles = Select({{0, 1, ""}});
  ASSERT_EQ(tiles.size(), 1u);
  stream_.reset();
  auto opened = XpuDevice::Open(tiles[0], {.cache_folder = TestCache()});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  device_ = std::move(opened).value();
  stream_ = std::move(device_->CreateStream().value());
  const auto ids = Upload(std::vector<int>{5, -1, -2});
  const auto previous = Upload(std::vector<int>{70, 80});
  ops::ResolveTokens::Args args;
  args.ids = ops::Dense(ids.view(), DType::kI32, {3});
  args.previous = ops::Dense(previous.view(), DType::kI32, {2});
  const auto bound = ops::Bind<ops::ResolveTokens>(device_->ops(), {});
  ASSERT_TRUE(bound.ok() && (*bound)(*stream_, args).ok());
  EXPECT_EQ(Download<int>(ids), (std::vector<int>{5, 70, 80}));
}

TEST_F(TileTest, WhatTheDriverDoesNotDivideHasNoParts) {
  constexpr cl_device_partition_property kTooMany[] = {CL_DEVICE_PARTITION_EQUALLY, 1 << 20, 0};
  EXPECT_TRUE(PartsOf(all_[0].device, kTooMany).empty());
}

TEST(IsXpuTest, OtherMakersGpusAreNot) {
  constexpr cl_uint kIntel = 0x8086, kNvidia = 0x10de, kAmd = 0x1002;
  EXPECT_TRUE(IsXpu(CL_DEVICE_TYPE_GPU, kIntel));
  EXPECT_TRUE(IsXpu(CL_DEVICE_TYPE_CPU, kAmd));
  EXPECT_FALSE(IsXpu(CL_DEVICE_TYPE_GPU, kNvidia));
  EXPECT_FALSE(IsXpu(CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT, kNvidia));
  EXPECT_FALSE(IsXpu(CL_DEVICE_TYPE_ACCELERATOR, kIntel));
}

TEST(WhyNoGpuTest, ANodeOfEitherKindMayBeOne) {
  const std::string dev = ::testing::TempDir() + "sluice-dev";
  std::filesystem::remove_all(dev);
  EXPECT_THAT(WhyNoGpu(dev), HasSubstr(dev + "/dri/renderD*"));
  std::filesystem::create_directories(dev + "/dri");
  std::ofstream(dev + "/dri/card0").close();
  EXPECT_THAT(WhyNoGpu(dev), HasSubstr("shows no GPU"));
  std::ofstream(dev + "/dri/renderD128").close();
  EXPECT_EQ(WhyNoGpu(dev), "");
  std::filesystem::remove_all(dev + "/dri");
  std::ofstream(dev + "/dxg").close();
  EXPECT_EQ(WhyNoGpu(dev), "");
  std::filesystem::remove_all(dev);
}

TEST(WhyNoneOfTest, NoDriverNoDeviceAndNoneThatFitsAreToldApart) {
  EXPECT_THAT(WhyNoneOf(0, 0), HasSubstr("found no driver"));
  EXPECT_THAT(WhyNoneOf(1, 0), HasSubstr("1 OpenCL driver shows no device"));
  EXPECT_THAT(WhyNoneOf(2, 0), HasSubstr("2 OpenCL drivers show no device"));
  EXPECT_THAT(WhyNoneOf(1, 1), HasSubstr("the device of 1 OpenCL driver is not an Intel GPU"));
  EXPECT_THAT(WhyNoneOf(2, 3), HasSubstr("none of the 3 devices of 2 OpenCL drivers is"));
}

}  // namespace
}  // namespace sluice::xpu
