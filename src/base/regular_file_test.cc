#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace sluice {
namespace {

// A path that is free, whose file goes with the test.
class RegularFileTest : public testing::Test {
 protected:
  ~RegularFileTest() override { std::remove(path_.c_str()); }

  const std::string path_ =
      testing::TempDir() + "sluice_regular_file_" + std::to_string(getpid()) + ".txt";
};

TEST_F(RegularFileTest, IsReadWholeUpToTheLimit) {
  EXPECT_EQ(ReadRegularFile(path_, 10).status().code(), StatusCode::kNotFound);
  std::ofstream(path_) << "0123456789";
  EXPECT_EQ(ReadRegularFile(path_, 10).value(), "0123456789");
  EXPECT_EQ(ReadRegularFile(path_, 9).status().code(), StatusCode::kTooLarge);
}

// Nobody writes to the pipe: a blocking call would never return.
TEST_F(RegularFileTest, NothingElseIsOpened) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {path_, std::string("/dev/zero"), testing::TempDir()}) {
    const Status status = ReadRegularFile(path, 1 << 20).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace sluice
