#include "engine/metrics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "base/source_dir_fixture.h"
#include "experts/loads.h"

namespace sluice::engine {
namespace {

using Kinds = std::map<std::string, std::string>;  // by metric: "gauge", "counter", "histogram"

// Every family has a member, also those whose labels come with their first observation.
std::string ObservedText() {
  Metrics metrics("a model");
  metrics.SetGauges({});
  metrics.ObserveStep({.sample_s = 0.5});
  metrics.CountFallback("linear", "no AMX");
  metrics.ObserveInterToken(0.1);
  metrics.ObserveRequest({.generation_tokens = 1, .finish = "stop"});
  experts::Loads loads({0}, 2);
  loads.Take(std::vector<uint32_t>{1, 3}, 1);
  metrics.SetExperts(&loads);
  const experts::Balancer balancer({.shape = *experts::ShapeOf(2, 2, 0), .layers = {0}});
  experts::Loads slot_loads({0}, 3);
  slot_loads.Take(std::vector<uint32_t>{1, 3, 0}, 1);
  metrics.SetExpertBalance(&balancer, &slot_loads);
  return metrics.Text();
}

Kinds Exported() {
  Kinds kinds;
  std::istringstream text(ObservedText());
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string mark, type, name, kind;
    if (words >> mark >> type >> name >> kind && mark == "#" && type == "TYPE") kinds[name] = kind;
  }
  return kinds;
}

// The rows "| `name` | kind | ..." of the page, above those that the server adds.
Kinds Documented() {
  Kinds kinds;
  std::ifstream page(SourceDir() + "/docs/metrics.md");
  for (std::string line; std::getline(page, line);) {
    if (line == "The server adds:") break;
    std::istringstream words(line);
    std::string bar, name, kind;
    if (!(words >> bar >> name >> bar >> kind) || !line.starts_with("| `")) continue;
    name = name.substr(1, name.size() - 2);
    if (name.starts_with("vllm:") || name.starts_with("sluice_")) kinds[name] = kind;
  }
  return kinds;
}

TEST(Metrics, ThePageListsEveryMetricAndNoOther) {
  EXPECT_FALSE(Exported().empty());
  EXPECT_EQ(Exported(), Documented());
}

// The name may come from a model's file: it must not end its label, its line or the braces.
TEST(Metrics, AModelsNameStaysWithinItsLabel) {
  Metrics metrics("a\"} 1\nevil_total{x=\"\\");
  metrics.SetGauges({});
  std::istringstream text(metrics.Text());
  int samples = 0;
  for (std::string line; std::getline(text, line);) {
    EXPECT_FALSE(line.starts_with("evil_total")) << line;
    if (line.starts_with("#")) continue;
    ++samples;
    EXPECT_NE(line.find(R"({model_name="a\"} 1\nevil_total{x=\"\\")"), std::string::npos) << line;
  }
  EXPECT_GT(samples, 50);
}

}  // namespace
}  // namespace sluice::engine
