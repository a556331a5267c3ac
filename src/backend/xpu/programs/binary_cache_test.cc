// Files of the cache that are not what was stored. No device is needed.
#include "backend/xpu/programs/binary_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/str_cat.h"

namespace sluice::xpu {
namespace {

namespace fs = std::filesystem;

const std::string kKey = "device\ndriver\n-D ITEMS=1\nsource";

class BinaryCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "sluice-binary-cache";
    fs::remove_all(folder_);
    cache_.emplace(folder_);
    cache_->Store(kKey, {1, 2, 3, 4});
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path Path() const { return fs::directory_iterator(folder_)->path(); }
  std::string Bytes() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& bytes) const {
    std::ofstream(Path(), std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string folder_;
  std::optional<BinaryCache> cache_;
};

// What this process has read, by the system's count.
int64_t BytesRead() {
  std::ifstream file("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  file >> name >> bytes;
  return bytes;
}

TEST_F(BinaryCacheTest, GivesWhatWasStored) {
  EXPECT_EQ(cache_->Load(kKey), (std::vector<unsigned char>{1, 2, 3, 4}));
  EXPECT_FALSE(cache_->Load("another").has_value());
  cache_->Store("", {});
  EXPECT_EQ(cache_->Load(""), std::vector<unsigned char>{});
}

TEST_F(BinaryCacheTest, AnyByteThatIsMissingOrChangedMakesItNothing) {
  const std::string whole = Bytes();
  for (size_t i = 0; i < whole.size(); ++i) {
    Write(whole.substr(0, i));
    EXPECT_FALSE(cache_->Load(kKey).has_value()) << "cut at " << i;
    std::string changed = whole;
    changed[i] ^= 1;
    Write(changed);
    EXPECT_FALSE(cache_->Load(kKey).has_value()) << "changed at " << i;
  }
  Write(whole + "x");
  EXPECT_FALSE(cache_->Load(kKey).has_value());
  Write(whole);
  EXPECT_TRUE(cache_->Load(kKey).has_value());
}

TEST_F(BinaryCacheTest, OfAFileThatIsNoneOnlyTheHeadIsRead) {
  const std::string whole = Bytes();
  for (const std::string& head : {std::string(), whole.substr(0, 13), whole}) {
    Write(head);
    fs::resize_file(Path(), uintmax_t{200} << 20);
    const int64_t before = BytesRead();
    EXPECT_FALSE(cache_->Load(kKey).has_value());
    EXPECT_GT(BytesRead(), before);
    EXPECT_LT(BytesRead() - before, 1 << 20);
  }
}

TEST(BinaryCacheFolderTest, WithoutAFolderTheVariablesAreNamed) {
  ::testing::internal::CaptureStderr();
  BinaryCache cache("");
  cache.Store(kKey, {1});
  EXPECT_FALSE(cache.Load(kKey).has_value());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("neither SLUICE_CACHE, XDG_CACHE_HOME nor HOME is set"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace sluice::xpu
