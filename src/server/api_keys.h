// The API keys of this server. Const after Load; thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::server {

class ApiKeys {
 public:
  // One key a line; blank lines and those that start with # are left out. An empty path: no key is
  // asked for. kInvalidArgument when the file cannot be read or holds no key.
  static Result<ApiKeys> Load(const std::string& path);

  bool required() const { return !digests_.empty(); }

  // `authorization`: the header, "Bearer KEY"; `api_key`: the header x-api-key. Gives the cache
  // salt of the key (empty where none is asked for), or nothing when it is not one of ours. The
  // time taken tells nothing of the keys.
  std::optional<std::string> SaltOf(std::string_view authorization, std::string_view api_key) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest DigestOf(std::string_view text);

  std::vector<Digest> digests_;  // of the keys, which are not kept
};

}  // namespace sluice::server
