#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <cstdio>
#include <sstream>

#include "base/regular_file.h"
#include "base/str_cat.h"

namespace sluice::server {
namespace {

constexpr size_t kKeyBytesMax = 4096;
constexpr size_t kKeysMax = 65536;
constexpr size_t kFileBytesMax = size_t{16} << 20;
constexpr std::string_view kBearer = "Bearer ";

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool IsBearer(std::string_view header) {
  if (header.size() < kBearer.size()) return false;
  for (size_t i = 0; i < kBearer.size(); ++i) {
    if ((header[i] | 0x20) != (kBearer[i] | 0x20)) return false;  // schemes have no case
  }
  return true;
}

}  // namespace

ApiKeys::Digest ApiKeys::DigestOf(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

Result<ApiKeys> ApiKeys::Load(const std::string& path) {
  ApiKeys keys;
  if (path.empty()) return keys;
  auto text = ReadRegularFile(path, kFileBytesMax);
  if (!text.ok()) {
    return InvalidArgument(
        StrCat("the key file cannot be read: ", text.status().message(), "; write one key a line"),
        "api-key-file");
  }
  if (text->starts_with("\xEF\xBB\xBF") || text->find('\0') != std::string::npos) {
    return InvalidArgument(
        StrCat(
            "the key file ", path,
            " has a byte order mark or a NUL byte, which no client can send in a key; save it as "
            "plain text"),
        "api-key-file");
  }
  std::istringstream lines(*std::move(text));
  std::string line;
  while (std::getline(lines, line)) {
    const std::string_view key = Trim(line);
    if (key.empty() || key.front() == '#') continue;
    if (key.size() > kKeyBytesMax || keys.digests_.size() == kKeysMax) {
      return InvalidArgument(StrCat("the key file ", path, " has a key of more than ", kKeyBytesMax,
                                    " bytes or more than ", kKeysMax, " keys"),
                             "api-key-file");
    }
    keys.digests_.push_back(DigestOf(key));
  }
  if (keys.digests_.empty()) {
    return InvalidArgument(StrCat("the key file ", path, " holds no key; write one a line"),
                           "api-key-file");
  }
  return keys;
}

std::optional<std::string> ApiKeys::SaltOf(std::string_view authorization,
                                           std::string_view api_key) const {
  if (!required()) return std::string();
  std::string_view key = api_key;
  if (IsBearer(authorization)) key = Trim(authorization.substr(kBearer.size()));
  const Digest asked = DigestOf(key);
  bool found = false;
  for (const Digest& digest : digests_) {
    found |= CRYPTO_memcmp(digest.data(), asked.data(), asked.size()) == 0;
  }
  if (!found || key.empty()) return std::nullopt;
  // Not the key's own digest: the salt may be shown where keys may not.
  const Digest digest = DigestOf(
      StrCat("salt:", std::string_view(reinterpret_cast<const char*>(asked.data()), asked.size())));
  std::string salt;
  for (const unsigned char byte : digest) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    salt += hex;
  }
  return salt;
}

}  // namespace sluice::server
