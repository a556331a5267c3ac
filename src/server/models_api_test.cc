#include "server/models_api.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(ModelsApiTest, FindsTheNameInABody) {
  const auto named = [](std::string_view body) { return ModelNamedIn(body, "model"); };
  EXPECT_EQ(named(R"({"model":"a"})"), "a");
  EXPECT_EQ(named(R"({"messages":[{"model":"x"}],"b":{"model":"y"},"model":"a\n"})"), "a\n");
  // What stands behind it is the reader's to judge.
  EXPECT_EQ(named(R"({"model":"a", nothing)"), "a");
  for (const char* none : {"", "{", "[]", R"("model")", R"({"model":1})",
                           R"({"model":{"model":"x"}})", R"({"model":["x"],"n":"y"})",
                           R"([{"model":"x"}])", R"({"name":"x"})", R"({"model":null,"x":"y"})"}) {
    EXPECT_EQ(named(none), "") << none;
  }
  EXPECT_EQ(ModelNamedIn(R"({"name":"x"})", "name"), "x");
}

TEST(ModelsApiTest, DeepNestingIsPassedOver) {
  std::string deep = R"({"a":)";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  EXPECT_EQ(ModelNamedIn(deep, "model"), "");
  for (int i = 0; i < 100'000; ++i) deep += ']';
  EXPECT_EQ(ModelNamedIn(deep + R"(,"model":"a"})", "model"), "a");
}

TEST(ModelsApiTest, ReadsAnOrder) {
  auto order = ReadModelOrder("/v1/models/org%2Fa/load", "");
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->name, "org/a");
  EXPECT_TRUE(order->load);
  order = ReadModelOrder("/v1/models/org/a/unload", "{}");
  EXPECT_EQ(order->name, "org/a");
  EXPECT_FALSE(order->load);
  order = ReadModelOrder("/models/unload", R"({"model":"a"})");
  EXPECT_EQ(order->name, "a");
  EXPECT_FALSE(order->load);
  EXPECT_EQ(ReadModelOrder("/v1/models/a", "").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadModelOrder("/v1/models/load", "").status().field(), "model");
  EXPECT_EQ(ReadModelOrder("/models/load", "{}").status().field(), "model");
  EXPECT_EQ(ReadModelOrder("/models/load", R"({"model":"a","x":1})").status().field(), "x");
  EXPECT_FALSE(ReadModelOrder("/models/load", "a").ok());
}

TEST(ModelsApiTest, ReadsAnOrderToAnEngine) {
  auto order = ReadEngineOrder("/admin/pause", "");
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->model, "");
  EXPECT_EQ(order->command, R"({"command":"pause"})");
  order = ReadEngineOrder("/admin/cache_flush", R"({"model":"a"})");
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->model, "a");
  EXPECT_EQ(order->command, R"({"command":"cache_flush"})");
  EXPECT_EQ(ReadEngineOrder("/admin/pause", R"({"seconds":1})").status().field(), "seconds");
  EXPECT_EQ(ReadEngineOrder("/admin/pause", R"({"model":1})").status().field(), "model");
  EXPECT_FALSE(ReadEngineOrder("/admin/pause", "[]").ok());
}

TEST(ModelsApiTest, AFamilyOfMetricsStandsOnce) {
  const std::string a =
      "# HELP x What x is\n# TYPE x counter\nx{model_name=\"a\"} 1\n"
      "# HELP y What y is\n# TYPE y gauge\ny{model_name=\"a\"} 2\n";
  const std::string b =
      "# HELP y What y is\n# TYPE y gauge\ny{model_name=\"b\"} 3\n"
      "# HELP z What z is\n# TYPE z gauge\nz{model_name=\"b\"} 4\n";
  EXPECT_EQ(MergedMetrics({a, b}),
            "# HELP x What x is\n# TYPE x counter\nx{model_name=\"a\"} 1\n"
            "# HELP y What y is\n# TYPE y gauge\ny{model_name=\"a\"} 2\ny{model_name=\"b\"} 3\n"
            "# HELP z What z is\n# TYPE z gauge\nz{model_name=\"b\"} 4\n");
  EXPECT_EQ(MergedMetrics({a}), a);
  EXPECT_EQ(MergedMetrics({"", a}), a);
}

TEST(ModelsApiTest, TellsWhichAreLoaded) {
  ModelReport a, b;
  a.name = "a \"b\"";
  a.state = ModelState::kLoaded;
  b.name = "c";
  EXPECT_EQ(LoadedMetric({a, b}),
            "# HELP sluice_model_loaded Whether a model is loaded, 1 or 0\n"
            "# TYPE sluice_model_loaded gauge\n"
            "sluice_model_loaded{model_name=\"a \\\"b\\\"\"} 1\n"
            "sluice_model_loaded{model_name=\"c\"} 0\n");
}

TEST(ModelsApiTest, AnEntryTellsWhatIsKnown) {
  ModelReport report;
  report.name = "a";
  report.failure = Status(StatusCode::kOutOfMemory, "too large");
  EXPECT_EQ(DumpJson(ModelJson(report, 7)),
            R"({"id":"a","object":"model","created":7,"owned_by":"sluice",)"
            R"("status":{"value":"unloaded","failed":true,"error":"too large"}})");
  report.failure = OkStatus();
  report.state = ModelState::kLoaded;
  report.loaded_s = 5;
  report.info.max_model_len = 64;
  const OrderedJson json = ModelJson(report, 7);
  EXPECT_EQ(json["max_model_len"], 64);
  EXPECT_EQ(json["status"], (OrderedJson{{"value", "loaded"}}));
}

}  // namespace
}  // namespace sluice::server
