// What --draft-model names: its files, and whether it can guess for the model beside which it is
// opened. Any thread.
#pragma once

#include <memory>

#include "files/eagle_files.h"
#include "files/model_files.h"
#include "sluice/options.h"

namespace sluice::exec {

// At most one of them is there.
struct DraftFiles {
  std::unique_ptr<files::ModelFiles> model;  // a second model
  std::unique_ptr<files::EagleFiles> eagle;  // a head of EAGLE's form

  bool empty() const { return model == nullptr && eagle == nullptr; }
  // As --speculate takes what is there.
  const char* proposer() const {
    return eagle != nullptr ? ProposerOf(eagle->config.form) : "model";
  }
  static const char* ProposerOf(files::EagleForm form) {
    switch (form) {
      case files::EagleForm::kFirst:
        return "eagle";
      case files::EagleForm::kThird:
        return "eagle3";
      case files::EagleForm::kParallel:
      case files::EagleForm::kDiffusion:
        break;
    }
    return "block";
  }
};

// Empty where nothing is named. kInvalidArgument or kNotFound, naming --draft-model or --speculate,
// when one of the two is missing, when the files of `target` or of the draft have layers that this
// kind of draft does not work with, or when their sizes or vocabularies differ. REQUIRES: `target`
// has its tokenizer.
Result<DraftFiles> OpenDraft(const files::ModelFiles& target, const EngineOptions& options);

}  // namespace sluice::exec
