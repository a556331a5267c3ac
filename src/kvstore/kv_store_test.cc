#include "kvstore/kv_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "device/resolver.h"

namespace sluice::kvstore {
namespace {

using batch::BlockCopy;

batch::KvGroup Layout(std::vector<int> layers, int k_dim = 8, int v_dim = 4) {
  batch::KvGroup layout;
  layout.layers = std::move(layers);
  layout.dtype = DType::kF16;
  layout.kv_heads = 2;
  layout.k_head_dim = k_dim;
  layout.v_head_dim = v_dim;
  layout.block_tokens = 6;
  layout.kernel_block_tokens = 3;
  layout.num_blocks = 5;
  return layout;
}

class KvStoreTest : public ::testing::Test {
 protected:
  KvStoreTest() {
    const auto resolved = device::ResolveDevice("cpu", device::LinkedBackends());
    device_ = std::move(resolved->Open({.threads = 1}).value());
    stream_ = std::move(device_->CreateStream().value());
  }
  std::unique_ptr<KvStore> Open(std::vector<batch::KvGroup> groups) {
    auto store = KvStore::Make(*device_, std::move(groups));
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(store).value();
  }
  StatusCode Refused(std::vector<batch::KvGroup> groups) {
    return KvStore::Make(*device_, std::move(groups)).status().code();
  }
  // Every byte of K and V tells its layer, half and block.
  static std::byte Mark(int layer, bool value, int block) {
    return static_cast<std::byte>(1 + layer * 40 + value * 20 + block);
  }
  // K or V of cache block b in a layer: one part per kernel block.
  static std::vector<std::span<std::byte>> PartsOf(const KvStore& store, int l, bool value, int b) {
    const KvStore::Layer& layer = store.layer(l);
    const batch::KvGroup& group = store.groups()[layer.group];
    const device::View& view = value ? layer.v : layer.k;
    const int64_t blocks = int64_t{group.num_blocks} * group.ratio();
    const size_t bytes = view.bytes - layer.stride * (blocks - 1);
    std::vector<std::span<std::byte>> parts;
    for (int i = 0; i < group.ratio(); ++i) {
      parts.push_back({view.data + layer.stride * (b * group.ratio() + i), bytes});
    }
    return parts;
  }
  static void Fill(const KvStore& store) {
    for (int l = 0; l < store.layer_count(); ++l) {
      const int blocks = store.groups()[store.layer(l).group].num_blocks;
      for (const bool value : {false, true}) {
        const device::View& view = value ? store.layer(l).v : store.layer(l).k;
        for (int b = 0; b < blocks && view.data != nullptr; ++b) {
          for (const auto part : PartsOf(store, l, value, b)) {
            std::memset(part.data(), static_cast<int>(Mark(l, value, b)), part.size());
          }
        }
      }
    }
  }
  // The block that each cache block of a layer now holds; -1 where it is mixed.
  static std::vector<int> Contents(const KvStore& store, int l, bool value) {
    const int blocks = store.groups()[store.layer(l).group].num_blocks;
    std::vector<int> found;
    for (int b = 0; b < blocks; ++b) {
      const auto parts = PartsOf(store, l, value, b);
      const std::byte first = parts[0][0];
      int holds = static_cast<int>(first) - static_cast<int>(Mark(l, value, 0));
      for (const auto part : parts) {
        for (const std::byte byte : part) {
          if (byte != first) holds = -1;
        }
      }
      found.push_back(holds);
    }
    return found;
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
};

TEST_F(KvStoreTest, EveryLayerHasItsOwnMemoryOfItsGroupsSize) {
  batch::KvGroup wide = Layout({1}, 16, 16);
  wide.dtype = DType::kF32;
  wide.num_blocks = 3;
  const auto store = Open({Layout({0, 2}), wide});
  ASSERT_EQ(store->layer_count(), 3);
  EXPECT_EQ(store->layer(0).group, 0);
  EXPECT_EQ(store->layer(1).group, 1);
  EXPECT_EQ(store->layer(2).group, 0);
  EXPECT_EQ(PartsOf(*store, 0, false, 0)[1].size(), 3u * 2 * 8 * 2);
  EXPECT_EQ(PartsOf(*store, 0, true, 0)[1].size(), 3u * 2 * 4 * 2);
  EXPECT_EQ(PartsOf(*store, 1, false, 0)[1].size(), 3u * 2 * 16 * 4);
  EXPECT_EQ(store->bytes(), 5 * BlockBytes(store->groups()[0]) + 3 * BlockBytes(wide));
  std::set<const std::byte*> starts;
  for (int l = 0; l < 3; ++l) {
    starts.insert(store->layer(l).k.data);
    starts.insert(store->layer(l).v.data);
  }
  EXPECT_EQ(starts.size(), 6u);
  Fill(*store);  // and none overlaps another
  for (int l = 0; l < 3; ++l) {
    for (const bool value : {false, true}) {
      const std::vector<int> found = Contents(*store, l, value);
      for (size_t b = 0; b < found.size(); ++b) EXPECT_EQ(found[b], static_cast<int>(b));
    }
  }
}

TEST_F(KvStoreTest, ScalesLieInTheBlockAndMoveWithIt) {
  for (const DType dtype : {DType::kF8E4M3, DType::kI8}) {
    batch::KvGroup layout = Layout({0, 1}, 7, 5);  // 42 and 30 codes of a kernel block, 6 scales
    layout.dtype = dtype;
    EXPECT_EQ(BlockBytes(layout), 2u * 2 * (48 + 32 + 32 + 32));
    const auto store = Open({layout});
    const size_t stride = store->layer(0).stride;
    EXPECT_EQ(stride * 2 * 5, store->bytes());
    // Every byte of the pool is of one part, and tells which and of which kernel block.
    struct PartOf {
      const device::View* view;
      size_t bytes;
    };
    std::vector<PartOf> parts;
    for (int l = 0; l < 2; ++l) {
      const KvStore::Layer& layer = store->layer(l);
      parts.push_back({&layer.k, 48});
      parts.push_back({&layer.k_scale, 32});
      parts.push_back({&layer.v, 32});
      parts.push_back({&layer.v_scale, 32});
    }
    std::set<const std::byte*> bytes;
    for (size_t p = 0; p < parts.size(); ++p) {
      EXPECT_EQ(parts[p].view->bytes, stride * 9 + parts[p].bytes);
      for (int block = 0; block < 10; ++block) {
        std::byte* at = parts[p].view->data + block * stride;
        std::memset(at, static_cast<int>(p * 10 + block), parts[p].bytes);
        for (size_t i = 0; i < parts[p].bytes; ++i) bytes.insert(at + i);
      }
    }
    EXPECT_EQ(bytes.size(), store->bytes());
    ASSERT_TRUE(store->Copy(*stream_, std::vector<BlockCopy>{{0, 1, 3}}).ok());
    for (size_t p = 0; p < parts.size(); ++p) {
      for (int block = 0; block < 10; ++block) {
        const int from = block / 2 == 3 ? block - 4 : block;
        for (size_t i = 0; i < parts[p].bytes; ++i)
          ASSERT_EQ(static_cast<size_t>(parts[p].view->data[block * stride + i]), p * 10 + from);
      }
    }
  }
}

// Attention kernels refuse, once bound, what does not lie so.
TEST_F(KvStoreTest, EveryPartOfEveryBlockLiesAtAMultipleOf16Bytes) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    batch::KvGroup layout = Layout({0, 1}, 7, 3);
    layout.dtype = dtype;
    layout.kv_heads = 1;
    const auto store = Open({layout});
    for (int l = 0; l < 2; ++l) {
      const KvStore::Layer& layer = store->layer(l);
      EXPECT_EQ(layer.stride % 16, 0u) << Name(dtype);
      for (const device::View* view : {&layer.k, &layer.v, &layer.k_scale, &layer.v_scale})
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % 16, 0u) << Name(dtype);
    }
  }
}

