#include "files/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "files/test_files.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;

std::vector<std::string> NamesIn(const TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Files of this process cannot grow beyond `bytes` while it lives: a full disk without a disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_;
  void (*old_handler_)(int);
};

// Once with a file that has no name until the end, once with a hidden one.
class AtomicFileTest : public ::testing::TestWithParam<bool> {
 protected:
  AtomicFile::Options Options(bool replace) const {
    return {.replace = replace, .hidden_name = GetParam()};
  }
  const TempFolder folder_;
  const std::string path_ = folder_.path() + "/out.gguf";
};

INSTANTIATE_TEST_SUITE_P(NamelessAndHidden, AtomicFileTest, ::testing::Bool());

TEST_P(AtomicFileTest, AppearsOnlyWhenItIsComplete) {
  auto file = AtomicFile::Create(path_, Options(false)).value();
  ASSERT_TRUE(file->Reserve(6).ok());
  ASSERT_TRUE(file->Write(AsBytes("abc")).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(file->Write(AsBytes("def")).ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(ContentOf(path_), "abcdef");
  file.reset();
  EXPECT_THAT(NamesIn(folder_), ElementsAre("out.gguf"));
}

TEST_P(AtomicFileTest, LeavesNothingWhenItIsGivenUp) {
  auto file = AtomicFile::Create(path_, Options(false)).value();
  ASSERT_TRUE(file->Write(AsBytes("abc")).ok());
  file.reset();
  EXPECT_THAT(NamesIn(folder_), IsEmpty());
}

TEST_P(AtomicFileTest, GivenUpItLeavesTheOldFile) {
  folder_.Write("out.gguf", "old");
  auto file = AtomicFile::Create(path_, Options(true)).value();
  ASSERT_TRUE(file->Write(AsBytes("new")).ok());
  file.reset();
  EXPECT_EQ(ContentOf(path_), "old");
  EXPECT_THAT(NamesIn(folder_), ElementsAre("out.gguf"));
}

TEST_P(AtomicFileTest, ReplacesOnlyWhenTold) {
  folder_.Write("out.gguf", "old");
  const Status refused = AtomicFile::Create(path_, Options(false)).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("--force"));
  auto file = AtomicFile::Create(path_, Options(true)).value();
  ASSERT_TRUE(file->Write(AsBytes("new")).ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(ContentOf(path_), "new");
  EXPECT_THAT(NamesIn(folder_), ElementsAre("out.gguf"));
}

TEST_P(AtomicFileTest, AFileThatAppearsMeanwhileIsNotReplaced) {
  auto file = AtomicFile::Create(path_, Options(false)).value();
  ASSERT_TRUE(file->Write(AsBytes("new")).ok());
  folder_.Write("out.gguf", "other");
  EXPECT_EQ(file->Commit().code(), StatusCode::kInvalidArgument);
  file.reset();
  EXPECT_EQ(ContentOf(path_), "other");
  EXPECT_THAT(NamesIn(folder_), ElementsAre("out.gguf"));
}

TEST_P(AtomicFileTest, AFullDiskIsOneErrorAndLeavesNothing) {
  const FileSizeLimit limit(4096);
  for (const bool reserve : {true, false}) {
    auto file = AtomicFile::Create(path_, Options(false)).value();
    const std::vector<std::byte> bytes(8192);
    const Status status = reserve ? file->Reserve(bytes.size()) : file->Write(bytes);
    EXPECT_EQ(status.code(), StatusCode::kIo);
    EXPECT_THAT(status.message(), HasSubstr("choose another folder"));
    file.reset();
    EXPECT_THAT(NamesIn(folder_), IsEmpty());
  }
}

TEST_P(AtomicFileTest, WhatIsNoFileIsNotReplaced) {
  EXPECT_EQ(AtomicFile::Create(folder_.path(), Options(true)).status().code(),
            StatusCode::kInvalidArgument);
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(AtomicFile::Create(pipe, Options(true)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create(folder_.path() + "/absent/x", Options(true)).status().code(),
            StatusCode::kIo);
}

// Every type of value, with integers at their limits, which a typed copy would widen or lose.
testing::GgufWriter EveryMetadataType() {
  testing::GgufWriter file;
  file.alignment = 64;
  file.Scalar<uint8_t>("u8", 0, 200)
      .Scalar<int8_t>("i8", 1, -100)
      .Scalar<uint16_t>("u16", 2, 60000)
      .Scalar<int16_t>("i16", 3, -30000)
      .U32("general.alignment", 64)
      .Scalar<int32_t>("i32", 5, -2000000000)
      .F32("f32", 0.1f)
      .Bool("yes", true)
      .String("text", "caf\xc3\xa9")
      .Scalar<uint64_t>("u64", 10, UINT64_MAX)
      .Scalar<int64_t>("i64", 11, INT64_MIN)
      .Scalar<double>("f64", 12, 1e300)
      .Array<int16_t>("ints", 3, {-1, 2})
      .Array<float>("floats", 6, {0.1f})
      .Array<uint8_t>("bools", 7, {1, 0, 1})
      .Strings("strings", {"a", "", "bc"})
      .Array<uint32_t>("empty", 4, {});
  return file;
}

TEST(GgufFileWriterTest, WhatIsWrittenIsReadBack) {
  testing::GgufWriter source = EveryMetadataType();
  source.AddFloats("norm", {1, 2, 3}).Add("matrix", DType::kQ4_K, {2, 256});
  for (size_t i = 0; i < source.data.size(); ++i) source.data[i] ^= static_cast<std::byte>(i);
  const auto bytes = source.Bytes();
  const auto in = GgufFile::FromMemory(bytes, "source").value();
  ASSERT_EQ(in->alignment(), 64u);
  GgufLayout layout{in->entries(), in->alignment(), {}};
  for (const FileTensor& tensor : in->tensors()) {
    layout.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  TempFolder folder;
  const std::string path = folder.path() + "/out.gguf";
  auto writer = GgufFileWriter::Create(path, layout, {}).value();
  for (const FileTensor& tensor : in->tensors()) {
    ASSERT_TRUE(writer->Append(tensor.data.first(5)).ok());
    ASSERT_TRUE(writer->Append(tensor.data.subspan(5)).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(std::filesystem::file_size(path), writer->size());

  const auto out = GgufFile::Open(path).value();
  EXPECT_EQ(out->alignment(), 64u);
  ASSERT_EQ(out->entries().size(), in->entries().size());
  for (size_t i = 0; i < in->entries().size(); ++i) {
    const GgufEntry &before = in->entries()[i], &after = out->entries()[i];
    EXPECT_EQ(after.key, before.key);
    EXPECT_TRUE(std::ranges::equal(after.bytes, before.bytes)) << before.key;
  }
  ASSERT_EQ(out->tensors().size(), in->tensors().size());
  for (const FileTensor& before : in->tensors()) {
    const FileTensor* after = out->Find(before.name);
    ASSERT_NE(after, nullptr) << before.name;
    EXPECT_EQ(after->dtype, before.dtype);
    EXPECT_EQ(after->shape, before.shape);
    EXPECT_TRUE(std::ranges::equal(after->data, before.data)) << before.name;
  }
}

TEST(GgufFileWriterTest, AnEntryOfOurOwnIsReadBack) {
  const std::vector<std::byte> value = GgufU32(4000000000u);
  TempFolder folder;
  const std::string path = folder.path() + "/out.gguf";
  auto writer = GgufFileWriter::Create(path, {{{"n", value}}, 32, {}}, {}).value();
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(*GgufFile::Open(path).value()->Integer("n").value(), 4000000000);
}

TEST(GgufFileWriterTest, AFullDiskIsKnownBeforeTheFirstTensor) {
  TempFolder folder;
  const FileSizeLimit limit(4096);
  const auto writer = GgufFileWriter::Create(folder.path() + "/out.gguf",
                                             {{}, 32, {{"a", DType::kF32, {1, 4096}}}}, {});
  EXPECT_EQ(writer.status().code(), StatusCode::kIo);
  EXPECT_THAT(NamesIn(folder), IsEmpty());
}

}  // namespace
}  // namespace sluice::files
