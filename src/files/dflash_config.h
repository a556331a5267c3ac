// config.json of a head of DFlash's form (block diffusion, arXiv 2602.06036), as its authors write
// it and vLLM and SGLang read it: Qwen3's fields of its layers, and of the head "dflash_config" and
// "block_size". Internal to files; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "files/eagle_files.h"

namespace sluice::files {

struct DFlashHead {
  Json config;              // of its layers, as Qwen3 has them
  int mask_token = 0;       // not held against the vocabulary
  int block_tokens = 0;     // that it was trained with, the drawn one included
  std::vector<int> layers;  // of the model, whose outputs it reads, ascending
};

// The first class that config.json names; empty: none.
std::string ClassOf(const Json& config);

// Whether config.json names a head of this form, or of one that is derived from it.
bool IsDFlash(const Json& config);

// REQUIRES: IsDFlash(config). kBadModel says what is wrong, or what of it is not supported.
Result<DFlashHead> ReadDFlash(Json config);

}  // namespace sluice::files
