// The tokenizer of a model folder. Thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

#include "files/tokenizer_data.h"
#include "sluice/status.h"

namespace sluice::files {

// Whether a file of a model folder is one that a tokenizer is made of.
bool IsTokenizerFile(std::string_view name);

// Whether a folder has a file that tells of a tokenizer or a chat template, or an unfinished
// download (*.part). One without is that of a model of token ids alone; where such a file stands
// and the vocabulary does not, the copy is incomplete.
bool MeansTokenizer(const std::filesystem::path& folder);

// From tokenizer.json, or where there is none from tokenizer.model or spiece.model (SentencePiece),
// tiktoken.model or *.tiktoken, vocab.json with merges.txt, or vocab.txt, with the special tokens
// of tokenizer_config.json (whose text is given), added_tokens.json and special_tokens_map.json.
// kNotFound where there is none of them; kBadModel where one is damaged, or of a tokenizer_class
// that is not known.
Result<TokenizerData> ReadFolderTokenizer(const std::filesystem::path& folder,
                                          std::string_view config);

}  // namespace sluice::files
