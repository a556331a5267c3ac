#include "base/json.h"

#include <gtest/gtest.h>

#include "base/allocation_fixture.h"
#include "base/str_cat.h"

namespace sluice {
namespace {

// `count` times `item`, as a list.
std::string List(std::string_view item, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) text += StrCat(i > 0 ? "," : "", item);
  return text + "]";
}

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

TEST(JsonTest, ANulIsAnErrorWhereverItStands) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {"{\"a\":1}\0{not json"sv, "{\"a\":1}\0"sv, "\0{}"sv, "[1,\0 2]"sv, "\"a\0b\""sv, "\0"sv}) {
    EXPECT_FALSE(ParseJson(text, "body").ok()) << text;
    EXPECT_FALSE(ParseOrderedJson(text, "body").ok()) << text;
  }
  EXPECT_EQ(ParseJson("{}\0 "sv, "body").status().message(),
            "body is not valid JSON: byte 3 is NUL, which no JSON text has");
  EXPECT_TRUE(ParseJson(R"("\u0000")", "body").ok());
}

TEST(JsonTest, OrderedKeepsTheOrderOfKeys) {
  auto parsed = ParseOrderedJson("{\"b\": 1, \"a\": 2}", "body");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(DumpJson(*parsed), "{\"b\":1,\"a\":2}");
}

TEST(JsonTest, LimitsBytesAndValues) {
  EXPECT_FALSE(ParseJson("[1,2,3]", "x", {.bytes_max = 3}).ok());
  EXPECT_FALSE(ParseJson("[1,2,3,4,5]", "x", {.values_max = 4}).ok());
  EXPECT_TRUE(ParseJson("[1,2,3,4,5]", "x", {.values_max = 6}).ok());
  EXPECT_FALSE(ParseJson("{\"a\":1,\"b\":2}", "x", {.keys_max = 1}).ok());
  EXPECT_TRUE(ParseJson("{\"a\":1,\"b\":2}", "x", {.values_max = 5, .keys_max = 2}).ok());
}

// What follows the item past the limit is never read: it is no JSON.
TEST(JsonTest, AListIsRefusedAtItsFirstItemPastTheLimit) {
  const JsonItemsLimit lists[] = {{"messages", 3}};
  const JsonLimits limits{.items_max = lists};
  const auto parsed =
      ParseOrderedJson(R"({"a":[1,2,3,4],"messages":[{},{},{},{} no JSON)", "body", limits);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().message(), "messages has more items than the limit of 3");
  EXPECT_EQ(parsed.status().field(), "messages");
  EXPECT_TRUE(ParseJson(R"({"messages":[{},{},{}]})", "body", limits).ok());
  EXPECT_TRUE(ParseJson(R"({"a":{"messages":[1,2,3,4]}})", "body", limits).ok());
}

TEST(JsonTest, DepthIsCountedFromTheOutermostContainer) {
  EXPECT_TRUE(ParseJson("[[1]]", "x", {.depth_max = 2}).ok());
  EXPECT_FALSE(ParseJson("[[{}]]", "x", {.depth_max = 2}).ok());
  EXPECT_TRUE(ParseJson("1", "x", {.depth_max = 0}).ok());
}

TEST(JsonTest, KeepsWhatItReads) {
  const char kText[] = R"({"z":[1,-2,2.5,"t",true,null,{}],"a":{"k":[[]],"b":{"y":1,"x":2}}})";
  const auto ordered = ParseOrderedJson(kText, "x");
  ASSERT_TRUE(ordered.ok());
  EXPECT_EQ(DumpJson(*ordered), kText);
  const auto sorted = ParseJson(kText, "x");
  ASSERT_TRUE(sorted.ok());
  EXPECT_EQ(*sorted, Json::parse(kText));
}

TEST(JsonTest, AnErrorRepeatsAPieceOfTheTextAlone) {
  const auto parsed = ParseJson(StrCat("[\"", std::string(1u << 20, 'x'), "\xff"), "body");
  ASSERT_FALSE(parsed.ok());
  EXPECT_LT(parsed.status().message().size(), 400u);
}

// An hour, if each value were compared with its siblings.
TEST(JsonTest, ManySiblingsTakeLinearTime) {
  const std::string objects = List("{}", 2'000'000);
  EXPECT_TRUE(ParseJson(objects, "body").ok());
  EXPECT_TRUE(ParseOrderedJson(objects, "body").ok());
  std::string keys = "{";
  for (int i = 0; i < 300'000; ++i) keys += StrCat(i > 0 ? "," : "", "\"k", i, "\":0");
  EXPECT_TRUE(ParseOrderedJson(keys + "}", "body").ok());
}

// An ordered object that grows as it is read copies all it holds, at each level.
TEST(JsonTest, AnObjectIsNotCopiedWhileItGrows) {
  constexpr int kLevels = 60;
  std::string text = List("[0]", 1000);
  for (int i = 0; i < kLevels; ++i) {
    text = StrCat("{\"deep\":", text);
    for (int key = 0; key < 40; ++key) text += StrCat(",\"", key, "\":0");
    text += "}";
  }
  bool read = false;
  EXPECT_LT(AllocationsOf([&] { read = ParseOrderedJson(text, "body").ok(); }), 20'000);
  EXPECT_TRUE(read);
}

}  // namespace
}  // namespace sluice
