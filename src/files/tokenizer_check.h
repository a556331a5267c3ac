// Bounds and cross-checks of a TokenizerData that hold whichever file it came from. Any thread.
#pragma once

#include "files/tokenizer_data.h"
#include "sluice/status.h"

namespace sluice::files {

// The last step of reading a tokenizer: the number of pieces, one finite score and one kind for
// each, texts that are UTF-8, and ids that are of a piece. kBadModel with one sentence.
Status FinishTokenizer(const TokenizerData& data);

}  // namespace sluice::files
