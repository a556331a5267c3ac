#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "device/resolver.h"

namespace sluice::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A driver with some devices, which counts how often it is touched.
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
  FakeBackend(DeviceKind kind, std::string absent_reason)
      : kind_(kind), absent_reason_(std::move(absent_reason)) {}

  DeviceKind kind() const override { return kind_; }
  std::vector<DeviceFacts> Probe(const VisibleDevices& visible) const override {
    ++probes;
    std::vector<FoundDevice> found;
    for (const DeviceFacts& facts : devices_) {
      found.push_back({.on_host_processor = facts.on_host_processor});
    }
    std::vector<DeviceFacts> seen;
    for (const SeenDevice& device : SelectVisible(visible, found)) {
      seen.push_back(devices_[static_cast<size_t>(device.found)]);
      seen.back().id.index = static_cast<int>(seen.size()) - 1;
    }
    return seen;
  }
  std::string AbsentReason() const override { return absent_reason_; }
  std::string WhyNoGpu() const override { return why_no_gpu; }
  Result<std::unique_ptr<Device>> Open(const VisibleDevices& visible, int index,
                                       const OpenOptions&) const override {
    opened_index = index;
    opened_visible = visible;
    return Status(StatusCode::kUnimplemented, "a fake is never opened");
  }
  std::vector<DeviceFacts>& devices() { return devices_; }

  std::string why_no_gpu;
  mutable int probes = 0;
  mutable int opened_index = -1;
  mutable VisibleDevices opened_visible;

 private:
  DeviceKind kind_;
  std::vector<DeviceFacts> devices_;
  std::string absent_reason_;
};

class ResolverTest : public ::testing::Test {
 protected:
  Result<Resolution> Resolve(std::string_view wanted, std::vector<const Backend*> backends) {
    return ResolveDevice(wanted, backends, Recorded());
  }
  Status Refused(std::string_view wanted, std::vector<const Backend*> backends) {
    const auto resolved = Resolve(wanted, std::move(backends));
    EXPECT_FALSE(resolved.ok()) << wanted;
    EXPECT_EQ(resolved.status().field(), "device") << wanted;
    return resolved.status();
  }
  Environment Recorded() {
    return [this](const char* variable) -> std::optional<std::string> {
      read_.insert(variable);
      const auto found = environment_.find(variable);
      if (found == environment_.end()) return std::nullopt;
      return found->second;
    };
  }

  std::map<std::string, std::string> environment_;
  std::set<std::string> read_;  // the variables that were looked up
  FakeBackend cpu_{DeviceKind::kCpu, 1};
  FakeBackend cuda_{DeviceKind::kCuda, 2};
  FakeBackend no_cuda_{DeviceKind::kCuda, "libcuda.so.1 was not found"};
  FakeBackend xpu_{DeviceKind::kXpu, 2};
  FakeBackend xpu_on_cpu_{DeviceKind::kXpu, 1, true};
  FakeBackend no_xpu_{DeviceKind::kXpu, "no OpenCL platform was found"};
};

TEST_F(ResolverTest, WhatWasNotBuiltIsNamed) {
  const std::vector<const Backend*> all = {&cpu_, &xpu_, &cuda_}, one = {&cpu_};
  EXPECT_THAT(KindsNotBuilt(all), IsEmpty());
  EXPECT_THAT(KindsNotBuilt(one), ElementsAre("cuda", "xpu"));
}

TEST_F(ResolverTest, AutoPrefersCudaThenXpuThenCpuWhateverTheLinkOrder) {
  EXPECT_EQ(Resolve("auto", {&cpu_, &xpu_, &cuda_})->backend, &cuda_);
  EXPECT_EQ(Resolve("auto", {&xpu_, &cpu_, &no_cuda_})->backend, &xpu_);
  EXPECT_EQ(Resolve("", {&cpu_, &no_xpu_, &cuda_})->backend, &cuda_);
  EXPECT_EQ(Resolve(" \t", {&cpu_, &no_xpu_, &no_cuda_})->backend, &cpu_);
  EXPECT_EQ(Resolve("  Auto ", {&no_cuda_, &cpu_})->backend, &cpu_);
  EXPECT_EQ(Resolve("auto", {&xpu_})->index, 0);
}

