#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/backend.h"

namespace sluice::device {
namespace {

using ::testing::HasSubstr;

class FakeBackend : public Backend {
 public:
  FakeBackend(DeviceKind kind, int count, bool on_host_processor = false) : kind_(kind) {
    for (int i = 0; i < count; ++i) {
      DeviceFacts facts;
      facts.id = {kind, i};
      facts.name = "fake";
      facts.on_host_processor = on_host_processor;
      devices_.push_back(facts);
    }
  }
  DeviceKind kind() const override { return kind_; }
  std::vector<DeviceFacts> Probe(const VisibleDevices&) const override { return devices_; }
  Result<std::unique_ptr<Device>> Open(const VisibleDevices&, int,
                                       const OpenOptions&) const override {
    return Status(StatusCode::kUnimplemented, "a fake is never opened");
  }
  std::vector<DeviceFacts>& devices() { return devices_; }

 private:
  DeviceKind kind_;
  std::vector<DeviceFacts> devices_;
};

class ResolverTest : public ::testing::Test {
 protected:
  Result<Resolution> Resolve(std::string_view wanted, std::vector<const Backend*> backends) {
    return ResolveDevice(wanted, backends);
  }
  FakeBackend cpu_{DeviceKind::kCpu, 1};
  FakeBackend cuda_{DeviceKind::kCuda, 2};
  FakeBackend no_cuda_{DeviceKind::kCuda, 0};
  FakeBackend xpu_{DeviceKind::kXpu, 1};
  FakeBackend xpu_on_cpu_{DeviceKind::kXpu, 1, true};
};

TEST_F(ResolverTest, AutoPrefersCudaThenXpuThenCpuWhateverTheLinkOrder) {
  EXPECT_EQ(Resolve("auto", {&cpu_, &xpu_, &cuda_})->backend, &cuda_);
  EXPECT_EQ(Resolve("", {&cpu_, &xpu_, &no_cuda_})->backend, &xpu_);
  EXPECT_EQ(Resolve("  Auto ", {&no_cuda_, &cpu_})->backend, &cpu_);
}

TEST_F(ResolverTest, AutoNeverTakesAnOpenClCpuDevice) {
  EXPECT_EQ(Resolve("auto", {&xpu_on_cpu_, &cpu_})->backend, &cpu_);
  EXPECT_EQ(Resolve("xpu", {&xpu_on_cpu_, &cpu_})->backend, &xpu_on_cpu_);
}

TEST_F(ResolverTest, ABareNameTakesTheFirstRealDeviceAndAnIndexThatOne) {
  FakeBackend mixed(DeviceKind::kXpu, 2);
  mixed.devices()[0].on_host_processor = true;
  EXPECT_EQ(Resolve("xpu", {&mixed})->index, 1);
  EXPECT_EQ(Resolve("xpu:0", {&mixed})->index, 0);
  EXPECT_EQ(Resolve("cuda:1", {&cuda_})->index, 1);
}

TEST_F(ResolverTest, NamesAreTrimmedAndOfAnyCase) {
  EXPECT_EQ(Resolve("\t CPU\n", {&cuda_, &cpu_})->backend, &cpu_);
  EXPECT_EQ(Resolve(" CuDa:1 ", {&cuda_, &cpu_})->index, 1);
}

TEST_F(ResolverTest, AnUnknownNameListsTheLegalOnes) {
  for (const char* wanted :
       {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "cuda 1", "cpu,cuda"}) {
    const auto resolved = Resolve(wanted, {&cuda_, &cpu_});
    ASSERT_FALSE(resolved.ok()) << wanted;
    EXPECT_EQ(resolved.status().code(), StatusCode::kInvalidArgument) << wanted;
    EXPECT_THAT(resolved.status().message(), HasSubstr("auto, cpu, cuda, cuda:N, xpu, xpu:N"));
    EXPECT_EQ(resolved.status().field(), "device");
  }
}

TEST_F(ResolverTest, AnAbsentDeviceNamesTheMaskAndWhatWasFound) {
  ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", "7", 1), 0);
  const auto none = Resolve("cuda", {&no_cuda_, &cpu_});
  unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kDevice);
  EXPECT_THAT(none.status().message(), HasSubstr("CUDA_VISIBLE_DEVICES=\"7\""));
  EXPECT_THAT(none.status().message(), HasSubstr("devices found: cpu"));

  const auto beyond = Resolve("cuda:2", {&cuda_, &cpu_});
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.status().message(), HasSubstr("2 cuda devices are visible"));
  EXPECT_THAT(beyond.status().message(), HasSubstr("cuda:0, cuda:1, cpu"));
}

TEST_F(ResolverTest, ABackendThatIsNotBuiltInIsSaidSo) {
  const auto resolved = Resolve("xpu", {&cpu_});
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.status().code(), StatusCode::kDevice);
  EXPECT_THAT(resolved.status().message(), HasSubstr("built without xpu"));
}

TEST_F(ResolverTest, NoDeviceAtAllIsAnError) {
  EXPECT_EQ(Resolve("", {}).status().code(), StatusCode::kDevice);
  EXPECT_EQ(Resolve("", {&no_cuda_}).status().code(), StatusCode::kDevice);
}

TEST(DeviceIdTest, OnlyTheCpuHasNoOrdinal) {
  EXPECT_EQ(ToString(DeviceId{DeviceKind::kCpu, 0}), "cpu");
  EXPECT_EQ(ToString(DeviceId{DeviceKind::kCuda, 0}), "cuda:0");
  EXPECT_EQ(ToString(DeviceId{DeviceKind::kXpu, 3}), "xpu:3");
}

}  // namespace
}  // namespace sluice::device
