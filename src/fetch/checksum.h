// The checksums that servers publish with their files. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace sluice::fetch {

struct Checksum {
  // kGitBlob: SHA-1 of "blob SIZE\0" and the bytes, as Git names its objects.
  enum class Kind { kNone, kSha256, kGitBlob };
  Kind kind = Kind::kNone;
  std::string hex;  // lower case

  bool operator==(const Checksum&) const = default;
};

// By its length: 64 hexadecimal digits are a SHA-256, 40 are Git's. Of anything else kNone.
Checksum ChecksumOf(std::string_view hex);

// "SHA-256", "Git's SHA-1".
std::string_view KindName(Checksum::Kind kind);

// Computes a checksum of bytes that come in pieces.
class Digest {
 public:
  // `size`: how many bytes will come, which Git's kind begins with. REQUIRES: kind != kNone.
  Digest(Checksum::Kind kind, uint64_t size);
  Digest(Digest&&) noexcept;
  ~Digest();

  void Add(std::span<const std::byte> bytes);
  // Nothing may be added afterwards.
  std::string Hex();

 private:
  evp_md_ctx_st* context_;
};

}  // namespace sluice::fetch
