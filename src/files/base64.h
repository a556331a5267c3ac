// Bytes written in base64. Pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::files {

// Nothing where a character is none of base64.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace sluice::files
