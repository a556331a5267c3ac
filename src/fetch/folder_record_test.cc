#include "fetch/folder_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "fetch/download.h"
#include "fetch/folder_lock.h"
#include "fetch/part_file.h"

namespace sluice::fetch {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string name = (fs::temp_directory_path() / "sluice-fetch-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~FolderTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::string folder_;
};

TEST_F(FolderTest, ChecksumsAreThoseOfGitAndOfSha256sum) {
  // printf hello | sha256sum; printf hello | git hash-object --stdin
  const std::string path = Write("x", "hello");
  const std::string sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
  const std::string git = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
  EXPECT_EQ(*DigestOfFile(path, Checksum::Kind::kSha256, {}), sha256);
  EXPECT_EQ(*DigestOfFile(path, Checksum::Kind::kGitBlob, {}), git);
  EXPECT_TRUE(*HoldsFile(path, 5, ChecksumOf(sha256), {}));
  EXPECT_TRUE(*HoldsFile(path, std::nullopt, ChecksumOf(git), {}));
  EXPECT_FALSE(*HoldsFile(path, 4, ChecksumOf(sha256), {}));
  EXPECT_FALSE(*HoldsFile(path, 5, ChecksumOf(std::string(64, '0')), {}));
  EXPECT_FALSE(*HoldsFile(folder_, std::nullopt, ChecksumOf(sha256), {}));
  EXPECT_EQ(HoldsFile(path, 5, ChecksumOf(sha256), [] { return true; }).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(ChecksumOf("main").kind, Checksum::Kind::kNone);
  EXPECT_EQ(ChecksumOf(std::string(64, 'g')).kind, Checksum::Kind::kNone);
}

TEST_F(FolderTest, ARecordComesBackAsItWas) {
  FolderRecord record;
  record.files["config.json"] = {5, ChecksumOf(std::string(40, 'a'))};
  record.files["x.gguf"] = {7, {}};
  record.models[""] = {"c1", "", {"config.json"}};
  record.models["Q4_K_M"] = {"c2", "x.gguf", {"x.gguf"}};
  ASSERT_TRUE(WriteRecord(folder_, record).ok());
  const FolderRecord read = ReadRecord(folder_);
  EXPECT_EQ(read.files.at("config.json").checksum, record.files["config.json"].checksum);
  EXPECT_EQ(read.files.at("x.gguf").size, 7u);
  EXPECT_EQ(read.models.at("Q4_K_M").gguf, "x.gguf");
  EXPECT_EQ(read.models.at("Q4_K_M").files, std::vector<std::string>{"x.gguf"});
  EXPECT_EQ(WholeModel(read, folder_, "Q4_K_M"), nullptr);
  Write("x.gguf", "1234567");
  ASSERT_NE(WholeModel(read, folder_, "Q4_K_M"), nullptr);
  EXPECT_EQ(WholeModel(read, folder_, "Q4_K_M")->commit, "c2");
  Write("x.gguf", "123456");
  EXPECT_EQ(WholeModel(read, folder_, "Q4_K_M"), nullptr);
  EXPECT_EQ(WholeModel(read, folder_, "Q8_0"), nullptr);
}

TEST_F(FolderTest, AModelWithoutItsCommitIsNotWhole) {
  FolderRecord record;
  record.files["x"] = {1, {}};
  record.models[""] = {"", "", {"x"}};
  Write("x", "1");
  EXPECT_EQ(WholeModel(record, folder_, ""), nullptr);
  record.models[""].commit = "c";
  EXPECT_NE(WholeModel(record, folder_, ""), nullptr);
}

TEST_F(FolderTest, ABrokenRecordIsNone) {
  for (const char* text : {"", "{", "[]", R"({"files":1,"models":[]})",
                           R"({"files":{"../x":{"size":1},"y":{},"z":{"size":-1}}})",
                           R"({"models":{"":{"commit":1,"files":"x"}}})"}) {
    Write(".fetch.json", text);
    const FolderRecord record = ReadRecord(folder_);
    EXPECT_TRUE(record.files.empty()) << text;
    EXPECT_EQ(WholeModel(record, folder_, ""), nullptr) << text;
  }
}

TEST_F(FolderTest, APartBecomesTheFileAndItsNoteGoes) {
  const std::string path = Write("x", "old");
  PartFile part(path);
  ASSERT_TRUE(part.Open().ok());
  EXPECT_TRUE(part.ReadNote().etag.empty());
  ASSERT_TRUE(part.WriteNote({"c", "\"e\""}).ok());
  ASSERT_TRUE(part.Append(std::as_bytes(std::span("hello", 5))).ok());
  EXPECT_EQ(part.ReadNote().checksum, "c");
  EXPECT_EQ(part.ReadNote().etag, "\"e\"");
  EXPECT_EQ(PartBytes(path), 5u);
  PartFile again(path);
  ASSERT_TRUE(again.Open().ok());
  EXPECT_EQ(again.size(), 5u);
  ASSERT_TRUE(again.Append(std::as_bytes(std::span("!", 1))).ok());
  ASSERT_TRUE(again.Finish().ok());
  EXPECT_EQ(fs::file_size(path), 6u);
  EXPECT_FALSE(fs::exists(path + ".part.note"));
  EXPECT_EQ(PartBytes(path), 0u);
}

TEST_F(FolderTest, APartThatIsALinkOrAFolderIsNotWrittenTo) {
  const std::string target = Write("target", "precious");
  fs::create_symlink(target, folder_ + "/x.part");
  EXPECT_FALSE(PartFile(folder_ + "/x").Open().ok());
  fs::create_directory(folder_ + "/y.part");
  EXPECT_FALSE(PartFile(folder_ + "/y").Open().ok());
  EXPECT_EQ(fs::file_size(target), 8u);
}

TEST_F(FolderTest, RoomThatNoDiskHasIsSaid) {
  EXPECT_TRUE(CheckRoom(folder_, 0).ok());
  const Status status = CheckRoom(folder_, uint64_t{1} << 60);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("SLUICE_CACHE"), std::string::npos);
}

TEST_F(FolderTest, ALockIsWaitedForUntilTheUserStops) {
  const std::string folder = folder_ + "/a/b";
  int waits = 0, asked = 0;
  const auto wait = [&] { ++waits; };
  auto first = FolderLock::Take(folder, wait, {});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(waits, 0);
  const auto second = FolderLock::Take(folder, wait, [&] { return ++asked == 2; });
  EXPECT_EQ(second.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(waits, 1);
  first->reset();
  EXPECT_TRUE(FolderLock::Take(folder, wait, {}).ok());
  Write("file", "");
  EXPECT_EQ(FolderLock::Take(folder_ + "/file/x", {}, {}).status().code(), StatusCode::kIo);
}

TEST_F(FolderTest, AFetchThatFailsLeavesNoFolderOfItsOwn) {
  FolderLock::Take(folder_ + "/owner/name", {}, {}).value().reset();
  EXPECT_FALSE(fs::exists(folder_ + "/owner"));
  EXPECT_TRUE(fs::exists(folder_));
  // What was there before, or has come to be there, stays.
  fs::create_directories(folder_ + "/owner");
  FolderLock::Take(folder_ + "/owner/name", {}, {}).value().reset();
  EXPECT_TRUE(fs::exists(folder_ + "/owner"));
  EXPECT_FALSE(fs::exists(folder_ + "/owner/name"));
  {
    const auto lock = FolderLock::Take(folder_ + "/owner/name", {}, {});
    ASSERT_TRUE(lock.ok());
    Write("owner/name/config.json", "{}");
  }
  EXPECT_TRUE(fs::exists(folder_ + "/owner/name/config.json"));
}

TEST_F(FolderTest, WhoeverWaitsForALockThatIsRemovedTakesTheNextOne) {
  const std::string folder = folder_ + "/a";
  auto first = FolderLock::Take(folder, {}, {});
  ASSERT_TRUE(first.ok());
  const auto second = FolderLock::Take(folder, [&] { first->reset(); }, {});
  ASSERT_TRUE(second.ok());
  int asked = 0;
  const auto third = FolderLock::Take(folder, {}, [&] { return ++asked == 3; });
  EXPECT_EQ(third.status().code(), StatusCode::kCancelled);
}

TEST(RetryTest, OnlyWhatMayPassIsTriedAgain) {
  int calls = 0;
  const auto answer = [&](StatusCode code) {
    calls = 0;
    return WithRetries({.retries = 1}, [&]() -> Status {
      ++calls;
      return {code, "x"};
    });
  };
  EXPECT_EQ(answer(StatusCode::kNotFound).code(), StatusCode::kNotFound);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(answer(StatusCode::kUnavailable).code(), StatusCode::kUnavailable);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(WithRetries({.retries = 1, .stopped = [] { return true; }},
                        []() -> Status {
                          return {StatusCode::kUnavailable, "x"};
                        })
                .code(),
            StatusCode::kCancelled);
  const Status later =
      WithRetries({.retries = 1, .asked_pause = [] { return int64_t{3600}; }}, []() -> Status {
        return {StatusCode::kUnavailable, "x"};
      });
  EXPECT_EQ(later.code(), StatusCode::kUnavailable);
  EXPECT_THAT(later.message(), HasSubstr("3600 s"));
}

}  // namespace
}  // namespace sluice::fetch
