#include "base/json.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(JsonTest, RefusesDeepNestingWithoutRecursing) {
  std::string deep(100000, '[');
  auto parsed = ParseJson(deep, "body");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().message(), "body is nested deeper than 64 levels");
}

TEST(JsonTest, RefusesNumbersOutOfRangeDuplicateKeysAndBrokenUtf8) {
  EXPECT_FALSE(ParseJson("{\"a\": 1e999}", "body").ok());
  EXPECT_FALSE(ParseJson("{\"a\": NaN}", "body").ok());
  EXPECT_FALSE(ParseJson("{\"a\": \"\xff\"}", "body").ok());
  auto twice = ParseJson("{\"a\": 1, \"a\": 2}", "body");
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.status().message().find("twice"), std::string::npos);
  EXPECT_TRUE(ParseJson("[{\"a\": 1}, {\"a\": 2}]", "body").ok());
}

TEST(JsonTest, OrderedKeepsTheOrderOfKeys) {
  auto parsed = ParseOrderedJson("{\"b\": 1, \"a\": 2}", "body");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(DumpJson(*parsed), "{\"b\":1,\"a\":2}");
}

TEST(JsonTest, LimitsBytesAndValues) {
  EXPECT_FALSE(ParseJson("[1,2,3]", "x", {.bytes_max = 3}).ok());
  EXPECT_FALSE(ParseJson("[1,2,3,4,5]", "x", {.values_max = 4}).ok());
}

}  // namespace
}  // namespace sluice
