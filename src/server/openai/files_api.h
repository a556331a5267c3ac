// OpenAI's /v1/files: texts that a client gives to batches and gets from them. They are kept in
// memory, and belong to the API key that made them. Pure functions over a store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/http/http.h"
#include "server/shared/owned_store.h"

namespace sluice::server {

inline constexpr const char* kFilePrefix = "/v1/files/";

struct StoredFile {
  std::string id, filename, purpose;
  std::string content;
  int64_t created = 0;  // seconds since the epoch

  int64_t bytes() const {
    return static_cast<int64_t>(content.size() + filename.size() + purpose.size());
  }
};

class FileStore : public OwnedStore<StoredFile> {
 public:
  static constexpr int64_t kAgeSecondsMax = 7 * 24 * 3600;
  explicit FileStore(int64_t bytes_max = 256 << 20)
      : OwnedStore(bytes_max, kAgeSecondsMax * 1'000'000) {}
};

// Keeps a file under a new id, which it has then. False: it is larger than the store.
bool KeepFile(const std::string& owner, StoredFile* file, FileStore* files);

HttpReply CreateFile(const HttpRequest& request, FileStore* files);
HttpReply ListFiles(const HttpRequest& request, FileStore* files);
// Of /v1/files/ID, and of /v1/files/ID/content.
HttpReply FindFile(const HttpRequest& request, FileStore* files);
HttpReply DeleteFile(const HttpRequest& request, FileStore* files);

}  // namespace sluice::server
