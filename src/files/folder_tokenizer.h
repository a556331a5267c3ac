// The tokenizer of a model folder. Thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

#include "files/tokenizer_data.h"
#include "sluice/status.h"

namespace sluice::files {

// Whether a file of a model folder is one that a tokenizer is made of.
bool IsTokenizerFile(std::string_view name);

// Whether a folder has any file that ReadFolderTokenizer could read a vocabulary from.
bool HasTokenizer(const std::filesystem::path& folder);

// From tokenizer.json, or where there is none from tokenizer.model or spiece.model (SentencePiece),
// tiktoken.model or *.tiktoken, vocab.json with merges.txt, or vocab.txt, with the special tokens
// of tokenizer_config.json (whose text is given), added_tokens.json and special_tokens_map.json.
// kNotFound where there is none of them; kBadModel where one is damaged, or of a tokenizer_class
// that is not known.
Result<TokenizerData> ReadFolderTokenizer(const std::filesystem::path& folder,
                                          std::string_view config);

}  // namespace sluice::files