TEST_F(ResolverTest, AutoSaysWhatTheProgramWasBuiltWithout) {
  EXPECT_THAT(Resolve("auto", {&cpu_, &no_xpu_})->reason,
              HasSubstr("; this program was built without cuda (docs/devices.md), no xpu GPU"));
}

TEST_F(ResolverTest, AutoLoadsNoDriverWhereNoGpuCanBe) {
  xpu_on_cpu_.why_no_gpu = "/dev/dri shows no GPU";
  const auto chosen = Resolve("auto", {&cpu_, &xpu_on_cpu_});
  EXPECT_EQ(chosen->backend, &cpu_);
  EXPECT_THAT(chosen->reason, HasSubstr("no xpu GPU (/dev/dri shows no GPU)"));
  EXPECT_EQ(xpu_on_cpu_.probes, 0);
  EXPECT_EQ(Resolve("xpu", {&cpu_, &xpu_on_cpu_})->backend, &xpu_on_cpu_);
  EXPECT_EQ(xpu_on_cpu_.probes, 1);
  environment_["ZE_AFFINITY_MASK"] = "zero";
  EXPECT_THAT(Refused("auto", {&cpu_, &xpu_on_cpu_}).message(), HasSubstr("legal are"));
}

TEST_F(ResolverTest, TwoKindsAndNoChoiceIsCudaAndOneLineThatSaysSo) {
  const auto mixed = Resolve("", {&cpu_, &xpu_, &cuda_});
  EXPECT_EQ(mixed->backend, &cuda_);
  EXPECT_EQ(mixed->notice,
            "xpu:0 (fake) is present as well as cuda:0 (fake), and nothing chose: using cuda; "
            "choose by --device (SLUICE_DEVICE): auto, cpu, cuda, cuda:N, xpu, xpu:N");
  for (const char* wanted : {"cuda", "xpu", "cpu"}) {
    EXPECT_EQ(Resolve(wanted, {&cpu_, &xpu_, &cuda_})->notice, "") << wanted;
  }
  EXPECT_EQ(Resolve("", {&cpu_, &no_xpu_, &cuda_})->notice, "");
  EXPECT_EQ(Resolve("", {&cpu_, &xpu_, &no_cuda_})->notice, "");
  EXPECT_EQ(Resolve("", {&cpu_, &xpu_on_cpu_, &cuda_})->notice, "");
  environment_["ZE_AFFINITY_MASK"] = "7";
  EXPECT_EQ(Resolve("", {&cpu_, &xpu_, &cuda_})->notice, "");
}

TEST_F(ResolverTest, TheLineIsLoggedOncePerProcess) {
  const auto mixed = Resolve("", {&cpu_, &xpu_, &cuda_});
  const auto chosen = Resolve("cuda", {&cpu_, &xpu_, &cuda_});
  ::testing::internal::CaptureStderr();
  LogNoticeOnce(*chosen);
  LogNoticeOnce(*mixed);
  LogNoticeOnce(*mixed);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("nothing chose");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("nothing chose", first + 1), std::string::npos) << log;
}

TEST_F(ResolverTest, AutoSaysWhatItPassedOver) {
  EXPECT_EQ(Resolve("", {&cpu_, &no_xpu_, &no_cuda_})->reason,
            "cpu (fake): the first found in the order cuda, xpu, cpu; no cuda GPU "
            "(libcuda.so.1 was not found), no xpu GPU (no OpenCL platform was found)");
  EXPECT_THAT(Resolve("", {&cpu_, &xpu_on_cpu_})->reason,
              HasSubstr("xpu:0 runs on the CPU and is used only by name"));
  environment_["ZE_AFFINITY_MASK"] = "5";
  EXPECT_THAT(Resolve("", {&cpu_, &xpu_})->reason, HasSubstr("ZE_AFFINITY_MASK=\"5\""));
}

