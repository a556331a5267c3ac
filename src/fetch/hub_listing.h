// What a hub says of a repository: the answer to GET /api/models/OWNER/NAME/revision/REVISION with
// ?blobs=true (https://huggingface.co/docs/hub/api). Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fetch/checksum.h"
#include "sluice/status.h"

namespace sluice::fetch {

struct HubFile {
  std::string name;              // checked by CheckFileName
  std::optional<uint64_t> size;  // bytes; some mirrors do not tell
  Checksum checksum;             // SHA-256 of large files, Git's of others; none: not told
};

struct HubListing {
  std::string commit;  // 40 hexadecimal digits
  std::vector<HubFile> files;
};

inline constexpr size_t kListingBytesMax = 16u << 20;
inline constexpr size_t kListedFilesMax = 4096;
// More than any disk that a model is fetched to; sums of kListedFilesMax of them fit 64 bits.
inline constexpr uint64_t kFileBytesMax = uint64_t{1} << 50;

// kIo: the text is no such answer, or over a limit. kBadModel: a name that cannot be written.
Result<HubListing> ParseHubListing(std::string_view json);

}  // namespace sluice::fetch
