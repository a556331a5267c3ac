// Routes over a fake engine, for tests: requests in, what the fake exchange got out.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "server/fake_engine.h"
#include "server/fake_exchange.h"
#include "server/http/target.h"
#include "server/routes.h"

namespace sluice::server {

class RoutesTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeExchange> Send(const std::string& method, const std::string& path,
                                     const std::string& body = "", const std::string& key = "") {
    auto exchange = exchange_ = std::make_shared<FakeExchange>();
    exchange->gone = gone_;
    HttpRequest request;
    request.method = method;
    request.path = PathOf(path);
    request.query = QueryOf(path);
    request.body = body;
    request.authorization = key;
    request.client = client_;
    request.request_id = "the-id";
    request.lease = std::exchange(lease_, nullptr);
    if (auto refusal = routes_->Admit(&request)) {
      exchange->Reply(std::move(*refusal));
    } else {
      routes_->Handle(std::move(request), exchange);
    }
    return exchange;
  }
  void UseKeys(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/sluice_routes_test_keys";
    std::ofstream(path) << text;
    auto keys = ApiKeys::Load(path);
    ASSERT_TRUE(keys.ok()) << keys.status().message();
    Serve(std::move(keys).value());
  }

  // Begins anew with the engine as it is.
  void Serve(ApiKeys keys = {}) {
    routes_.reset();
    models_ = std::make_unique<Models>(engine_);
    routes_ = std::make_unique<Routes>(*models_, std::move(keys), [this] { return http_; });
  }

  // Answers the last request: thinks, speaks, and calls two tools, the second of which has
  // arguments that are not JSON.
  void ThinkSpeakAndCall() {
    const size_t last = engine_.submitted.size() - 1;
    const auto emit = [&](const std::string& reasoning, const std::string& text,
                          std::vector<ToolCallDelta> calls) {
      TextDelta delta;
      delta.reasoning = reasoning;
      delta.text = text;
      delta.tool_calls = std::move(calls);
      engine_.EmitDelta(last, std::move(delta));
    };
    emit("h", "", {});
    emit("m", "I look.", {});
    emit("", "", {{0, "call_1", "weather", ""}});
    emit("", "", {{0, "", "", R"({"city":)"}});
    emit("", "", {{0, "", "", R"("Rome"})"}, {1, "call_2", "time", "now"}});
    engine_.Emit(last, "", FinishReason::kToolCalls, true);
  }

  std::string client_;                      // who sends
  bool gone_ = false;                       // and has left when a worker sees the request
  std::shared_ptr<FakeExchange> exchange_;  // of the last request
  std::shared_ptr<BodyLease> lease_;        // of the next body
  FakeEngine engine_;
  HttpState http_{.connections = 1};
  std::unique_ptr<Models> models_ = std::make_unique<Models>(engine_);
  std::unique_ptr<Routes> routes_ =
      std::make_unique<Routes>(*models_, ApiKeys(), [this] { return http_; });
};

}  // namespace sluice::server
