#include "files/gguf_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "files/model_files.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::TinyGguf;

GgufWriter Part(int number, int count) {
  GgufWriter file = number == 0 ? TinyGguf("llama") : GgufWriter();
  file.Scalar<uint16_t>("split.no", 2, static_cast<uint16_t>(number))
      .Scalar<uint16_t>("split.count", 2, static_cast<uint16_t>(count));
  return file;
}

class GgufPartsTest : public ::testing::Test {
 protected:
  // Three parts: one tensor in the first, two in the second, none in the third.
  GgufPartsTest() {
    first_.Scalar<int32_t>("split.tensors.count", 5, 3);
    parts_[0].AddFloats("a", {1, 2}).AddFloats("b", {3, 4});
  }

  std::string Write() const {
    folder_.Write("x-00002-of-00003.gguf", parts_[0].Bytes());
    folder_.Write("x-00003-of-00003.gguf", parts_[1].Bytes());
    return folder_.Write("x-00001-of-00003.gguf", first_.Bytes());
  }

  static std::string ErrorOf(const std::string& path) {
    const auto file = GgufFile::Open(path);
    return file.ok() ? "no error" : file.status().message();
  }

  TempFolder folder_;
  GgufWriter first_ = Part(0, 3), parts_[2] = {Part(1, 3), Part(2, 3)};
};

TEST_F(GgufPartsTest, TheFirstOpensTheModel) {
  const std::string path = Write();
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->tensors().size(), 3u);
  EXPECT_EQ((*file)->Integer("llama.block_count").value(), 2);
  const FileTensor* const b = (*file)->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(reinterpret_cast<const float*>(b->data.data())[1], 4.0f);
  (*file)->Release(*b);
  const auto copy = (*file)->MapPrivately(*b);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(reinterpret_cast<const float*>(copy.get())[0], 3.0f);
  for (const GgufEntry& entry : (*file)->entries()) EXPECT_FALSE(entry.key.starts_with("split."));
  EXPECT_EQ((*file)->entries().size() + 3, first_.keys.size());
  ModelFiles model;
  model.path = path;
  model.is_gguf = true;
  EXPECT_EQ(ModelName(model), "x");
}

TEST_F(GgufPartsTest, WhatDoesNotBelongTogetherIsSaid) {
  const std::string path = Write();
  EXPECT_THAT(ErrorOf(folder_.path() + "/x-00002-of-00003.gguf"),
              HasSubstr("x-00001-of-00003.gguf"));
  const std::string other = folder_.Write("other.gguf", first_.Bytes());
  EXPECT_THAT(ErrorOf(other), HasSubstr("NAME-00001-of-00003.gguf"));
  folder_.Write("x-00003-of-00003.gguf", Part(1, 3).Bytes());
  EXPECT_THAT(ErrorOf(path), HasSubstr("x-00003-of-00003.gguf: the file says that it is number 1"));
  folder_.Write("x-00003-of-00003.gguf", Part(2, 3).AddFloats("a", {1}).Bytes());
  EXPECT_THAT(ErrorOf(path), HasSubstr("\"a\" stands in two files"));
  folder_.Write("x-00003-of-00003.gguf", Part(2, 3).AddFloats("c", {1}).Bytes());
  EXPECT_THAT(ErrorOf(path), HasSubstr("4 tensors, and the first says 3"));
  std::filesystem::remove(folder_.path() + "/x-00003-of-00003.gguf");
  EXPECT_EQ(GgufFile::Open(path).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(path), HasSubstr("x-00003-of-00003.gguf"));
}

TEST_F(GgufPartsTest, CountsThatCannotBeAreRefused) {
  const auto error_of = [&](GgufWriter file) {
    return ErrorOf(folder_.Write("x-00001-of-99999.gguf", file.Bytes()));
  };
  EXPECT_THAT(error_of(Part(0, 60000)), HasSubstr("the limit is 1024"));
  EXPECT_THAT(error_of(Part(0, 3)), HasSubstr("number 0 of 99999"));
  GgufWriter text = TinyGguf("llama");
  text.String("split.count", "three");
  EXPECT_THAT(error_of(text), HasSubstr("split.count"));
}

}  // namespace
}  // namespace sluice::files