TEST_F(KvStoreTest, WithoutScalesThereAreNone) {
  const auto store = Open({Layout({0})});
  EXPECT_EQ(store->layer(0).k_scale.data, nullptr);
  EXPECT_EQ(store->layer(0).v_scale.data, nullptr);
  batch::KvGroup layout = Layout({0}, 8, 0);
  layout.dtype = DType::kI8;
  const auto keys_only = Open({layout});
  EXPECT_NE(keys_only->layer(0).k_scale.data, nullptr);
  EXPECT_EQ(keys_only->layer(0).v_scale.data, nullptr);
}

TEST_F(KvStoreTest, AGroupMayHaveNoV) {
  const auto store = Open({Layout({0}, 8, 0)});
  EXPECT_EQ(store->layer(0).v.data, nullptr);
  EXPECT_EQ(BlockBytes(store->groups()[0]), 6u * 2 * 8 * 2);
  Fill(*store);
  EXPECT_TRUE(store->Copy(*stream_, std::vector<BlockCopy>{{0, 4, 1}}).ok());
  EXPECT_THAT(Contents(*store, 0, false), ::testing::ElementsAre(0, 4, 2, 3, 4));
}

TEST_F(KvStoreTest, GroupsThatOverlapOrSkipALayerAreRefused) {
  EXPECT_EQ(Refused({Layout({0, 1}), Layout({1})}), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({Layout({0, 0})}), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({Layout({0, 2})}), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({Layout({-1})}), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({Layout({1 << 30})}), StatusCode::kInvalidArgument);
}

