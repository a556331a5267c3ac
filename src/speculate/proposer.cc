#include "speculate/proposer.h"

#include <algorithm>
#include <iterator>

#include "base/str_cat.h"
#include "base/visible.h"
#include "speculate/ngram_proposer.h"
#include "speculate/suffix_proposer.h"

namespace sluice::speculate {

bool Proposer::End(int32_t, std::span<const int32_t>) { return true; }

Status CheckProposer(std::string_view name) {
  constexpr std::string_view kNames[] = {"auto",  "none",  "ngram",  "suffix", "mtp",
                                         "model", "eagle", "eagle3", "block"};
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return OkStatus();
  return InvalidArgument(
      StrCat("--speculate ", Quote(name),
             " is no way to find drafts; choose auto, none, ngram, suffix, mtp, model, "
             "eagle, eagle3 or block"),
      "speculate");
}

Status CheckVerification(std::string_view name) {
  if (name == "exact" || name == "rejection") return OkStatus();
  return InvalidArgument(StrCat("--speculate-verify ", Quote(name),
                                " is no way to verify drafts; choose exact or ", "rejection"),
                         "speculate-verify");
}

bool MadeByRunner(std::string_view name) {
  return name == "mtp" || name == "model" || name == "eagle" || name == "eagle3" || name == "block";
}

int32_t Proposer::ProposeAside(int32_t, std::span<Aside>) { return 0; }

std::unique_ptr<Proposer> MakeProposer(std::string_view name, const ProposerLimits& limits) {
  if (name == "none" || MadeByRunner(name)) return nullptr;
  if (name == "suffix") return std::make_unique<SuffixProposer>(limits);
  return std::make_unique<NgramProposer>(limits);
}

}  // namespace sluice::speculate
