#include "server/openai/response_store.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::server {
namespace {

constexpr int64_t kSecond = 1'000'000;

StoredResponse Of(size_t bytes) { return {std::string(bytes, 'x'), "[]"}; }

TEST(ResponseStoreTest, OnlyTheOwnerFindsAResponse) {
  ResponseStore store;
  store.Put("a", "r1", {"body", "messages"}, 0);
  ASSERT_NE(store.Find("a", "r1", 0), nullptr);
  EXPECT_EQ(store.Find("a", "r1", 0)->messages, "messages");
  EXPECT_EQ(store.Find("b", "r1", 0), nullptr);
  EXPECT_EQ(store.Find("", "r1", 0), nullptr);
  EXPECT_FALSE(store.Remove("b", "r1", 0));
  EXPECT_TRUE(store.Remove("a", "r1", 0));
  EXPECT_FALSE(store.Remove("a", "r1", 0));
  EXPECT_EQ(store.Find("a", "r1", 0), nullptr);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(ResponseStoreTest, OldOnesGo) {
  ResponseStore store(1 << 20, 10 * kSecond);
  store.Put("a", "r1", Of(10), 0);
  store.Put("a", "r2", Of(10), 8 * kSecond);
  EXPECT_NE(store.Find("a", "r1", 10 * kSecond), nullptr);
  EXPECT_EQ(store.Find("a", "r1", 11 * kSecond), nullptr);
  EXPECT_NE(store.Find("a", "r2", 11 * kSecond), nullptr);
}

TEST(ResponseStoreTest, TheOldestMakeRoom) {
  ResponseStore store(10'000);
  store.Put("a", "r1", Of(4'000), 0);
  store.Put("b", "r2", Of(4'000), 1);
  store.Put("c", "r3", Of(4'000), 2);
  EXPECT_EQ(store.Find("a", "r1", 2), nullptr);
  EXPECT_NE(store.Find("b", "r2", 2), nullptr);
  EXPECT_NE(store.Find("c", "r3", 2), nullptr);
  EXPECT_LE(store.bytes(), 10'000);
  store.Put("c", "r4", Of(10'000), 3);  // larger than all of it
  EXPECT_EQ(store.Find("c", "r4", 3), nullptr);
  EXPECT_NE(store.Find("b", "r2", 3), nullptr);
}

TEST(ResponseStoreTest, AFloodOfOneOwnerLeavesTheOthers) {
  ResponseStore store(100'000);
  store.Put("quiet", "r", Of(1'000), 0);
  for (int i = 0; i < 1'000; ++i) store.Put("loud", "l" + std::to_string(i), Of(1'000), i);
  EXPECT_NE(store.Find("quiet", "r", 1'000), nullptr);
  EXPECT_NE(store.Find("loud", "l999", 1'000), nullptr);
  EXPECT_EQ(store.Find("loud", "l0", 1'000), nullptr);
}

TEST(ResponseStoreTest, IdsAreLongAndDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(DrawPrivateId("resp_"));
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(ids.begin()->size(), 5u + 32u);
}

}  // namespace
}  // namespace sluice::server
