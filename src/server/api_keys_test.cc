// The key file: what is wrong with one is told with file and line, and without the keys.
#include "server/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/str_cat.h"

namespace sluice::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ApiKeysTest : public ::testing::Test {
 protected:
  Result<ApiKeys> Load(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return ApiKeys::Load(path_);
  }
  // What is wrong with a file of this text.
  std::string Fault(const std::string& text) {
    const auto keys = Load(text);
    EXPECT_EQ(keys.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(keys.status().field(), "api-key-file");
    return keys.status().message();
  }

  const std::string path_ = ::testing::TempDir() + "/sluice_api_keys_test";
};

TEST_F(ApiKeysTest, AWrongLineIsNamed) {
  const std::string file = StrCat("the key file \"", path_, "\"");
  EXPECT_EQ(Fault("# none\n"), StrCat(file, " holds no key; write one a line"));
  EXPECT_EQ(Fault("secret-a\n\nsecret-b weight=0\n"),
            StrCat(file, ", line 3, has weight=\"0\"; a weight is a whole number from 1 to 1000"));
  EXPECT_THAT(Fault("secret weight=1001\n"), HasSubstr("line 1, has weight=\"1001\""));
  EXPECT_THAT(Fault("# c\nsecret name=\n"), HasSubstr("line 2, has name=\"\""));
  EXPECT_THAT(Fault("secret name=\x1b[2J\n"), HasSubstr("line 1, has name=\"\\x1b[2J\""));
  EXPECT_THAT(Fault(StrCat("secret name=", std::string(65, 'n'), "\n")), HasSubstr("1 to 64"));
  EXPECT_THAT(Fault("a\nsecret-b secret-c\n"),
              AllOf(HasSubstr("line 2, has something behind a key"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Fault(StrCat("a\n", std::string(4097, 'k'), " admin\n")),
              HasSubstr("line 2, has a key of 4097 bytes; the limit is 4096"));
  // Of which one would become a part of the first key, and no header can hold the other.
  EXPECT_THAT(Fault("\xEF\xBB\xBFkey\n"), HasSubstr("line 1, begins with a byte order mark"));
  EXPECT_THAT(Fault(std::string("a\nkey\0\n", 7)), HasSubstr("line 2, has a NUL byte"));
  EXPECT_THAT(ApiKeys::Load("/no/such/file").status().message(), HasSubstr("/no/such/file"));
}

TEST_F(ApiKeysTest, WhatStandsTwiceMustAgree) {
  EXPECT_THAT(Fault("# two\na admin\nb\na\n"),
              HasSubstr("line 4, has the key of line 2 with different flags"));
  Fault("a weight=2\nb\na weight=3\n");
  Fault("a name=one\na name=two\n");
  EXPECT_TRUE(Load("a admin\na admin\n").ok());
  EXPECT_TRUE(Load("a name=one\na name=one\n").ok());
}

TEST_F(ApiKeysTest, ANameIsThatOfOneKey) {
  EXPECT_THAT(Fault("secret-a name=team\nb name=other\nsecret-c name=team\n"),
              AllOf(HasSubstr("line 3, has the name \"team\", which the key of line 1 has"),
                    Not(HasSubstr("secret"))));
  EXPECT_TRUE(Load("a name=one\nb name=two\nc\nd\n").ok());
}

}  // namespace
}  // namespace sluice::server
