// The API keys of this server, by their digests. Const after Load; thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::server {

// Who holds a key.
struct KeyHolder {
  std::string salt;    // stands for the key: of caches, and of what belongs to it; empty: no key
  int weight = 1;      // of the holder's share of the steps
  bool admin = false;  // may load and unload models
  std::string name;    // in the log; empty: it has none
};

class ApiKeys {
 public:
  // One key a line, and behind it weight=N where its holder's share is not 1, admin where it may
  // load and unload models, and name=NAME as the log is to call it; blank lines and those that
  // start with # are left out. An empty path: no key is asked for. kInvalidArgument, with file and
  // line and without any key, when the file cannot be read, holds no key, has something else behind
  // one, one key twice with different flags, or one name for two keys.
  static Result<ApiKeys> Load(const std::string& path);

  bool required() const { return !entries_.empty(); }

  // `authorization`: the header, "Bearer KEY"; `api_key`: the header x-api-key. Gives its
  // holder (no salt where none is asked for), or nothing when it is not one of ours. The time taken
  // tells nothing of the keys.
  std::optional<KeyHolder> Find(std::string_view authorization, std::string_view api_key) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest DigestOf(std::string_view text);

  struct Entry {
    Digest digest;  // of the key, which is not kept
    int weight = 1;
    bool admin = false;
    std::string name;
  };
  // What is wrong with a line is told without file and line.
  static Result<Entry> ReadLine(std::string_view line);

  std::vector<Entry> entries_;
};

}  // namespace sluice::server
