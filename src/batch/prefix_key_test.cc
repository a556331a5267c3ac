#include "batch/prefix_key.h"

#include <gtest/gtest.h>

namespace sluice::batch {
namespace {

TEST(PrefixKey, EveryFieldSeparates) {
  const PrefixKey key{.salt = "a", .weights_version = 2};
  const auto differs = [&](auto change) {
    PrefixKey other = key;
    change(other);
    return other.Encode() != key.Encode();
  };
  EXPECT_FALSE(differs([](PrefixKey&) {}));
  EXPECT_TRUE(differs([](PrefixKey& k) { k.salt = "b"; }));
  EXPECT_TRUE(differs([](PrefixKey& k) { k.salt += '\0'; }));
  EXPECT_TRUE(differs([](PrefixKey& k) { k.weights_version = 3; }));
  EXPECT_TRUE(differs([](PrefixKey& k) { k.kv_dtype = DType::kF32; }));
}

}  // namespace
}  // namespace sluice::batch
