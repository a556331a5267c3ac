#include "backend/cpu/host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace sluice::cpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A folder that looks like the root of another machine; gone with the object.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice_host_XXXXXX").string();
    path_ = mkdtemp(name.data());
    Write("/proc/meminfo",
          "MemTotal:        1048576 kB\nMemFree:          10240 kB\nMemAvailable:     524288 kB\n");
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(HostTest, WithoutLimitsTheMachineCounts) {
  FakeRoot root;
  const auto info = HostMemory(root.path());
  EXPECT_EQ(info.total_bytes, 1024 * kMiB);
  EXPECT_EQ(info.free_bytes, 512 * kMiB);
}

TEST(HostTest, VersionTwoLimitsOfEveryLevelCount) {
  FakeRoot root;
  root.Write("/proc/self/cgroup", "0::/slice/job\n");
  root.Write("/sys/fs/cgroup/slice/job/memory.max", "max\n");
  root.Write("/sys/fs/cgroup/slice/memory.max", "268435456\n");
  root.Write("/sys/fs/cgroup/slice/memory.current", "134217728\n");
  root.Write("/sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file 67108864\n");
  const auto info = HostMemory(root.path());
  EXPECT_EQ(info.total_bytes, 256 * kMiB);
  EXPECT_EQ(info.free_bytes, 192 * kMiB);
}

TEST(HostTest, VersionOneLimitsCountAndItsNoLimitDoesNot) {
  FakeRoot root;
  root.Write("/proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/\n");
  root.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "104857600\n");
  root.Write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "209715200\n");
  root.Write("/sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 0\n");
  const auto info = HostMemory(root.path());
  EXPECT_EQ(info.total_bytes, 100 * kMiB);
  EXPECT_EQ(info.free_bytes, 0u);
}

TEST(HostTest, AMachineThatTellsNothingHasNothing) {
  FakeRoot root;
  root.Write("/proc/meminfo", "garbage\nMemTotal: lots\n");
  EXPECT_EQ(HostMemory(root.path()).total_bytes, 0u);
}

TEST(HostTest, SomeProcessorIsAllowed) { EXPECT_GE(AllowedCpus(), 1); }

}  // namespace
}  // namespace sluice::cpu
