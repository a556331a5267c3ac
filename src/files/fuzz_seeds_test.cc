// The seeds of the fuzz targets are models that are read to the end: mutations of anything less
// would never get far.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/source_dir_fixture.h"
#include "files/gguf.h"
#include "files/mapped_file.h"
#include "files/model_config.h"

namespace sluice::files {
namespace {

constexpr size_t kSeedBytesMax = 64u << 10;  // of CONTRIBUTING.md: longer inputs are cut
constexpr int kSeedsMin = 5;

template <class Check>
void ForEachSeed(const std::string& target, Check&& check) {
  int seeds = 0;
  const std::string folder = SourceDir() + "/tests/fuzz/" + target;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++seeds;
    EXPECT_LE(entry.file_size(), kSeedBytesMax) << entry.path();
    check(entry.path().string());
  }
  EXPECT_GE(seeds, kSeedsMin);
}

TEST(FuzzSeeds, EveryGgufHasAConfig) {
  ForEachSeed("gguf", [](const std::string& path) {
    const auto file = GgufFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ((*file)->tensors().size(), 1u);
    const auto config = ConfigFromGguf(**file);
    EXPECT_TRUE(config.ok()) << path << ": " << config.status().message();
  });
}

TEST(FuzzSeeds, EveryConfigIsOne) {
  ForEachSeed("hf_config", [](const std::string& path) {
    const std::string text = ReadTextFile(path, kSeedBytesMax).value();
    const size_t cut = text.find('\0');
    ASSERT_NE(cut, std::string::npos) << path;
    const auto config = ConfigFromJson(text.substr(0, cut), text.substr(cut + 1));
    EXPECT_TRUE(config.ok()) << path << ": " << config.status().message();
  });
}

}  // namespace
}  // namespace sluice::files
