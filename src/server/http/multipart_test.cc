#include "server/http/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::server {
namespace {

using ::testing::HasSubstr;

constexpr const char* kType = "multipart/form-data; boundary=XX";
const std::string kBody =
    "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
    "--XX\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".jsonl\"\r\n"
    "Content-Type: application/octet-stream\r\n\r\n{}\r\n\r\n--X\r\n--XX--\r\n";

TEST(MultipartTest, PartsHaveNamesAndTheirBytes) {
  for (const char* type : {kType, "Multipart/Form-Data; charset=utf-8; Boundary=\"XX\""}) {
    const auto parts = ParseForm(type, kBody);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    ASSERT_EQ(parts->size(), 2u);
    EXPECT_EQ((*parts)[0].name, "purpose");
    EXPECT_EQ((*parts)[0].content, "batch");
    EXPECT_EQ((*parts)[0].filename, "");
    EXPECT_EQ((*parts)[1].name, "file");
    EXPECT_EQ((*parts)[1].filename, "a \"b\".jsonl");
    EXPECT_EQ((*parts)[1].content, "{}\r\n\r\n--X");
  }
}

TEST(MultipartTest, APartMayBeEmptyAndAFormToo) {
  const auto parts =
      ParseForm(kType, "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--XX--");
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  EXPECT_EQ(parts->at(0).content, "");
  EXPECT_EQ(ParseForm(kType, "--XX--")->size(), 0u);
}

TEST(MultipartTest, WhatIsBrokenIsSaid) {
  const auto refusal = [](const char* type, const std::string& body) {
    return ParseForm(type, body).status().message();
  };
  EXPECT_THAT(refusal("application/json", kBody), HasSubstr("has the type"));
  EXPECT_THAT(refusal("multipart/form-data", kBody), HasSubstr("has the boundary \"\""));
  EXPECT_THAT(refusal(kType, "XX" + kBody), HasSubstr("does not begin"));
  EXPECT_THAT(refusal(kType, "--XX\r\n\r\n--XX--"), HasSubstr("no header"));
  EXPECT_THAT(refusal(kType, "--XX\r\nA: b\r\n\r\n1\r\n--XX--"), HasSubstr("without a name"));
  EXPECT_THAT(refusal(kType, "--XX\r\nnothing\r\n\r\n1\r\n--XX--"), HasSubstr("no header"));
  std::string many;
  for (size_t i = 0; i <= kFormPartsMax; ++i) {
    many += "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n";
  }
  EXPECT_THAT(refusal(kType, many + "--XX--"), HasSubstr("more than 32 parts"));
  // Cut anywhere it is refused or whole.
  for (size_t size = 0; size + 4 < kBody.size(); ++size) {
    EXPECT_FALSE(ParseForm(kType, kBody.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace sluice::server
