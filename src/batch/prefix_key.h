// PrefixKey: everything besides the tokens that decides what a KV block holds and who may share it.
// Two sequences share blocks only when their keys are equal byte for byte.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace sluice::batch {

struct PrefixKey {
  std::string salt;  // of the API key (and of the request, if it gives one): the sharing border
  uint64_t weights_version = 0;  // that compute the KV; grows with every update in place
  DType kv_dtype = DType::kF16;

  // An unambiguous byte string of all fields.
  std::string Encode() const;
  friend bool operator==(const PrefixKey&, const PrefixKey&) = default;
};

}  // namespace sluice::batch
