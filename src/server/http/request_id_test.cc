#include "server/http/request_id.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::server {
namespace {

TEST(RequestIdTest, AClientMayNameItsRequest) {
  EXPECT_EQ(RequestIdOf("run-7.a_B"), "run-7.a_B");
  EXPECT_EQ(RequestIdOf(std::string(128, 'x')), std::string(128, 'x'));
}

TEST(RequestIdTest, AnyOtherIsDrawn) {
  std::set<std::string> drawn;
  for (const std::string& asked : {std::string(), std::string("a b"), std::string("a\r\nb: c"),
                                   std::string("a\"b"), std::string(129, 'x')}) {
    const std::string id = RequestIdOf(asked);
    EXPECT_EQ(id.size(), 24u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    drawn.insert(id);
  }
  EXPECT_EQ(drawn.size(), 5u);
}

}  // namespace
}  // namespace sluice::server
