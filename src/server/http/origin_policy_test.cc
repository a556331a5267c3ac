#include "server/http/origin_policy.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

OriginPolicy Policy(const std::string& origins) {
  auto policy = OriginPolicy::Parse(origins);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return *policy;
}

HttpRequest From(const std::string& origin) {
  HttpRequest head;
  head.method = "OPTIONS";
  head.origin = origin;
  head.asked_method = "POST";
  head.asked_headers = "authorization,content-type,x-stainless-os";
  return head;
}

TEST(OriginPolicyTest, NoPageMayReadAnAnswerByDefault) {
  const OriginPolicy none = Policy("");
  EXPECT_EQ(none.FieldsFor(From("https://a.example")), "");
  EXPECT_FALSE(none.Preflight(From("https://a.example")).has_value());
}

TEST(OriginPolicyTest, ANamedOriginMay) {
  const OriginPolicy policy = Policy("https://a.example,http://localhost:3000");
  for (const char* origin : {"https://a.example", "http://localhost:3000"}) {
    EXPECT_EQ(policy.FieldsFor(From(origin)),
              std::string("Access-Control-Allow-Origin: ") + origin +
                  "\r\nVary: Origin\r\nAccess-Control-Expose-Headers: X-Request-Id, "
                  "Retry-After\r\n");
    const auto answer = policy.Preflight(From(origin));
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->headers.at(1).second, "authorization,content-type,x-stainless-os");
  }
  for (const char* origin : {"", "null", "http://a.example", "https://a.example:444",
                             "https://a.example.evil", "http://localhost"}) {
    EXPECT_EQ(policy.FieldsFor(From(origin)), "") << origin;
    EXPECT_FALSE(policy.Preflight(From(origin)).has_value()) << origin;
  }
}

TEST(OriginPolicyTest, AStarIsEveryOne) {
  const OriginPolicy policy = Policy("*");
  EXPECT_TRUE(policy.FieldsFor(From("null")).starts_with("Access-Control-Allow-Origin: *\r\n"));
  EXPECT_EQ(policy.FieldsFor(From("")), "");  // no browser
}

TEST(OriginPolicyTest, OnlyAPreflightIsAnsweredForThePage) {
  const OriginPolicy policy = Policy("*");
  HttpRequest head = From("https://a.example");
  head.asked_method = "";
  EXPECT_FALSE(policy.Preflight(head).has_value());
  head = From("https://a.example");
  head.method = "POST";
  EXPECT_FALSE(policy.Preflight(head).has_value());
}

TEST(OriginPolicyTest, NothingOfThePageEndsALine) {
  HttpRequest head = From("https://a.example");
  head.asked_headers = "a\r\nSet-Cookie: b";
  EXPECT_EQ(Policy("*").Preflight(head)->headers.at(1).second, "authorization, content-type");
}

TEST(OriginPolicyTest, WhatIsNoOriginIsAnError) {
  for (const char* origin : {"a.example", "https://", "https://a.example/", "ftp://a.example",
                             "https://a.example/x", "null", "https://a b"}) {
    EXPECT_EQ(OriginPolicy::Parse(origin).status().field(), "allow-origin") << origin;
  }
}

}  // namespace
}  // namespace sluice::server
