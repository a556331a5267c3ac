// Which files of a repository make a model that Sluice loads. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "fetch/hub_listing.h"
#include "sluice/status.h"

namespace sluice::fetch {

struct FilePlan {
  std::vector<HubFile> files;  // no two of one name; the small ones first
  std::string
      gguf;  // the file that opens the model, the first of several parts; empty: the folder does
};

// `selector`: empty, the name of a GGUF file, or a quantization, which a file's name has as a word
// of its own in any case ("Q4_K_M" in "x-q4_k_m.gguf"). Without one a repository of safetensors
// gives its folder, and one of GGUF files that of Q4_K_M, else Q8_0, else the only one. A model in
// parts is chosen by the first, and its other parts come with it.
//
// kInvalidArgument: the selector fits no file or several, and the message lists what there is.
// kBadModel: there is nothing that can be loaded (pickles are never fetched, since reading them
// can run code).
Result<FilePlan> ChooseFiles(const HubListing& listing, const std::string& repository,
                             const std::string& selector);

}  // namespace sluice::fetch
