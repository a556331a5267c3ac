#include "engine/expert_orders.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

EngineOptions Ranks(const std::string& interval = "none") {
  EngineOptions options = TinyOptions("qwen3_moe");
  options.expert_ranks = 2;
  options.redundant_experts = 2;
  options.expert_balance_interval = interval;
  options.expert_migration_bytes = "3000";
  return options;
}

Json Admin(Engine& engine, const std::string& command) {
  const auto answer = engine.Admin(command);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  return answer.ok() ? Json::parse(*answer) : Json();
}

Json Balance(Engine& engine) { return Admin(engine, R"({"command": "experts"})")["balance"]; }

// Once nothing moves any more.
Json SettledBalance(Engine& engine) {
  for (int i = 0; i < 3000; ++i) {
    Json balance = Balance(engine);
    if (balance["moving"] == false) return balance;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "experts move without an end";
  return Balance(engine);
}

Request RequestOfIndex(int index, int tokens = 60) {
  Request request = TinyRequest({1, 75, 65 + index, 67, 20, 98, 13}, tokens);
  request.logprobs = 2;
  request.sampling.seed = 7;
  request.sampling.temperature = index % 2 == 0 ? 0.0 : 0.9;
  return request;
}

void ExpectSame(const Answer& a, const Answer& b) {
  ASSERT_TRUE(a.error.ok()) << a.error.message();
  ASSERT_EQ(a.choices.at(0).ids, b.choices.at(0).ids);
  EXPECT_EQ(a.choices.at(0).logprobs, b.choices.at(0).logprobs);
}

TEST(ExpertOrders, AnEngineWithoutRanksRefuses) {
  const auto engine = OpenTiny(TinyOptions("qwen3_moe"));
  ASSERT_NE(engine, nullptr);
  const Status status = engine->Admin(R"({"command": "move_experts", "rebalance": true})").status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("start with --expert-ranks"));
  EXPECT_TRUE(Balance(*engine).is_null());
}

TEST(ExpertOrders, IdleEnginesMoveExpertsToo) {
  const auto engine = OpenTiny(Ranks());
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(Balance(*engine)["version"], 1);
  Admin(*engine, R"({"command": "move_experts", "layers":
      [{"layer": 1, "ranks": [[7, 6, 5, 4, 3], [0, 1, 2, 3, 4]]}]})");
  const Json balance = SettledBalance(*engine);
  EXPECT_EQ(balance["layers"][1]["ranks"], Json::parse("[[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]]"));
  EXPECT_EQ(balance["layers"][0]["version"], 1);
  EXPECT_EQ(balance["layers_moved"], 1);
  EXPECT_GT(balance["migrations"], 4);
}

// From several threads at once, so that tsan sees every meeting of theirs.
TEST(ExpertOrders, AnswersAreTheSameWhateverMoves) {
  constexpr int kPrompts = 6;
  std::vector<std::shared_ptr<Answer>> expected;
  const auto still = OpenTiny(TinyOptions("qwen3_moe"));
  ASSERT_NE(still, nullptr);
  for (int i = 0; i < kPrompts; ++i) expected.push_back(Ask(*still, RequestOfIndex(i)));
  const auto engine = OpenTiny(Ranks("3"));
  ASSERT_NE(engine, nullptr);
  std::atomic<bool> done = false;
  std::atomic<int> orders_given = 0;
  std::thread orders([&] {
    for (int turn = 0; !done; turn += 3) {
      Json ranks = Json::array({Json::array(), Json::array()});
      for (int i = 0; i < 10; ++i) ranks[i / 5].push_back((turn + i) % 8);
      const Json layer{{"layer", turn % 2}, {"ranks", ranks}};
      Admin(*engine, Json{{"command", "move_experts"}, {"layers", Json::array({layer})}}.dump());
      Balance(*engine);
      ++orders_given;
    }
  });
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> clients;
    for (int i = 0; i < kPrompts; ++i) {
      clients.emplace_back([&, i] { ExpectSame(*Ask(*engine, RequestOfIndex(i)), *expected[i]); });
    }
    for (std::thread& client : clients) client.join();
  }
  while (orders_given < 6) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  done = true;
  orders.join();
  const Json balance = SettledBalance(*engine);
  EXPECT_GT(balance["version"], 4);
  Settle(*engine);
  EXPECT_EQ(Metric(*engine, "sluice_expert_migrations_total"), balance["migrations"]);
  // Loads are those of experts, whichever slots they came from.
  const Json report = Admin(*engine, R"({"command": "experts"})");
  EXPECT_EQ(report["choices"],
            Admin(*still, R"({"command": "experts"})")["choices"].get<int>() * 3);
  double by_rank = 0, by_expert = 0;
  for (const Json& load : balance["rank_load"]) by_rank += load.get<double>();
  for (const Json& layer : report["layers"]) {
    for (const Json& load : layer["load"]) by_expert += load.get<double>();
  }
  EXPECT_GT(by_rank, 0);
  EXPECT_LE(by_rank, by_expert * 1.05 + 1);  // the spare's is no rank's
}

TEST(ExpertOrders, LoadsMoveExpertsByThemselves) {
  const auto engine = OpenTiny(Ranks("20"));
  ASSERT_NE(engine, nullptr);
  // The counts come to the host now and then; the report reads them at once.
  for (int i = 0; i < 4; ++i) {
    Ask(*engine, RequestOfIndex(0, 80));
    Balance(*engine);
  }
  const Json balance = SettledBalance(*engine);
  EXPECT_GT(balance["plans"], 0);
  for (const Json& layer : balance["layers"]) {
    EXPECT_LE(layer["imbalance_planned"], layer["imbalance_before"]);
  }
}

}  // namespace
}  // namespace sluice::engine
