#include "server/live_requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "server/fake_exchange.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

std::vector<int> LiveOf(const FakeExchange& exchange) {
  std::vector<int> list;
  for (const std::string& event : exchange.events()) list.push_back(Json::parse(event)["live"]);
  return list;
}

TEST(LiveRequests, TellAtOnceAndWhatHasChanged) {
  Deadlines deadlines;
  std::atomic<int> shown = 0, version = 1;
  LiveRequests live(&deadlines, [&](const Watcher& watcher) {
    EXPECT_EQ(watcher.key, "key");
    ++shown;
    return std::to_string(version);
  });
  auto exchange = std::make_shared<FakeExchange>();
  live.Watch({"key", false}, exchange);
  EXPECT_EQ(LiveOf(*exchange), std::vector<int>{1});
  while (shown < 3) std::this_thread::yield();
  version = 2;
  const int then = shown;
  while (shown < then + 2) std::this_thread::yield();
  live.End();
  EXPECT_TRUE(exchange->ended);
  EXPECT_EQ(LiveOf(*exchange), (std::vector<int>{1, 2}));
  auto late = std::make_shared<FakeExchange>();
  live.Watch({"key", false}, late);
  EXPECT_EQ(late->reply.status, 503);
}

TEST(LiveRequests, AWatcherThatIsGoneMakesPlace) {
  Deadlines deadlines;
  std::atomic<int> shown = 0;
  LiveRequests live(&deadlines, [&](const Watcher&) { return std::to_string(++shown); });
  std::vector<std::shared_ptr<FakeExchange>> watchers;
  for (size_t i = 0; i < LiveRequests::kWatchersMax; ++i) {
    watchers.push_back(std::make_shared<FakeExchange>());
    watchers.back()->slow = i == 3;
    live.Watch({}, watchers.back());
  }
  auto last = std::make_shared<FakeExchange>();
  live.Watch({}, last);  // in the place of the slow one, who was never taken
  EXPECT_FALSE(last->replied);
  auto refused = std::make_shared<FakeExchange>();
  live.Watch({}, refused);
  EXPECT_EQ(refused->reply.status, 429);
}

TEST(LiveRequests, AKeyLeavesPlacesToOthers) {
  Deadlines deadlines;
  LiveRequests live(&deadlines, [](const Watcher&) { return std::string("0"); });
  const auto watch = [&](const char* key) {
    auto exchange = std::make_shared<FakeExchange>();
    live.Watch({key, false}, exchange);
    return exchange;
  };
  for (size_t i = 0; i < LiveRequests::kWatchersMax / 2; ++i) EXPECT_FALSE(watch("one")->replied);
  EXPECT_EQ(watch("one")->reply.status, 429);
  EXPECT_FALSE(watch("boss")->replied);
}

using LiveRoute = RoutesTest;

TEST_F(LiveRoute, ShowsAKeyItsOwnRequestsAndAnAdminAllAndErrors) {
  EXPECT_EQ(Send("GET", kLivePath)->reply.status, 403);  // no keys, and not from this machine
  UseKeys("one\ntwo\nboss admin\n");
  const char* const body = R"({"prompt":"a"})";
  Send("POST", "/v1/completions", body, "Bearer one");
  engine_.submitted.back().request.timeline->submitted_us = 1;
  const auto watch = [&](const char* key) {
    return Json::parse(Send("GET", kLivePath, "", key)->events().at(0))["live"];
  };
  EXPECT_EQ(watch("Bearer one")["requests"].size(), 1u);
  EXPECT_FALSE(watch("Bearer one").contains("errors"));
  EXPECT_EQ(watch("Bearer two")["requests"].size(), 0u);
  const Json all = watch("Bearer boss");
  EXPECT_EQ(all["requests"].size(), 1u);
  EXPECT_EQ(all["requests"][0]["id"], "the-id");
  EXPECT_TRUE(all["errors"].is_array());
  EXPECT_EQ(Send("GET", kLivePath, "", "Bearer three")->reply.status, 401);
}

}  // namespace
}  // namespace sluice::server
