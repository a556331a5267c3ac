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
#include "base/visible.h"
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

// A fault of the file, with the line it stands in; 0: of the whole.
Status Fault(const std::string& path, size_t line, std::string_view what) {
  return InvalidArgument(StrCat("the key file ", Quote(path),
                                line == 0 ? "" : StrCat(", line ", line, ","), " ", what),
                         "api-key-file");
}

// What is wrong with a line, which the sentences do not repeat where a key may stand in it.
Status WrongLine(std::string what) { return InvalidArgument(std::move(what)); }

Status ReadWeight(std::string_view text, int* weight) {
  *weight = ParseNumber<int>(text).value_or(0);
  if (*weight >= 1 && *weight <= limits::kClientWeightMax) return OkStatus();
  return WrongLine(StrCat("has ", kWeight, Quote(text), "; a weight is a whole number from 1 to ",
                          limits::kClientWeightMax));
}

// A name is shown in a log and needs no escapes there.
Status ReadName(std::string_view text, std::string* name) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\\';
  });
  if (!plain || text.empty() || text.size() > kKeyNameBytesMax) {
    return WrongLine(StrCat("has ", kName, Quote(text), "; a name is 1 to ", kKeyNameBytesMax,
                            " printable ASCII characters without spaces, quotes and backslashes"));
  }
  *name = text;
  return OkStatus();
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
  if (text->starts_with("\xEF\xBB\xBF")) {
    return Fault(path, 1,
                 "begins with a byte order mark, which no client can send in a key; save "
                 "the file as plain text");
  }
  std::istringstream lines(*std::move(text));
  std::string line;
  std::map<Digest, std::pair<Entry, size_t>> first;  // and its line
  std::map<std::string, size_t> names;               // and the line of the first key
  for (size_t number = 1; std::getline(lines, line); ++number) {
    const std::string_view text_of_key = Trimmed(line);
    if (text_of_key.empty() || text_of_key.front() == '#') continue;
    if (keys.entries_.size() == kApiKeysMax) {
      return Fault(path, number,
                   StrCat("has one key more than the limit of ", kApiKeysMax,
                          "; leave out those that nobody uses"));
    }
    Result<Entry> entry = ReadLine(text_of_key);
    if (!entry.ok()) return Fault(path, number, entry.status().message());
    const auto [known, is_new] = first.try_emplace(entry->digest, *entry, number);
    const Entry& before = known->second.first;
    if (before.weight != entry->weight || before.admin != entry->admin ||
        before.name != entry->name) {
      return Fault(path, number,
                   StrCat("has the key of line ", known->second.second,
                          " with different flags behind it; leave one of them"));
    }
    if (!is_new) continue;
    if (!entry->name.empty()) {
      const auto [named, new_name] = names.try_emplace(entry->name, number);
      if (!new_name) {
        return Fault(
            path, number,
            StrCat("has the name ", Quote(entry->name), ", which the key of line ", named->second,
                   " has, too; a log could not tell them apart: give "
                   "each a name of its own"));
      }
    }
    keys.entries_.push_back(*std::move(entry));
  }
  if (keys.entries_.empty()) return Fault(path, 0, "holds no key; write one a line");
  return keys;
}

Result<ApiKeys::Entry> ApiKeys::ReadLine(std::string_view line) {
  const size_t space = line.find_first_of(" \t");
  const std::string_view key = line.substr(0, space);
  if (key.find('\0') != std::string_view::npos) {
    return WrongLine(
        "has a NUL byte, which no client can send in a key; save the file as plain "
        "text");
  }
  if (key.size() > kKeyBytesMax) {
    return WrongLine(StrCat("has a key of ", key.size(), " bytes; the limit is ", kKeyBytesMax));
  }
  Entry entry{DigestOf(key)};
  if (space == std::string_view::npos) return entry;
  std::istringstream words{std::string(line.substr(space))};
  for (std::string word; words >> word;) {
    std::string_view value = word;
    Status status;
    if (word == kAdmin) {
      entry.admin = true;
    } else if (value.starts_with(kWeight)) {
      status = ReadWeight(value.substr(kWeight.size()), &entry.weight);
    } else if (value.starts_with(kName)) {
      status = ReadName(value.substr(kName.size()), &entry.name);
    } else {
      // It may be a second key.
      status = WrongLine(StrCat("has something behind a key that is neither ", kAdmin, " nor ",
                                kWeight, "N nor ", kName, "NAME; write one key a line"));
    }
    if (!status.ok()) return status;
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
