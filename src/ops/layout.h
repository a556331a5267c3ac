// Inner orders of packed weights and of KV blocks. A kernel asks for one, repack makes it, and a
// transfer compares it. Two memories with the same id and sizes are interchangeable.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::ops {

// The value is stable: it may stand in a file or in a message.
enum class LayoutId : uint32_t {
  kRowMajor = 0,  // rows as the file has them, block formats included
  // Packed layouts of backends start here; each is described beside the kernel that reads it.
  kCpuInterleaved16 = 0x101,
  kCpuInterleaved8 = 0x102,
  kCpuTiles16 = 0x103,
  kXpuInterleaved16 = 0x301,
  kXpuNibbles16 = 0x302,
};

enum class KvLayoutId : uint32_t {
  // K and V apart, each [kernel_blocks, kv_heads, kernel_block_tokens, head_dim].
  kHeadsTokensDim = 1,
};

}  // namespace sluice::ops