TEST_F(ResolverTest, AutoNeverTakesAnOpenClCpuDevice) {
  EXPECT_EQ(Resolve("auto", {&xpu_on_cpu_, &cpu_})->backend, &cpu_);
  EXPECT_FALSE(Resolve("auto", {&xpu_on_cpu_}).ok());
  EXPECT_EQ(Resolve("xpu", {&xpu_on_cpu_, &cpu_})->backend, &xpu_on_cpu_);
  EXPECT_EQ(Resolve("xpu:0", {&xpu_on_cpu_, &cpu_})->backend, &xpu_on_cpu_);
  environment_["ONEAPI_DEVICE_SELECTOR"] = "opencl:cpu";
  EXPECT_EQ(Resolve("auto", {&xpu_on_cpu_, &cpu_})->backend, &cpu_);
}

TEST_F(ResolverTest, WhileGpusOfAnyMakerAreListedAnXpuIsTakenByItsNumberAlone) {
  environment_["SLUICE_XPU_ANY_VENDOR"] = "1";
  EXPECT_EQ(Resolve("auto", {&xpu_, &cpu_})->backend, &cpu_);
  EXPECT_THAT(Resolve("auto", {&xpu_, &cpu_})->reason,
              HasSubstr("xpu:0 is used only by its number while SLUICE_XPU_ANY_VENDOR is set"));
  for (FakeBackend* backend : {&xpu_, &xpu_on_cpu_}) {
    EXPECT_THAT(Refused("xpu", {backend, &cpu_}).message(),
                HasSubstr("an xpu is used only by its number"));
    EXPECT_EQ(Resolve("xpu:0", {backend, &cpu_})->index, 0);
    EXPECT_TRUE(Resolve("xpu:0", {backend, &cpu_})->visible.any_vendor);
  }
  EXPECT_EQ(Resolve("auto", {&cuda_, &xpu_, &cpu_})->backend, &cuda_);
}

TEST_F(ResolverTest, ABareNameTakesTheFirstRealDeviceAndAnIndexThatOne) {
  FakeBackend mixed(DeviceKind::kXpu, 2);
  mixed.devices()[1].on_host_processor = true;
  EXPECT_EQ(Resolve("xpu", {&mixed})->index, 0);
  EXPECT_EQ(Resolve("xpu:1", {&mixed})->index, 1);
  environment_["ONEAPI_DEVICE_SELECTOR"] = "opencl:cpu";
  EXPECT_EQ(Resolve("xpu", {&mixed})->index, 0);
  EXPECT_EQ(Resolve("cuda:1", {&cuda_})->index, 1);
  EXPECT_THAT(Resolve("cuda:1", {&cuda_})->reason, "cuda:1 (fake): asked for by name");
}

TEST_F(ResolverTest, NamesAreTrimmedAndOfAnyCase) {
  EXPECT_EQ(Resolve("\t CPU\n", {&cuda_, &cpu_})->backend, &cpu_);
  EXPECT_EQ(Resolve(" CuDa:1 ", {&cuda_, &cpu_})->index, 1);
  EXPECT_EQ(Resolve("XPU:0", {&cuda_, &xpu_})->backend, &xpu_);
}

TEST_F(ResolverTest, AnUnknownNameListsTheLegalOnes) {
  for (const char* wanted : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999",
                             "cuda 1", "cpu,cuda", "cpu:0", "auto:0", "rocm", ":0"}) {
    const Status status = Refused(wanted, {&cuda_, &cpu_});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wanted;
    EXPECT_THAT(status.message(), HasSubstr("auto, cpu, cuda, cuda:N, xpu, xpu:N"));
    EXPECT_THAT(status.message(), HasSubstr("SLUICE_DEVICE"));
  }
}

