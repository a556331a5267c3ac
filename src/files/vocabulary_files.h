// The vocabularies of tokenizers from before tokenizer.json: vocab.json with merges.txt, vocab.txt,
// and tiktoken's lists. Pure functions; kBadModel where a text is none of these, in words that need
// the name of the file before them.
#pragma once

#include <string_view>

#include "files/tokenizer_data.h"
#include "sluice/status.h"

namespace sluice::files {

// Byte-level pieces of GPT-2's form, in vocab.json, and their merges, in merges.txt.
Status ReadVocabJson(std::string_view vocab, TokenizerData* data);
Status ReadMerges(std::string_view merges, TokenizerData* data);
// BERT's pieces, one a line, in the order of their ids.
Status ReadVocabText(std::string_view vocab, TokenizerData* data);
// Lines of a piece's bytes in base64 and its id. Pieces merge by their ids.
Status ReadTiktoken(std::string_view lines, TokenizerData* data);

}  // namespace sluice::files