TEST_F(KvStoreTest, SizesThatAreNotPossibleAreRefused) {
  const std::vector<int batch::KvGroup::*> positive = {
      &batch::KvGroup::kv_heads, &batch::KvGroup::k_head_dim, &batch::KvGroup::block_tokens,
      &batch::KvGroup::kernel_block_tokens, &batch::KvGroup::num_blocks};
  for (const auto field : positive) {
    for (const int value : {0, -1}) {
      batch::KvGroup layout = Layout({0});
      layout.*field = value;
      EXPECT_EQ(Refused({layout}), StatusCode::kInvalidArgument) << value;
    }
  }
  batch::KvGroup layout = Layout({0});
  layout.v_head_dim = -1;
  EXPECT_EQ(Refused({layout}), StatusCode::kInvalidArgument);
  layout = Layout({0});
  layout.kernel_block_tokens = 4;  // does not divide 6
  const Status status = KvStore::Make(*device_, {layout}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("--block-size"));
}

TEST_F(KvStoreTest, MoreThanTheMachineHasIsOutOfMemory) {
  batch::KvGroup layout = Layout({0}, 1 << 15, 1 << 15);
  layout.kv_heads = 1 << 10;
  layout.num_blocks = 1 << 30;
  EXPECT_EQ(Refused({layout}), StatusCode::kOutOfMemory);
}

TEST_F(KvStoreTest, CopiesMoveWholeBlocksInEveryLayerOfTheirGroupAlone) {
  const auto store = Open({Layout({0, 2}), Layout({1})});
  Fill(*store);
  ASSERT_TRUE(store->Copy(*stream_, std::vector<BlockCopy>{{0, 1, 3}}).ok());
  for (const int l : {0, 2}) {
    for (const bool value : {false, true}) {
      EXPECT_THAT(Contents(*store, l, value), ::testing::ElementsAre(0, 1, 2, 1, 4));
    }
  }
  for (const bool value : {false, true}) {
    EXPECT_THAT(Contents(*store, 1, value), ::testing::ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST_F(KvStoreTest, CopiesRunInOrder) {
  const auto store = Open({Layout({0})});
  Fill(*store);
  ASSERT_TRUE(
      store->Copy(*stream_, std::vector<BlockCopy>{{0, 0, 1}, {0, 1, 2}, {0, 4, 0}, {0, 3, 3}})
          .ok());
  EXPECT_THAT(Contents(*store, 0, true), ::testing::ElementsAre(4, 0, 0, 3, 4));
}

TEST_F(KvStoreTest, IdsOutOfRangeAreErrorsAndNothingIsCopied) {
  const auto store = Open({Layout({0})});
  for (const BlockCopy& bad : {BlockCopy{0, 5, 1}, BlockCopy{0, 1, 5}, BlockCopy{0, -1, 1},
                               BlockCopy{0, 1, -1}, BlockCopy{1, 0, 1}, BlockCopy{-1, 0, 1}}) {
    Fill(*store);
    EXPECT_FALSE(store->Copy(*stream_, std::vector<BlockCopy>{{0, 1, 3}, bad}).ok());
    EXPECT_THAT(Contents(*store, 0, false), ::testing::ElementsAre(0, 1, 2, 3, 4));
  }
  EXPECT_TRUE(store->Copy(*stream_, {}).ok());
}

}  // namespace
}  // namespace sluice::kvstore
