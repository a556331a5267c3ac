#include "cli/load/server_url.h"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

TEST(ServerUrlTest, HostPortAndPrefix) {
  struct Case {
    const char *text, *host;
    int port;
    const char *prefix, *field;
  };
  const Case cases[] = {
      {"http://127.0.0.1:8000", "127.0.0.1", 8000, "", "127.0.0.1:8000"},
      {"http://localhost:8000/", "localhost", 8000, "", "localhost:8000"},
      {"http://localhost:8000/v1", "localhost", 8000, "", "localhost:8000"},
      {"http://localhost/base/v1/", "localhost", 80, "/base", "localhost:80"},
      {"http://[::1]:65535/a", "::1", 65535, "/a", "[::1]:65535"},
      {"http://[::1]", "::1", 80, "", "[::1]:80"},
  };
  for (const Case& one : cases) {
    const auto url = ParseUrl(one.text);
    ASSERT_TRUE(url.ok()) << url.status().message();
    EXPECT_EQ(url->host, one.host) << one.text;
    EXPECT_EQ(url->port, one.port) << one.text;
    EXPECT_EQ(url->prefix, one.prefix) << one.text;
    EXPECT_EQ(url->HostField(), one.field) << one.text;
  }
}

TEST(ServerUrlTest, OtherAddressesAreRefused) {
  for (const char* text :
       {"", "localhost:8000", "https://localhost:8000", "http://", "http://:80",
        "http://a:", "http://a:0", "http://a:65536", "http://a:8x", "http://[::1", "http://[]:80",
        "http://[::1]80", "http://a b", "http://a:80/\r\nX: y", "http://u@a:80", "http://a/?b"}) {
    const auto url = ParseUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(url.status().field(), "url");
  }
}

}  // namespace
}  // namespace sluice::load
