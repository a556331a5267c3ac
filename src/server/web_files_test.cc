#include "server/web_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(WebFiles, ThePageIsThereAndSmall) {
  ASSERT_NE(FindWebFile("/"), nullptr);
  EXPECT_EQ(FindWebFile("/")->content_type, "text/html; charset=utf-8");
  EXPECT_TRUE(FindWebFile("/")->bytes.starts_with("<!doctype html>"));
  EXPECT_EQ(FindWebFile("/web/none.js"), nullptr);
  size_t bytes = 0;
  for (const WebFile& file : WebFiles()) bytes += file.bytes.size();
  EXPECT_LT(bytes, 150u << 10);
}

TEST(WebFiles, WhatThePageNamesIsThere) {
  const std::string page(FindWebFile("/")->bytes);
  size_t named = 0;
  for (size_t at = page.find("\"/web/"); at != std::string::npos; at = page.find("\"/web/", at)) {
    const size_t end = page.find('"', ++at);
    EXPECT_NE(FindWebFile(page.substr(at, end - at)), nullptr) << page.substr(at, end - at);
    ++named;
  }
  EXPECT_GE(named, 3u);
}

// Text of a model, of a file or of a user becomes a text node; the page has no way to markup, and
// its policy (routes_test.cc) runs no script that stands in it.
TEST(WebFiles, NoTextBecomesMarkup) {
  for (const WebFile& file : WebFiles()) {
    const std::string text(file.bytes);
    for (const char* way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                            "eval(", "new Function", "javascript:"}) {
      EXPECT_THAT(text, Not(HasSubstr(way))) << file.path;
    }
    for (const char* elsewhere : {"src=\"http", "href=\"http", "from \"http", "url(http"}) {
      EXPECT_THAT(text, Not(HasSubstr(elsewhere))) << file.path;
    }
  }
}

}  // namespace
}  // namespace sluice::server
