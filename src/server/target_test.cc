#include "server/target.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(TargetTest, GivesThePathOfEveryForm) {
  EXPECT_EQ(PathOf("/v1/models"), "/v1/models");
  EXPECT_EQ(PathOf("/v1/models?a=/b"), "/v1/models");
  EXPECT_EQ(PathOf("http://host:8000/v1/models?a"), "/v1/models");
  EXPECT_EQ(PathOf("HTTPS://host/"), "/");
  EXPECT_EQ(PathOf("http://host"), "/");
  EXPECT_EQ(PathOf("http://host?a=/b"), "/");
  EXPECT_EQ(PathOf("http://"), "/");
  EXPECT_EQ(PathOf("/http://host/a"), "/http://host/a");
  EXPECT_EQ(PathOf("ftp://host/a"), "ftp://host/a");
  EXPECT_EQ(PathOf("*"), "*");
  EXPECT_EQ(PathOf(""), "");
}

}  // namespace
}  // namespace sluice::server