TEST_F(ResolverTest, ADeviceNamedTouchesNeitherVariableNorDriverOfAnother) {
  environment_ = {{"CUDA_VISIBLE_DEVICES", "junk"},
                  {"ZE_AFFINITY_MASK", "junk"},
                  {"ONEAPI_DEVICE_SELECTOR", "junk"}};
  EXPECT_EQ(Resolve("cpu", {&cuda_, &xpu_, &cpu_})->backend, &cpu_);
  EXPECT_THAT(read_, IsEmpty());
  environment_["CUDA_VISIBLE_DEVICES"] = "0";
  EXPECT_EQ(Resolve("cuda", {&cuda_, &xpu_, &cpu_})->backend, &cuda_);
  EXPECT_FALSE(Resolve("cuda:9", {&cuda_, &xpu_, &cpu_}).ok());
  EXPECT_THAT(read_, ElementsAre("CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(xpu_.probes, 0);
  const int touched = cuda_.probes;
  read_.clear();
  environment_ = {{"CUDA_VISIBLE_DEVICES", "junk"}};
  EXPECT_EQ(Resolve("xpu", {&cuda_, &xpu_, &cpu_})->backend, &xpu_);
  EXPECT_FALSE(Resolve("xpu:9", {&cuda_, &xpu_, &cpu_}).ok());
  EXPECT_THAT(read_, ElementsAre("ONEAPI_DEVICE_SELECTOR", "SLUICE_XPU_ANY_VENDOR",
                                 "SLUICE_XPU_GPU_KERNELS", "ZE_AFFINITY_MASK"));
  EXPECT_EQ(cuda_.probes, touched);
}

TEST_F(ResolverTest, AnAbsentDriverIsSaidByNameWithTheMask) {
  environment_["CUDA_VISIBLE_DEVICES"] = "0";
  const Status cuda = Refused("cuda", {&no_cuda_, &cpu_});
  EXPECT_EQ(cuda.code(), StatusCode::kDevice);
  EXPECT_EQ(cuda.message(),
            "device \"cuda\", asked for by --device (SLUICE_DEVICE), is not available: no cuda "
            "device is visible: libcuda.so.1 was not found (CUDA_VISIBLE_DEVICES=\"0\")");
  const Status xpu = Refused("xpu:0", {&no_xpu_, &cpu_});
  EXPECT_EQ(xpu.code(), StatusCode::kDevice);
  EXPECT_THAT(xpu.message(), HasSubstr("no OpenCL platform was found (neither ZE_AFFINITY_MASK nor "
                                       "ONEAPI_DEVICE_SELECTOR is set)"));
}

TEST_F(ResolverTest, AnIndexThatDoesNotExistNamesWhatWasFoundAndTheMask) {
  const Status open = Refused("cuda:2", {&cuda_, &cpu_});
  EXPECT_EQ(open.code(), StatusCode::kDevice);
  EXPECT_THAT(open.message(), HasSubstr("2 cuda devices are visible: cuda:0 (fake), cuda:1 (fake) "
                                        "(CUDA_VISIBLE_DEVICES is not set)"));
  environment_["ZE_AFFINITY_MASK"] = "1";
  EXPECT_EQ(Resolve("xpu:0", {&xpu_})->index, 0);
  const Status masked = Refused("xpu:1", {&xpu_});
  EXPECT_THAT(masked.message(), HasSubstr("1 xpu device is visible: xpu:0 (fake) "
                                          "(ZE_AFFINITY_MASK=\"1\")"));
}

TEST_F(ResolverTest, AMaskThatHidesAllIsNamed) {
  environment_["CUDA_VISIBLE_DEVICES"] = "-1";
  EXPECT_THAT(Refused("cuda", {&cuda_, &cpu_}).message(),
              HasSubstr("no cuda device is visible (CUDA_VISIBLE_DEVICES=\"-1\")"));
  EXPECT_EQ(Resolve("auto", {&cuda_, &cpu_})->backend, &cpu_);
  environment_ = {{"ONEAPI_DEVICE_SELECTOR", "cuda:*"}};
  EXPECT_THAT(Refused("xpu", {&xpu_}).message(), HasSubstr("ONEAPI_DEVICE_SELECTOR=\"cuda:*\""));
}

TEST_F(ResolverTest, BlankListsHideNothing) {
  environment_ = {
      {"CUDA_VISIBLE_DEVICES", " "}, {"ZE_AFFINITY_MASK", ""}, {"ONEAPI_DEVICE_SELECTOR", " ; "}};
  EXPECT_EQ(Resolve("cuda:1", {&cuda_, &cpu_})->index, 1);
  EXPECT_EQ(Resolve("xpu:1", {&xpu_, &cpu_})->index, 1);
}

TEST_F(ResolverTest, AMalformedListIsAnErrorEvenWithAuto) {
  environment_["ZE_AFFINITY_MASK"] = "zero";
  for (const char* wanted : {"xpu", "xpu:0", "auto", ""}) {
    const Status status = Refused(wanted, {&cuda_, &xpu_, &cpu_});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wanted;
    EXPECT_THAT(status.message(), HasSubstr("ZE_AFFINITY_MASK=\"zero\"")) << wanted;
    EXPECT_THAT(status.message(), HasSubstr("legal are")) << wanted;
  }
  EXPECT_THAT(Refused("", {&cuda_, &xpu_, &cpu_}).message(), HasSubstr("--device"));
  EXPECT_EQ(xpu_.probes, 0);
  // Of a backend that this program has not got, no variable is read.
  EXPECT_EQ(Resolve("auto", {&cuda_, &cpu_})->backend, &cuda_);
}

TEST_F(ResolverTest, TheBackendIsOpenedWithTheMaskThatItWasProbedWith) {
  environment_["ZE_AFFINITY_MASK"] = "1";
  const auto resolved = Resolve("xpu", {&xpu_});
  ASSERT_TRUE(resolved.ok());
  EXPECT_FALSE(resolved->Open({}).ok());
  EXPECT_EQ(xpu_.opened_index, 0);
  ASSERT_EQ(xpu_.opened_visible.entries.size(), 1u);
  EXPECT_EQ(xpu_.opened_visible.entries[0].device, 1);
}

TEST_F(ResolverTest, ABackendThatIsNotBuiltInIsSaidSo) {
  const Status status = Refused("xpu", {&cpu_, &cuda_});
  EXPECT_EQ(status.code(), StatusCode::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("built without xpu (docs/devices.md); it has cpu, cuda"));
}

TEST_F(ResolverTest, NoDeviceAtAllIsAnError) {
  EXPECT_EQ(Resolve("", {}).status().code(), StatusCode::kDevice);
  const auto resolved = Resolve("", {&no_cuda_});
  EXPECT_EQ(resolved.status().code(), StatusCode::kDevice);
  EXPECT_THAT(resolved.status().message(), HasSubstr("libcuda.so.1 was not found"));
}

TEST_F(ResolverTest, ASurveyShowsEveryBackendAndAMalformedListBesideTheRest) {
  environment_["CUDA_VISIBLE_DEVICES"] = "?";
  environment_["ONEAPI_DEVICE_SELECTOR"] = "level_zero:1";
  const std::vector<const Backend*> backends = {&cpu_, &cuda_, &xpu_, &no_cuda_};
  const std::vector<Survey> surveys = SurveyBackends(backends, Recorded());
  ASSERT_EQ(surveys.size(), 4u);
  EXPECT_EQ(surveys[0].devices.size(), 1u);
  EXPECT_FALSE(surveys[1].visible.ok());
  EXPECT_THAT(surveys[1].devices, IsEmpty());
  EXPECT_THAT(surveys[1].absent_reason, HasSubstr("CUDA_VISIBLE_DEVICES=\"?\""));
  EXPECT_EQ(surveys[2].devices.size(), 1u);
  EXPECT_EQ(surveys[2].absent_reason, "");
  environment_.clear();
  const std::vector<const Backend*> none = {&no_cuda_};
  EXPECT_EQ(SurveyBackends(none, Recorded())[0].absent_reason, "libcuda.so.1 was not found");
}

TEST(DeviceIdTest, OnlyTheCpuHasNoOrdinal) {
  EXPECT_EQ(ToString(DeviceId{DeviceKind::kCpu, 0}), "cpu");
  EXPECT_EQ(ToString(DeviceId{DeviceKind::kCuda, 0}), "cuda:0");
  EXPECT_EQ(ToString(DeviceId{DeviceKind::kXpu, 3}), "xpu:3");
}

}  // namespace
}  // namespace sluice::device
