#include "fetch/package_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/http_client.h"

namespace sluice::fetch {
namespace {

const std::string kSha256(64, 'a');
constexpr char kJson[] = "application/vnd.pypi.simple.v1+json";

TEST(PackageIndexTest, AFileIsFoundInBothForms) {
  const std::string json = R"({"files":[{"filename":"a-1.whl","url":"x"},{"filename":"b-1.whl",)"
                           R"("url":"../../b-1.whl","hashes":{"sha256":")" +
                           kSha256 + R"("}}]})";
  const std::string html =
      "<html><a href=\"../../a-1.whl\">a</a><a class=x href='../../b-1.whl?x&amp;y#sha256=" +
      kSha256 + "'>b-1.whl</a></html>";
  const auto in_json = FindInIndex(json, kJson, "b-1.whl");
  const auto in_html = FindInIndex(html, "text/html", "b-1.whl");
  ASSERT_TRUE(in_json.ok() && in_html.ok());
  EXPECT_EQ(in_json->url, "../../b-1.whl");
  EXPECT_EQ(in_html->url, "../../b-1.whl?x&y");
  for (const auto& found : {*in_json, *in_html}) {
    EXPECT_EQ(found.checksum, (Checksum{Checksum::Kind::kSha256, kSha256}));
  }
  EXPECT_EQ(FindInIndex(html, "text/html", "a-1.whl")->checksum, Checksum());
}

TEST(PackageIndexTest, WhatIsNotThereOrBrokenIsAnError) {
  for (const char* page : {"", "<a href=", "<a href=\"", "<a href=\"c-1.whl", "<a href=c-1.whl>",
                           "<a href=\"c-1.whl.metadata\">", "<a href=\"x#c-1.whl\">"}) {
    EXPECT_EQ(FindInIndex(page, "text/html", "c-1.whl").status().code(), StatusCode::kNotFound)
        << page;
  }
  for (const char* page : {"{}", "[]", R"({"files":{}})", R"({"files":[1,{"filename":1}]})"}) {
    EXPECT_EQ(FindInIndex(page, kJson, "c-1.whl").status().code(), StatusCode::kNotFound) << page;
  }
  EXPECT_EQ(FindInIndex("<html>", kJson, "c-1.whl").status().code(), StatusCode::kIo);
}

TEST(UrlTest, ReferencesMeanWhatTheyMeanInABrowser) {
  const std::string base = "https://index.example/simple/pkg/";
  EXPECT_EQ(*ResolveUrl(base, "../../files/x.whl"), "https://index.example/files/x.whl");
  EXPECT_EQ(*ResolveUrl(base, "/x.whl#sha256=1"), "https://index.example/x.whl");
  EXPECT_EQ(*ResolveUrl(base, "https://files.example/x.whl"), "https://files.example/x.whl");
  EXPECT_FALSE(ResolveUrl(base, "file:///etc/passwd").ok());
}

TEST(UrlTest, APasswordStaysOnItsHost) {
  const std::string base = "https://me:secret@index.example/simple/pkg/";
  EXPECT_EQ(*ResolveUrl(base, "x.whl"), "https://me:secret@index.example/simple/pkg/x.whl");
  EXPECT_EQ(*ResolveUrl(base, "https://index.example/x"), "https://me:secret@index.example/x");
  for (const char* elsewhere : {"https://files.example/x", "http://index.example/x",
                                "https://index.example:8443/x", "//files.example/x"}) {
    EXPECT_EQ(ResolveUrl(base, elsewhere)->find("secret"), std::string::npos) << elsewhere;
  }
  EXPECT_EQ(ShownUrl("https://me:secret@index.example/x?token=secret"), "https://index.example/x");
}

TEST(UrlTest, AnAddressIsOneOfHttp) {
  EXPECT_EQ(*CheckUrl("https://hub.example/", "it"), "https://hub.example");
  EXPECT_EQ(*CheckUrl("http://127.0.0.1:80/a//", "it"), "http://127.0.0.1:80/a");
  for (const char* bad :
       {"", "hub.example", "file:///x", "ftp://x", "https://", "https://a b/", "https://a/\n"}) {
    EXPECT_FALSE(CheckUrl(bad, "it").ok()) << bad;
  }
}

}  // namespace
}  // namespace sluice::fetch
