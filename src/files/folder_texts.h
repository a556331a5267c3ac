// The small texts of a model folder: its JSON files, which may be absent, and its chat template,
// which newer and older folders keep in different places.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::files {

inline constexpr size_t kTemplateBytesMax = 1u << 20;
inline constexpr size_t kTokenizerBytesMax = 128u << 20;
inline constexpr size_t kConfigBytesMax = 16u << 20;
inline constexpr char kTokenizerConfigName[] = "tokenizer_config.json";

// The text of a file; empty when there is none of that name. Other errors as ReadTextFile.
Result<std::string> ReadOptional(const std::filesystem::path& path, size_t bytes_max);

// The chat template: chat_template.jinja, else that of tokenizer_config.json (whose text is given),
// else that of chat_template.json; empty when none has one. kBadModel when it is malformed.
Result<std::string> ReadFolderTemplate(const std::filesystem::path& folder,
                                       std::string_view tokenizer_config);

// kBadModel when a template is over kTemplateBytesMax.
Status CheckTemplateSize(const std::string& text);

}  // namespace sluice::files
