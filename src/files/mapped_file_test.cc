#include "files/mapped_file.h"

#include <gtest/gtest.h>

#include "files/mapped_range.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using testing::TempFolder;

// What a handler of SIGBUS says when the bytes are gone.
TEST(MappedFileTest, ItsBytesAndThoseMappedPrivatelyAreTold) {
  TempFolder folder;
  const std::string path = folder.Write("odd\x1bname", std::string(10'000, 'x'));
  auto file = MappedFile::Open(path).value();
  const std::byte* const data = file->bytes().data();
  const std::string shown = path.substr(0, path.size() - 8) + "odd\\x1bname";
  EXPECT_EQ(MappedRange::FileAt(data), std::string(shown));
  EXPECT_EQ(MappedRange::FileAt(data + 9'999), std::string(shown));
  EXPECT_EQ(MappedRange::FileAt(data + 10'000), nullptr);

  std::shared_ptr<std::byte> own = file->MapPrivately(file->bytes().subspan(5'000, 10));
  ASSERT_NE(own, nullptr);
  const std::byte* const own_data = own.get();
  file.reset();
  EXPECT_EQ(MappedRange::FileAt(data), nullptr);
  EXPECT_EQ(MappedRange::FileAt(own_data), std::string(shown));
  own.reset();
  EXPECT_EQ(MappedRange::FileAt(own_data), nullptr);
}

TEST(MappedFileTest, ManyFilesAreToldApart) {
  TempFolder folder;
  std::vector<std::shared_ptr<const MappedFile>> open;
  for (int round = 0; round < 2; ++round) {
    open.clear();
    for (int i = 0; i < 40; ++i) {
      open.push_back(
          MappedFile::Open(folder.Write("f" + std::to_string(i), std::string(100, 'x'))).value());
    }
    for (int i = 0; i < 40; ++i) {
      const std::string told = MappedRange::FileAt(open[i]->bytes().data());
      EXPECT_TRUE(told.ends_with("/f" + std::to_string(i))) << told;
    }
  }
}

}  // namespace
}  // namespace sluice::files
