#include "batch/prefix_key.h"

namespace sluice::batch {
namespace {

void Append(uint64_t value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string PrefixKey::Encode() const {
  std::string out;
  out.reserve(salt.size() + 3 * sizeof(uint64_t));
  Append(salt.size(), &out);
  out += salt;
  Append(weights_version, &out);
  Append(static_cast<uint64_t>(kv_dtype), &out);
  return out;
}

}  // namespace sluice::batch
