#include "speculate/proposer.h"

#include "base/str_cat.h"
#include "base/visible.h"
#include "speculate/ngram_proposer.h"

namespace sluice::speculate {

Status CheckProposer(std::string_view name) {
  if (name == "none" || name == "ngram") return OkStatus();
  return InvalidArgument(
      StrCat("--speculate ", Quote(name), " is no way to find drafts; choose none or ngram"),
      "speculate");
}

std::unique_ptr<Proposer> MakeProposer(std::string_view name, const ProposerLimits& limits) {
  if (name == "none") return nullptr;
  return std::make_unique<NgramProposer>(limits);
}

}  // namespace sluice::speculate
