#include "device/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/str_cat.h"

namespace sluice::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Entry = VisibleDevices::Entry;
using Seen = std::vector<SeenDevice>;

Environment Only(const char* variable, const std::string& value) {
  return [=](const char* asked) -> std::optional<std::string> {
    if (std::string_view(asked) == variable) return value;
    return std::nullopt;
  };
}

Result<VisibleDevices> Cuda(const std::string& value) {
  return ReadVisibleDevices(DeviceKind::kCuda, Only("CUDA_VISIBLE_DEVICES", value));
}
Result<VisibleDevices> Mask(const std::string& value) {
  return ReadVisibleDevices(DeviceKind::kXpu, Only("ZE_AFFINITY_MASK", value));
}
Result<VisibleDevices> Selector(const std::string& value) {
  return ReadVisibleDevices(DeviceKind::kXpu, Only("ONEAPI_DEVICE_SELECTOR", value));
}

Entry Number(int device, int tile = -1) { return {device, tile, ""}; }
Entry Name(const char* name) { return {-1, -1, name}; }

TEST(VisibleDevicesTest, EachKindReadsItsOwnVariablesAlone) {
  std::vector<std::string> asked;
  const Environment record = [&](const char* variable) -> std::optional<std::string> {
    asked.emplace_back(variable);
    return std::nullopt;
  };
  ASSERT_TRUE(ReadVisibleDevices(DeviceKind::kCpu, record).ok());
  EXPECT_THAT(asked, IsEmpty());
  ASSERT_TRUE(ReadVisibleDevices(DeviceKind::kCuda, record).ok());
  EXPECT_THAT(asked, ElementsAre("CUDA_VISIBLE_DEVICES"));
  asked.clear();
  ASSERT_TRUE(ReadVisibleDevices(DeviceKind::kXpu, record).ok());
  EXPECT_THAT(asked, ElementsAre("ZE_AFFINITY_MASK", "SLUICE_XPU_ANY_VENDOR",
                                 "SLUICE_XPU_GPU_KERNELS", "ONEAPI_DEVICE_SELECTOR"));
}

TEST(VisibleDevicesTest, EmptyAndBlankIsNoRestriction) {
  for (const char* value : {"", " ", "\t \n", ",", " , ,"}) {
    for (const auto& visible : {Cuda(value), Mask(value)}) {
      ASSERT_TRUE(visible.ok()) << value;
      EXPECT_FALSE(visible->restricted) << value;
      EXPECT_THAT(visible->entries, IsEmpty()) << value;
    }
  }
  for (const char* value : {"", "  ", ";", " ; "}) {
    const auto visible = Selector(value);
    ASSERT_TRUE(visible.ok()) << value;
    EXPECT_THAT(visible->terms, IsEmpty()) << value;
    EXPECT_TRUE(visible->accelerators && visible->host_processors) << value;
  }
}

TEST(VisibleDevicesTest, CudaListsKeepTheirOrder) {
  EXPECT_THAT(Cuda("2,0")->entries, ElementsAre(Number(2), Number(0)));
  EXPECT_THAT(Cuda(" 2 ,\t0 ,, ")->entries, ElementsAre(Number(2), Number(0)));
  EXPECT_THAT(Cuda("GPU-8932f937-d72c-4106,MIG-GPU-8932f937/1/0,3")->entries,
              ElementsAre(Name("GPU-8932f937-d72c-4106"), Name("MIG-GPU-8932f937/1/0"), Number(3)));
  EXPECT_TRUE(Cuda("0")->restricted);
}

TEST(VisibleDevicesTest, ANegativeNumberEndsACudaListAsTheDriverDoes) {
  EXPECT_THAT(Cuda("0,2,-1,1")->entries, ElementsAre(Number(0), Number(2)));
  for (const char* value : {"-1", "-2", "NoDevFiles", "-1,x", "-2,x"}) {
    const auto none = Cuda(value);
    ASSERT_TRUE(none.ok()) << value;
    EXPECT_TRUE(none->restricted) << value;
    EXPECT_THAT(none->entries, IsEmpty()) << value;
  }
}

TEST(VisibleDevicesTest, AffinityMasksHoldDevicesAndTilesInTheOrderOfTheDevices) {
  EXPECT_THAT(Mask("0.0")->entries, ElementsAre(Number(0, 0)));
  EXPECT_THAT(Mask(" 1.1 , 0, 1.0,")->entries, ElementsAre(Number(0), Number(1, 0), Number(1, 1)));
  EXPECT_THAT(Mask("0.1,0,0.1,0")->entries, ElementsAre(Number(0)));
}

