#include "server/http/target.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(TargetTest, GivesTheQueryAndItsValues) {
  EXPECT_EQ(QueryOf("/props?model=a%2Fb&x=1"), "model=a%2Fb&x=1");
  EXPECT_EQ(QueryOf("http://host?model=a"), "model=a");
  EXPECT_EQ(QueryOf("/props"), "");
  EXPECT_EQ(QueryValue("x=1&model=a%2Fb+c", "model"), "a/b c");
  EXPECT_EQ(QueryValue("model=a%4&model=b", "model"), "a%4");
  EXPECT_EQ(QueryValue("model&models=a&=b", "model"), "");
}

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

TEST(TargetTest, GivesTheAuthorityOfAnAbsoluteForm) {
  EXPECT_EQ(AuthorityOf("http://host:8000/v1/models?a"), "host:8000");
  EXPECT_EQ(AuthorityOf("HTTPS://Host"), "Host");
  EXPECT_EQ(AuthorityOf("http://host?a"), "host");
  EXPECT_EQ(AuthorityOf("http:///path"), "");
  for (const char* other : {"/v1/models", "/http://host", "ftp://host/a", "*", "null", ""}) {
    EXPECT_EQ(AuthorityOf(other), std::nullopt) << other;
  }
}

TEST(TargetTest, GivesTheHostOfAnAuthority) {
  EXPECT_EQ(HostOf("localhost:8000"), "localhost");
  EXPECT_EQ(HostOf("Example.COM."), "example.com");
  EXPECT_EQ(HostOf("my_host-1:"), "my_host-1");
  EXPECT_EQ(HostOf("127.0.0.1:65535"), "127.0.0.1");
  EXPECT_EQ(HostOf("[::1]:8000"), "::1");
  EXPECT_EQ(HostOf("[2001:DB8::1]"), "2001:db8::1");
  for (const char* wrong :
       {"",           ".",           ":80",        "a b",         "a,b",
        "a/b",        "user@host",   "host:65536", "host:-1",     "host:8x",
        "host:80:80", "::1",         "[::1",       "[::1]x",      "[]",
        "[::g]",      "[localhost]", "h\xc3\xa9",  "localhost\t", "%6cocalhost"}) {
    EXPECT_EQ(HostOf(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(HostOf(std::string_view("localhost\0", 10)), std::nullopt);
}

TEST(TargetTest, KnowsTheLoopbackNames) {
  for (const char* name : {"localhost", "127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(IsLoopbackName(name)) << name;
  }
  for (const char* name : {"", "localhost.example.com", "127.0.0.1.nip.io", "127.example.com",
                           "128.0.0.1", "0.0.0.0", "127.1", "2130706433", "::2", "x"}) {
    EXPECT_FALSE(IsLoopbackName(name)) << name;
  }
}

}  // namespace
}  // namespace sluice::server
