#include "server/experts_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReadExpertsQuery, NumbersAreHandedOnAndAllElseIsNamed) {
  EXPECT_EQ(*ReadExpertsQuery(""), R"({"command":"experts"})");
  EXPECT_EQ(*ReadExpertsQuery("nodes=2&ranks=8&replicas=0&model=a"),
            R"({"command":"experts","ranks":8,"replicas":0,"nodes":2})");
  for (const char* query : {"ranks=8x", "ranks=1.5", "replicas=99999999999", "nodes=%20"}) {
    EXPECT_THAT(ReadExpertsQuery(query).status().message(), HasSubstr("which is no whole number"));
  }
}

using ExpertsRoute = RoutesTest;

TEST_F(ExpertsRoute, AsksTheEngineAndIsForAdminsAlone) {
  std::vector<std::string> commands;
  Result<std::string> answer = std::string(R"({"experts":4})");
  engine_.on_admin = [&](const std::string& command) {
    commands.push_back(command);
    return answer;
  };
  EXPECT_EQ(Send("GET", "/admin/experts")->reply.status, 403);  // not from this machine
  EXPECT_TRUE(commands.empty());
  UseKeys("boss-secret-key-0123456789 admin\nother-secret-key-0123456789\n");
  EXPECT_EQ(Send("GET", "/admin/experts", "", "Bearer other-secret-key-0123456789")->reply.status,
            403);
  const auto exchange = Send("GET", "/admin/experts", "", "Bearer boss-secret-key-0123456789");
  EXPECT_EQ(exchange->reply.status, 200);
  EXPECT_EQ(exchange->reply.body, R"({"experts":4})");
  EXPECT_THAT(commands, ElementsAre(R"({"command":"experts"})"));
  answer = InvalidArgument("ranks is 0; it can be 1 to 512", "ranks");
  EXPECT_EQ(Send("GET", "/admin/experts", "", "Bearer boss-secret-key-0123456789")->reply.status,
            400);
}

}  // namespace
}  // namespace sluice::server
