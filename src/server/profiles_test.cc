#include "server/profiles.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/str_cat.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

constexpr const char* kAdmin = "Bearer two";

class ProfilesTest : public RoutesTest {
 protected:
  void SetUp() override { UseKeys("one\ntwo admin\n"); }

  std::shared_ptr<FakeExchange> Ask(const std::string& body, const std::string& key = kAdmin) {
    return Send("POST", "/admin/profile", body, key);
  }
  static void Await(const FakeExchange& exchange) {
    while (!exchange.replied) std::this_thread::yield();
  }
  // Returns once the engine is at it, which it is until it is told to end.
  std::shared_ptr<FakeExchange> AskForOneThatLasts() {
    engine_.on_admin = [this](const std::string& text) {
      if (Json::parse(text).at("command") == "profile_end") {
        end_ = true;
      } else {
        begun_ = true;
        while (!end_) std::this_thread::yield();
      }
      return Result<std::string>("[]");
    };
    auto exchange = Ask("{}");
    while (!begun_) std::this_thread::yield();
    return exchange;
  }

 private:
  std::atomic<bool> begun_ = false, end_ = false;
};

TEST_F(ProfilesTest, HandsTheEngineItsFields) {
  std::string command;
  engine_.on_admin = [&](const std::string& text) {
    command = text;
    return Result<std::string>("[]");
  };
  auto exchange = Ask(R"({"steps":7,"seconds":1.5})");
  Await(*exchange);
  EXPECT_EQ(exchange->reply.status, 200);
  EXPECT_EQ(exchange->reply.body, "[]");
  EXPECT_EQ(Json::parse(command), (Json{{"command", "profile"}, {"steps", 7}, {"seconds", 1.5}}));
  Await(*Ask(""));
  EXPECT_EQ(Json::parse(command), (Json{{"command", "profile"}}));
}

TEST_F(ProfilesTest, IsForAdminsAndRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Ask("{}", "Bearer one")->reply.status, 403);
  EXPECT_EQ(Ask("{}", "Bearer three")->reply.status, 401);
  EXPECT_EQ(Ask("[]")->reply.status, 400);
  EXPECT_EQ(Ask(R"({"step":7})")->param(), "step");
  EXPECT_EQ(Ask(R"({"model":"another"})")->reply.status, 404);
  engine_.on_admin = [](const std::string&) {
    return Result<std::string>(InvalidArgument("steps is 0", "steps"));
  };
  auto exchange = Ask(R"({"steps":0})");
  Await(*exchange);
  EXPECT_EQ(exchange->param(), "steps");
}

TEST_F(ProfilesTest, TakesOneAtATimeAndEndsItWithTheServer) {
  const auto first = AskForOneThatLasts();
  EXPECT_EQ(Ask("{}")->reply.status, 409);
  EXPECT_FALSE(first->replied);
  routes_.reset();
  EXPECT_TRUE(first->replied);
  EXPECT_EQ(first->reply.body, "[]");
}

TEST_F(ProfilesTest, EndsWithAClientThatLeaves) {
  const auto first = AskForOneThatLasts();
  first->disconnect();
  Await(*first);
  auto next = Ask("{}");
  Await(*next);
  EXPECT_EQ(next->reply.status, 200);
}

TEST_F(ProfilesTest, OrdersToAnEngineAreForAdminsAndNameAModel) {
  std::vector<std::string> commands;
  engine_.on_admin = [&](const std::string& command) {
    commands.push_back(Json::parse(command).at("command"));
    return Result<std::string>(R"({"ok":true})");
  };
  for (const char* order : {"pause", "resume", "drain", "cache_flush"}) {
    const std::string path = StrCat("/admin/", order);
    EXPECT_EQ(Send("POST", path, "", "Bearer one")->reply.status, 403);
    EXPECT_EQ(Send("GET", path, "", kAdmin)->reply.status, 405);
    EXPECT_EQ(Send("POST", path, R"({"model":"another"})", kAdmin)->reply.status, 404);
    EXPECT_EQ(Send("POST", path, R"({"modell":"x"})", kAdmin)->param(), "modell");
    EXPECT_EQ(Send("POST", path, "{}", kAdmin)->reply.body, R"({"ok":true})");
  }
  EXPECT_EQ(commands, (std::vector<std::string>{"pause", "resume", "drain", "cache_flush"}));
}

}  // namespace
}  // namespace sluice::server
