// What a user may call a model that is to be fetched. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "fetch/catalogue.h"
#include "sluice/status.h"

namespace sluice::fetch {

struct ModelName {
  const CatalogueEntry* entry = nullptr;  // null: a repository of the Hub, which the rest describes
  std::string repository;                 // "OWNER/NAME"
  std::string selector;                   // a GGUF file or a quantization ("Q4_K_M"); or empty
  std::string revision;                   // branch, tag or commit that a URL names; or empty
};

// Reads a name of the catalogue, OWNER/NAME, OWNER/NAME:FILE-OR-QUANTIZATION, or the URL of one of
// these, with or without https://, at huggingface.co, hf.co or `endpoint`; a URL may go on with
// /tree/REVISION or /blob/REVISION/FILE. kInvalidArgument says what is allowed.
Result<ModelName> ParseModelName(std::string_view name, std::string_view endpoint);

// kInvalidArgument for what no branch, tag or commit is called, or leads out of a folder.
Status CheckRevision(std::string_view revision);

// Of a repository in the model cache: its own name, with @REVISION unless that is the main branch.
// No two revisions have the same folder.
std::string FolderOf(std::string_view repository, std::string_view revision);

inline constexpr std::string_view kMainRevision = "main";

}  // namespace sluice::fetch
