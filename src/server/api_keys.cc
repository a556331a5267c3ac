#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

#include "base/ascii.h"
#include "base/parse_number.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "sluice/limits.h"

namespace sluice::server {
namespace {

constexpr size_t kKeyBytesMax = 4096;
constexpr size_t kApiKeysMax = 65536;
constexpr size_t kFileBytesMax = size_t{16} << 20;
constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kWeight = "weight=";
constexpr std::string_view kAdmin = "admin";
constexpr std::string_view kName = "name=";
constexpr size_t kKeyNameBytesMax = 64;

bool IsBearer(std::string_view header) {
  if (header.size() < kBearer.size()) return false;
  for (size_t i = 0; i < kBearer.size(); ++i) {
    if ((header[i] | 0x20) != (kBearer[i] | 0x20)) return false;  // schemes have no case
  }
  return true;
}

bool ReadWeight(std::string_view word, int* weight) {
  if (!word.starts_with(kWeight)) return false;
  word.remove_prefix(kWeight.size());
  *weight = ParseNumber<int>(word).value_or(0);
  return *weight >= 1 && *weight <= limits::kClientWeightMax;
}

// A name is shown in a log and needs no escapes there.
bool ReadName(std::string_view word, std::string* name) {
  if (!word.starts_with(kName)) return false;
  word.remove_prefix(kName.size());
  const bool plain = std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\\';
  });
  if (!plain || word.empty() || word.size() > kKeyNameBytesMax) return false;
  *name = word;
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
  std::map<Digest, std::pair<Entry, size_t>> first;  // and its line
  for (size_t number = 1; std::getline(lines, line); ++number) {
    const std::string_view text_of_key = Trimmed(line);
    if (text_of_key.empty() || text_of_key.front() == '#') continue;
    if (text_of_key.size() > kKeyBytesMax || keys.entries_.size() == kApiKeysMax) {
      return InvalidArgument(StrCat("the key file ", path, " has a key of more than ", kKeyBytesMax,
                                    " bytes or more than ", kApiKeysMax, " keys"),
                             "api-key-file");
    }
    SLUICE_ASSIGN_OR_RETURN(const Entry entry, ReadLine(text_of_key, path));
    const auto [known, is_new] = first.try_emplace(entry.digest, entry, number);
    const Entry& before = known->second.first;
    if (before.weight != entry.weight || before.admin != entry.admin || before.name != entry.name) {
      return InvalidArgument(
          StrCat("the key file ", path, " has one key on its lines ", known->second.second, " and ",
                 number, ", with different flags behind it; leave one of them"),
          "api-key-file");
    }
    if (is_new) keys.entries_.push_back(entry);
  }
  if (keys.entries_.empty()) {
    return InvalidArgument(StrCat("the key file ", path, " holds no key; write one a line"),
                           "api-key-file");
  }
  return keys;
}

Result<ApiKeys::Entry> ApiKeys::ReadLine(std::string_view line, const std::string& path) {
  const size_t space = line.find_first_of(" \t");
  Entry entry{DigestOf(line.substr(0, space))};
  if (space == std::string_view::npos) return entry;
  std::istringstream words{std::string(line.substr(space))};
  for (std::string word; words >> word;) {
    if (word == kAdmin) {
      entry.admin = true;
    } else if (!ReadWeight(word, &entry.weight) && !ReadName(word, &entry.name)) {
      return InvalidArgument(
          StrCat("the key file ", path, " has something behind a key that is neither ", kAdmin,
                 " nor ", kWeight, "1 to ", kWeight, limits::kClientWeightMax, " nor ", kName,
                 "NAME of up to ", kKeyNameBytesMax, " plain characters; write one key a line"),
          "api-key-file");
    }
  }
  return entry;
}

std::optional<KeyHolder> ApiKeys::Find(std::string_view authorization,
                                       std::string_view api_key) const {
  if (!required()) return KeyHolder();
  std::string_view key = api_key;
  if (IsBearer(authorization)) key = Trimmed(authorization.substr(kBearer.size()));
  const Digest asked = DigestOf(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    const bool same = CRYPTO_memcmp(entry.digest.data(), asked.data(), asked.size()) == 0;
    found = same ? &entry : found;
  }
  if (found == nullptr || key.empty()) return std::nullopt;
  KeyHolder holder{"", found->weight, found->admin, found->name};
  // Not the key's own digest: the salt may be shown where keys may not.
  const Digest digest = DigestOf(
      StrCat("salt:", std::string_view(reinterpret_cast<const char*>(asked.data()), asked.size())));
  for (const unsigned char byte : digest) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    holder.salt += hex;
  }
  return holder;
}

}  // namespace sluice::server
