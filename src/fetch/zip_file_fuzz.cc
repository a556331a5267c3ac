// Any bytes as a ZIP archive: what is read lies within it, and no file of it gives more bytes than
// its directory says.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "fetch/zip_file.h"

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::fetch;
  using namespace sluice::files;
  const ZipSource source{input.size(), [&](uint64_t offset, std::span<std::byte> bytes) -> Status {
                           CHECK(offset <= input.size() && bytes.size() <= input.size() - offset);
                           if (!bytes.empty()) {
                             std::memcpy(bytes.data(), input.data() + offset, bytes.size());
                           }
                           return OkStatus();
                         }};
  const auto entries = ReadZipDirectory(source);
  if (!entries.ok()) {
    CHECK(!entries.status().message().empty());
    return;
  }
  CHECK(entries->size() <= kZipEntriesMax);
  // A directory may name the same bytes very often; who fetches takes one file.
  constexpr size_t kExtractedMax = 4;
  for (size_t i = 0; i < std::min(entries->size(), kExtractedMax); ++i) {
    uint64_t bytes = 0;
    const Status status =
        ExtractZipEntry(source, (*entries)[i], [&](std::span<const std::byte> piece) {
          bytes += piece.size();
          return OkStatus();
        });
    CHECK(bytes <= (*entries)[i].bytes);
    CHECK(!status.ok() || bytes == (*entries)[i].bytes);
  }
}