TEST(VisibleDevicesTest, AMalformedListIsOneSentenceWithVariableValueAndWhatIsLegal) {
  const auto refused = [](const Result<VisibleDevices>& visible, const char* start,
                          const char* what, const char* legal) {
    ASSERT_FALSE(visible.ok()) << start;
    EXPECT_EQ(visible.status().code(), StatusCode::kInvalidArgument) << start;
    EXPECT_THAT(visible.status().message(), ::testing::StartsWith(start));
    EXPECT_THAT(visible.status().message(), HasSubstr(what));
    EXPECT_THAT(visible.status().message(), HasSubstr(legal));
  };
  for (const char* value : {"0,x", "gpu0", "0 1", "0,,1", ",0", "0x1", "1.5", "GPU-", "GPU-a b",
                            "99999999999", "- 1", "--1", "+1"}) {
    refused(Cuda(value), "CUDA_VISIBLE_DEVICES=\"", "entry", "GPU-... and MIG-...");
  }
  refused(Cuda("1,0,1"), "CUDA_VISIBLE_DEVICES=\"1,0,1\": it names \"1\" twice", "", "each once");
  for (const char* value :
       {"0.", ".0", "0.0.0", "-1", "a", "0,,1", "GPU-1", "0.-1", "99999999999", "0.99999999999"}) {
    refused(Mask(value), "ZE_AFFINITY_MASK=\"", "entry", "device.tile");
  }
  for (const char* value :
       {"gpu", "level_zero", "opencl:", "vulkan:0", "level_zero:gpu:0", "opencl:gpu;;opencl:cpu",
        "!opencl:cpu;opencl:*", "opencl:x", "opencl:-1", "opencl:0.0.0", "*:.*", "!", ":gpu",
        "opencl:gpu,,cpu", "!!opencl:gpu"}) {
    refused(Selector(value), "ONEAPI_DEVICE_SELECTOR=\"", "", "backend:devices");
  }
}

