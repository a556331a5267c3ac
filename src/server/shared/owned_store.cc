#include "server/shared/owned_store.h"

#include <openssl/rand.h>

#include <array>
#include <cstdio>

#include "base/check.h"

namespace sluice::server {

std::string DrawPrivateId(std::string_view prefix) {
  std::array<unsigned char, 16> bytes;
  CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1,
        "the system gave no randomness");
  std::string id(prefix);
  for (const unsigned char byte : bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    id += hex;
  }
  return id;
}

}  // namespace sluice::server
