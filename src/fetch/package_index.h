// One page of a Python package index in either form: PEP 691's JSON and PEP 503's HTML. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "fetch/checksum.h"
#include "sluice/status.h"

namespace sluice::fetch {

struct IndexFile {
  std::string url;    // as it stands on the page, maybe relative to it
  Checksum checksum;  // a SHA-256; none if the page has none
};

inline constexpr size_t kIndexBytesMax = 16u << 20;
// The forms that are asked for, the better one first.
inline constexpr char kIndexTypes[] =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1";

// Finds the file `name` on a page of the media type `type`. kNotFound: it has none of that name.
// kIo: what should be JSON is not.
Result<IndexFile> FindInIndex(std::string_view page, std::string_view type, std::string_view name);

}  // namespace sluice::fetch