TEST(VisibleDevicesTest, AHostileValueMakesAShortMessageAndASmallList) {
  for (const char* piece : {"0,", "GPU-1,", "\x1b[2J,"}) {
    std::string value;
    for (int i = 0; i < 100'000; ++i) value += piece;
    value += "0";
    for (const auto& visible : {Cuda(value), Mask(value)}) {
      ASSERT_FALSE(visible.ok());
      EXPECT_LT(visible.status().message().size(), 600u);
      EXPECT_THAT(visible.status().message(), Not(HasSubstr("\x1b")));
    }
  }
  std::string terms;
  for (int i = 0; i < 2'000; ++i) terms += "opencl:0;";
  EXPECT_FALSE(Selector(terms + "opencl:0").ok());
  EXPECT_FALSE(Selector("opencl:" + std::string(2'000, '0')).ok() &&
               Selector("opencl:" + std::string(2'000, ',') + "0").ok());
}

TEST(VisibleDevicesTest, SwitchesOfTestsAreOneOrZero) {
  const auto read = [](const char* variable, const char* value) {
    return ReadVisibleDevices(DeviceKind::kXpu, Only(variable, value));
  };
  for (const char* off : {"", " ", "0"}) {
    EXPECT_FALSE(read("SLUICE_XPU_ANY_VENDOR", off)->any_vendor);
    EXPECT_FALSE(read("SLUICE_XPU_GPU_KERNELS", off)->gpu_kernels);
  }
  EXPECT_TRUE(read("SLUICE_XPU_ANY_VENDOR", " 1")->any_vendor);
  EXPECT_FALSE(read("SLUICE_XPU_ANY_VENDOR", "1")->gpu_kernels);
  EXPECT_TRUE(read("SLUICE_XPU_GPU_KERNELS", "1 ")->gpu_kernels);
  for (const char* variable : {"SLUICE_XPU_ANY_VENDOR", "SLUICE_XPU_GPU_KERNELS"}) {
    const Status refused = read(variable, "yes").status();
    EXPECT_EQ(refused.message(), StrCat(variable,
                                        "=\"yes\": the entry \"yes\" is unknown; legal "
                                        "are 0 and 1"));
    EXPECT_TRUE(ReadVisibleDevices(DeviceKind::kCuda, Only(variable, "yes")).ok());
  }
}

TEST(VisibleDevicesTest, MessagesNameTheVariablesAsSet) {
  const auto none = [](const char*) -> std::optional<std::string> { return std::nullopt; };
  const auto describe = [](DeviceKind kind, const Environment& environment) {
    return Describe(kind, *ReadVisibleDevices(kind, environment));
  };
  EXPECT_EQ(describe(DeviceKind::kCpu, none), "");
  EXPECT_EQ(describe(DeviceKind::kCuda, none), "CUDA_VISIBLE_DEVICES is not set");
  EXPECT_EQ(describe(DeviceKind::kXpu, none),
            "neither ZE_AFFINITY_MASK nor ONEAPI_DEVICE_SELECTOR is set");
  EXPECT_EQ(describe(DeviceKind::kCuda, Only("CUDA_VISIBLE_DEVICES", " 7,")),
            "CUDA_VISIBLE_DEVICES=\" 7,\"");
  const auto both = [](const char* variable) -> std::optional<std::string> {
    if (std::string_view(variable) == "ZE_AFFINITY_MASK") return "0";
    return Only("ONEAPI_DEVICE_SELECTOR", "opencl:gpu")(variable);
  };
  EXPECT_EQ(describe(DeviceKind::kXpu, both),
            "ZE_AFFINITY_MASK=\"0\", ONEAPI_DEVICE_SELECTOR=\"opencl:gpu\"");
}

// Two GPUs of two tiles each and an OpenCL device of type CPU, which its platform lists first.
const FoundDevice kMixed[] = {{.on_host_processor = true}, {.tiles = 2}, {.tiles = 2}};

Seen Select(const Result<VisibleDevices>& visible, std::span<const FoundDevice> found = kMixed) {
  if (!visible.ok()) {
    ADD_FAILURE() << visible.status().message();
    return {};
  }
  return SelectVisible(*visible, found);
}

TEST(SelectVisibleTest, AcceleratorsComeFirst) {
  EXPECT_EQ(Select(VisibleDevices{}), (Seen{{1}, {2}, {0}}));
  EXPECT_EQ(Select(VisibleDevices{}, {}), Seen{});
}

TEST(SelectVisibleTest, AnAffinityMaskCountsGpusAndLeavesProcessorsAlone) {
  EXPECT_EQ(Select(Mask("1")), (Seen{{2}, {0}}));
  EXPECT_EQ(Select(Mask("1,0")), (Seen{{1}, {2}, {0}}));
  EXPECT_EQ(Select(Mask("0.1,1")), (Seen{{1, 1}, {2}, {0}}));
  EXPECT_EQ(Select(Mask("7")), (Seen{{0}}));
  EXPECT_EQ(Select(Mask("0.2,1.1")), (Seen{{2, 1}, {0}}));
  const FoundDevice one_tile[] = {{}};
  EXPECT_EQ(Select(Mask("0.0"), one_tile), (Seen{{0}}));
  EXPECT_EQ(Select(Mask("0.1"), one_tile), Seen{});
}

TEST(SelectVisibleTest, SelectorsTakeByBackendKindAndNumber) {
  EXPECT_EQ(Select(Selector("opencl:gpu")), (Seen{{1}, {2}}));
  EXPECT_EQ(Select(Selector("opencl:*")), (Seen{{1}, {2}, {0}}));
  EXPECT_EQ(Select(Selector("*:cpu")), (Seen{{0}}));
  EXPECT_EQ(Select(Selector(" Level_Zero : 0 , 1 ; ")), (Seen{{1}, {2}}));
  EXPECT_EQ(Select(Selector("level_zero:1")), (Seen{{2}}));
  EXPECT_EQ(Select(Selector("level_zero:*")), (Seen{{1}, {2}}));
  EXPECT_EQ(Select(Selector("level_zero:cpu")), Seen{});
  EXPECT_EQ(Select(Selector("level_zero:2")), Seen{});  // the processor is none of its devices
  EXPECT_EQ(Select(Selector("opencl:2")), (Seen{{0}}));
  EXPECT_EQ(Select(Selector("opencl:cpu;level_zero:0")), (Seen{{1}, {0}}));
  EXPECT_EQ(Select(Selector("cuda:*")), Seen{});
  EXPECT_EQ(Select(Selector("opencl:fpga")), Seen{});
}

TEST(SelectVisibleTest, SelectorsTakeTiles) {
  EXPECT_EQ(Select(Selector("level_zero:0.1")), (Seen{{1, 1}}));
  EXPECT_EQ(Select(Selector("level_zero:1.*")), (Seen{{2, 0}, {2, 1}}));
  EXPECT_EQ(Select(Selector("*:*.*")), (Seen{{1, 0}, {1, 1}, {2, 0}, {2, 1}, {0}}));
  EXPECT_EQ(Select(Selector("level_zero:0.2")), Seen{});
}

TEST(SelectVisibleTest, SelectorsDropWhatFollowsAnExclamationMark) {
  EXPECT_EQ(Select(Selector("!opencl:cpu")), (Seen{{1}, {2}}));
  EXPECT_EQ(Select(Selector("opencl:*;!opencl:gpu")), (Seen{{0}}));
  EXPECT_EQ(Select(Selector("!level_zero:0")), (Seen{{2}, {0}}));
  EXPECT_EQ(Select(Selector("*:*.*;!*:0.1;!*:cpu")), (Seen{{1, 0}, {2, 0}, {2, 1}}));
}

TEST(SelectVisibleTest, ASelectorNumbersWhatTheMaskLeaves) {
  const auto both = [](const char* variable) -> std::optional<std::string> {
    if (std::string_view(variable) == "ZE_AFFINITY_MASK") return "1.1";
    return Only("ONEAPI_DEVICE_SELECTOR", "level_zero:0")(variable);
  };
  EXPECT_EQ(Select(ReadVisibleDevices(DeviceKind::kXpu, both)), (Seen{{2, 1}}));
}

TEST(SelectVisibleTest, TheFlagsSayWhichKindsASelectorCanTake) {
  struct Case {
    const char* value;
    bool accelerators, host_processors;
  };
  for (const Case& c :
       {Case{"opencl:gpu", true, false}, Case{"*:cpu", false, true}, Case{"opencl:0", true, true},
        Case{"level_zero:0", true, false}, Case{"!*:cpu", true, false},
        Case{"*:*;!*:gpu", false, true}, Case{"!*:0", true, true}, Case{"cuda:*", false, false}}) {
    const auto visible = Selector(c.value);
    ASSERT_TRUE(visible.ok()) << c.value;
    EXPECT_EQ(visible->accelerators, c.accelerators) << c.value;
    EXPECT_EQ(visible->host_processors, c.host_processors) << c.value;
  }
}

TEST(ExportToDriverTest, ADriverGetsTheListAsWeReadIt) {
  const auto exported = [](const char* value) -> std::string {
    setenv("CUDA_VISIBLE_DEVICES", value, 1);
    ExportToDriver(DeviceKind::kCuda, *ReadVisibleDevices(DeviceKind::kCuda, ProcessEnvironment()));
    const char* now = std::getenv("CUDA_VISIBLE_DEVICES");
    return now == nullptr ? "unset" : now;
  };
  EXPECT_EQ(exported(" 2 , GPU-1f ,"), "2,GPU-1f");
  EXPECT_EQ(exported("0,-1,1"), "0");
  EXPECT_EQ(exported("-1"), "-1");
  EXPECT_EQ(exported("  "), "unset");  // CUDA's driver would see no device
  ExportToDriver(DeviceKind::kCuda, {});
  ExportToDriver(DeviceKind::kCpu, {});
  EXPECT_EQ(std::getenv("CUDA_VISIBLE_DEVICES"), nullptr);
  setenv("ZE_AFFINITY_MASK", " 1, 0.1 ", 1);
  ExportToDriver(DeviceKind::kXpu, *ReadVisibleDevices(DeviceKind::kXpu, ProcessEnvironment()));
  EXPECT_STREQ(std::getenv("ZE_AFFINITY_MASK"), "0.1,1");
  unsetenv("ZE_AFFINITY_MASK");
}

TEST(ExportToDriverTest, MessagesQuoteWhatTheUserSet) {
  const auto described = [] {
    const auto visible = ReadVisibleDevices(DeviceKind::kCuda, ProcessEnvironment());
    ExportToDriver(DeviceKind::kCuda, *visible);
    return Describe(DeviceKind::kCuda, *visible);
  };
  for (const char* value : {"0, ", " ", "0"}) {
    setenv("CUDA_VISIBLE_DEVICES", value, 1);
    const std::string first = described();
    EXPECT_EQ(first, StrCat("CUDA_VISIBLE_DEVICES=\"", value, "\""));
    EXPECT_EQ(described(), first);
    EXPECT_EQ(described(), first);
  }
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EQ(described(), "CUDA_VISIBLE_DEVICES=\"1\"") << "set anew";
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(HiddenFromDriverTest, TheVariableIsGoneAndComesBackAsItWas) {
  setenv("ZE_AFFINITY_MASK", " 1,", 1);
  {
    const HiddenFromDriver cuda(DeviceKind::kCuda), cpu(DeviceKind::kCpu);
    EXPECT_STREQ(std::getenv("ZE_AFFINITY_MASK"), " 1,");
    const HiddenFromDriver xpu(DeviceKind::kXpu);
    EXPECT_EQ(std::getenv("ZE_AFFINITY_MASK"), nullptr);
  }
  EXPECT_STREQ(std::getenv("ZE_AFFINITY_MASK"), " 1,");
  unsetenv("ZE_AFFINITY_MASK");
  { const HiddenFromDriver xpu(DeviceKind::kXpu); }
  EXPECT_EQ(std::getenv("ZE_AFFINITY_MASK"), nullptr);
}

}  // namespace
}  // namespace sluice::device
