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
    EXPECT_THAT(ReadExpertsQuery(query).status().message(), HasSubstr("it must be a whole number"));
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

TEST(ReadExpertsOrder, HandsOnWhatTheEngineChecks) {
  const auto order = ReadExpertsOrder(R"({"model": "a", "layers": [{"layer": 1, "ranks": []}]})");
  ASSERT_TRUE(order.ok()) << order.status().message();
  EXPECT_EQ(order->model, "a");
  EXPECT_EQ(order->command, R"({"command":"move_experts","layers":[{"layer":1,"ranks":[]}]})");
  EXPECT_EQ(ReadExpertsOrder(R"({"rebalance": true, "nodes": 2})")->command,
            R"({"command":"move_experts","rebalance":true,"nodes":2})");
  EXPECT_THAT(ReadExpertsOrder(R"({"replan": true})").status().message(), HasSubstr("replan"));
  for (const char* body : {"", "[]", "{", R"({"model": 7})"}) {
    EXPECT_FALSE(ReadExpertsOrder(body).ok()) << body;
  }
}

TEST_F(ExpertsRoute, OrdersAreForAdminsAlone) {
  std::vector<std::string> commands;
  engine_.on_admin = [&](const std::string& command) {
    commands.push_back(command);
    return Result<std::string>(R"({"ok":true})");
  };
  const char* const body = R"({"rebalance": true})";
  EXPECT_EQ(Send("POST", "/admin/experts", body)->reply.status, 403);
  UseKeys("boss-secret-key-0123456789 admin\nother-secret-key-0123456789\n");
  EXPECT_EQ(
      Send("POST", "/admin/experts", body, "Bearer other-secret-key-0123456789")->reply.status,
      403);
  EXPECT_TRUE(commands.empty());
  EXPECT_EQ(Send("POST", "/admin/experts", body, "Bearer boss-secret-key-0123456789")->reply.body,
            R"({"ok":true})");
  EXPECT_THAT(commands, ElementsAre(R"({"command":"move_experts","rebalance":true})"));
}

}  // namespace
}  // namespace sluice::server
