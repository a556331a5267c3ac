#include "server/http/host_policy.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

HostPolicy PolicyOf(const std::string& allow_host, bool loopback_only) {
  auto policy = HostPolicy::Parse(allow_host, loopback_only);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return std::move(policy).value();
}

int StatusOfHost(const HostPolicy& policy, const std::string& host) {
  HttpRequest head;
  head.method = "GET";
  head.host = host;
  const auto refusal = policy.Refuse(head);
  EXPECT_TRUE(!refusal || refusal->body.find("--allow-host") != std::string::npos);
  return refusal ? refusal->status : 0;
}

int StatusOfPost(const HostPolicy& policy, const std::string& origin, const std::string& type) {
  HttpRequest head;
  head.method = "POST";
  head.host = "localhost:8000";
  head.origin = origin;
  head.content_type = type;
  const auto refusal = policy.Refuse(head);
  return refusal ? refusal->status : 0;
}

TEST(HostPolicyTest, ALoopbackServerAnswersToLoopbackNames) {
  const HostPolicy policy = PolicyOf("", true);
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:8000", "127.8.8.8",
                           "[::1]:8000", "localhost.", ""}) {
    EXPECT_EQ(StatusOfHost(policy, host), 0) << host;
  }
  for (const char* host : {"evil.example:8000", "127.0.0.1.nip.io", "192.168.1.2", "a b"}) {
    EXPECT_EQ(StatusOfHost(policy, host), 403) << host;
  }
}

TEST(HostPolicyTest, AListedNameIsAnswered) {
  const HostPolicy policy = PolicyOf("Chat.example,[fd00::1]", true);
  EXPECT_EQ(StatusOfHost(policy, "chat.EXAMPLE:443"), 0);
  EXPECT_EQ(StatusOfHost(policy, "[FD00::1]"), 0);
  EXPECT_EQ(StatusOfHost(policy, "localhost"), 0);
  EXPECT_EQ(StatusOfHost(policy, "chat.example.evil"), 403);
  EXPECT_EQ(StatusOfHost(PolicyOf("*", true), "evil.example"), 0);
}

TEST(HostPolicyTest, OtherServersAnswerToEveryNameUntilOneIsListed) {
  EXPECT_EQ(StatusOfHost(PolicyOf("", false), "evil.example"), 0);
  EXPECT_EQ(StatusOfHost(PolicyOf("chat.example", false), "evil.example"), 403);
  EXPECT_EQ(StatusOfHost(PolicyOf("chat.example", false), "chat.example"), 0);
}

TEST(HostPolicyTest, APageOfAnotherSiteMustSendJson) {
  const HostPolicy policy = PolicyOf("chat.example", true);
  for (const char* origin : {"https://evil.example", "null", "http://localhost.evil.example",
                             "chrome-extension://abc", "https://"}) {
    for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded",
                             "text/plain; application/json", "application/jsonp"}) {
      EXPECT_EQ(StatusOfPost(policy, origin, type), 415) << origin << " " << type;
    }
    EXPECT_EQ(StatusOfPost(policy, origin, "Application/JSON ; charset=utf-8"), 0) << origin;
  }
  for (const char* origin :
       {"", "http://localhost:8000", "http://127.0.0.1:3000", "https://chat.example"}) {
    EXPECT_EQ(StatusOfPost(policy, origin, "text/plain"), 0) << origin;
  }
}

TEST(HostPolicyTest, APageOfTheServerItselfIsNotForeign) {
  HttpRequest head;
  head.method = "POST";
  head.host = "lan.example:8000";
  head.origin = "http://lan.example:8000";
  EXPECT_FALSE(PolicyOf("", false).Refuse(head));
  head.origin = "http://lan.example:8001";
  EXPECT_EQ(PolicyOf("", false).Refuse(head)->status, 415);
}

TEST(HostPolicyTest, RefusesAListThatIsNone) {
  for (const char* list : {"a b", "host:80", "a,,b", "[::1]:80", "::1", "http://a"}) {
    const auto policy = HostPolicy::Parse(list, true);
    ASSERT_FALSE(policy.ok()) << list;
    EXPECT_EQ(policy.status().field(), "allow-host");
  }
}

}  // namespace
}  // namespace sluice::server
