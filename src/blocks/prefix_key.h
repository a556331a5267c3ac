// PrefixKey: everything besides the tokens that decides what a KV block holds and who may share it.
// Two sequences share blocks only when their keys are equal byte for byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/hash128.h"

namespace sluice::blocks {

struct PrefixKey {
  std::string salt;  // of the API key (and of the request, if it gives one): the sharing border
  uint64_t adapter_id = 0;
  uint64_t weights_version = 0;  // that compute the KV; grows with every update in place
  std::vector<Hash128> media;    // content hashes of images and sounds, in prompt order
  DType kv_dtype = DType::kF16;

  // An unambiguous byte string of all fields.
  std::string Encode() const;
  friend bool operator==(const PrefixKey&, const PrefixKey&) = default;
};

// The chained key of a block: `parent` is the hash of the block before it, or of the key's root.
Hash128 RootHash(const std::string& encoded_key);
Hash128 BlockHash(const Hash128& parent, std::span<const int32_t> tokens);

}  // namespace sluice::blocks
