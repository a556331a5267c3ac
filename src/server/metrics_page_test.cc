// docs/metrics.md beside what the server adds to its engines' metrics.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/source_dir_fixture.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

using Kinds = std::map<std::string, std::string>;  // by metric: "gauge", "counter"

Kinds Documented() {
  Kinds kinds;
  std::ifstream page(SourceDir() + "/docs/metrics.md");
  bool server = false;
  for (std::string line; std::getline(page, line);) {
    server = server || line == "The server adds:";
    std::istringstream words(line);
    std::string bar, name, kind;
    if (!server || !line.starts_with("| `sluice_") || !(words >> bar >> name >> bar >> kind)) {
      continue;
    }
    kinds[name.substr(1, name.size() - 2)] = kind;
  }
  return kinds;
}

TEST_F(RoutesTest, ThePageListsEveryMetricOfTheServerAndNoOther) {
  Kinds kinds;
  std::istringstream text(Send("GET", "/metrics")->reply.body);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string mark, type, name, kind;
    if (words >> mark >> type >> name >> kind && mark == "#" && type == "TYPE") kinds[name] = kind;
  }
  EXPECT_FALSE(kinds.empty());
  EXPECT_EQ(kinds, Documented());
}

}  // namespace
}  // namespace sluice::server
