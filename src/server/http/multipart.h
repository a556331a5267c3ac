// The body of a form with files, multipart/form-data (RFC 7578). Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::server {

inline constexpr size_t kFormPartsMax = 32;

struct FormPart {
  std::string name, filename;  // the latter of a file alone
  std::string_view content;    // within the body
};

// `content_type`: the header, which has the boundary. kInvalidArgument says what is wrong.
Result<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body);

}  // namespace sluice::server
