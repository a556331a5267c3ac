#include "fetch/checksum.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/ascii.h"
#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::fetch {

Checksum ChecksumOf(std::string_view hex) {
  constexpr size_t kSha256Digits = 64, kSha1Digits = 40;
  Checksum checksum;
  const auto digit = [](unsigned char c) { return std::isxdigit(c) != 0; };
  if (!std::all_of(hex.begin(), hex.end(), digit)) return checksum;
  if (hex.size() == kSha256Digits) checksum.kind = Checksum::Kind::kSha256;
  if (hex.size() == kSha1Digits) checksum.kind = Checksum::Kind::kGitBlob;
  if (checksum.kind == Checksum::Kind::kNone) return checksum;
  checksum.hex = Lower(hex);
  return checksum;
}

std::string_view KindName(Checksum::Kind kind) {
  return kind == Checksum::Kind::kSha256 ? "SHA-256" : "Git's SHA-1";
}

Digest::Digest(Checksum::Kind kind, uint64_t size) : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr && kind != Checksum::Kind::kNone, "a digest needs a kind");
  const bool git = kind == Checksum::Kind::kGitBlob;
  CHECK(EVP_DigestInit_ex(context_, git ? EVP_sha1() : EVP_sha256(), nullptr) == 1, "no digest");
  if (!git) return;
  std::string header = StrCat("blob ", size);
  header.push_back('\0');
  Add(std::as_bytes(std::span(header)));
}

Digest::Digest(Digest&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}

Digest::~Digest() { EVP_MD_CTX_free(context_); }

void Digest::Add(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1, "no digest");
}

std::string Digest::Hex() {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  CHECK(EVP_DigestFinal_ex(context_, bytes, &count) == 1, "no digest");
  std::string hex;
  for (unsigned i = 0; i < count; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

}  // namespace sluice::fetch
