#include "blocks/prefix_key.h"

namespace sluice::blocks {
namespace {

void Append(uint64_t value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string PrefixKey::Encode() const {
  std::string out;
  out.reserve(salt.size() + (5 + 2 * media.size()) * sizeof(uint64_t));
  Append(salt.size(), &out);
  out += salt;
  Append(adapter_id, &out);
  Append(weights_version, &out);
  Append(media.size(), &out);
  for (const Hash128& hash : media) {
    Append(hash.high, &out);
    Append(hash.low, &out);
  }
  Append(static_cast<uint64_t>(kv_dtype), &out);
  return out;
}

Hash128 RootHash(const std::string& encoded_key) {
  return HashBytes(std::as_bytes(std::span(encoded_key)), Hash128{});
}

Hash128 BlockHash(const Hash128& parent, std::span<const int32_t> tokens) {
  return HashBytes(std::as_bytes(tokens), parent);
}

}  // namespace sluice::blocks
