#include "exec/draft_files.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::exec {
namespace {

bool Has(const files::ModelConfig& config, files::LayerKind kind) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [&](const files::LayerConfig& layer) { return layer.kind == kind; });
}

Status Wrong(std::string message) { return InvalidArgument(std::move(message), "draft-model"); }

Status CheckLayers(const files::ModelFiles& target, const files::ModelFiles& draft) {
  for (const files::ModelFiles* files : {&target, &draft}) {
    if (!Has(files->config, files::LayerKind::kLinear)) continue;
    return Wrong(StrCat("--speculate model works with models of attention alone, and ",
                        Quote(files->path), " (",
                        files::ArchitectureName(files->config.architecture),
                        ") has recurrent layers; leave --draft-model out or choose --speculate "
                        "suffix"));
  }
  if (Has(target.config, files::LayerKind::kFull)) return OkStatus();
  return Wrong(
      StrCat("--speculate model needs a model with a layer of full attention, whose blocks "
             "the draft shares, and all those of ",
             Quote(target.path), " have windows; choose --speculate suffix"));
}

Status CheckVocabulary(const files::ModelFiles& target, const files::ModelFiles& draft) {
  const auto differs = [&](const auto&... how) {
    return Wrong(StrCat("the vocabulary of --draft-model ", Quote(draft.path),
                        " is not that of the model: ", how...,
                        "; choose a draft with the model's own tokenizer"));
  };
  if (draft.config.vocab_size != target.config.vocab_size)
    return differs("it has ", draft.config.vocab_size, " tokens, not ", target.config.vocab_size);
  const std::vector<std::string>&ours = target.tokenizer.pieces, &theirs = draft.tokenizer.pieces;
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (a == ours.end() && b == theirs.end()) return OkStatus();
  return differs("token ", a - ours.begin(), " is ", b == theirs.end() ? "none" : Quote(*b),
                 " there and ", a == ours.end() ? "none" : Quote(*a), " here");
}

}  // namespace

Result<std::unique_ptr<files::ModelFiles>> OpenDraft(const files::ModelFiles& target,
                                                     const EngineOptions& options) {
  std::unique_ptr<files::ModelFiles> none;
  const bool wanted = options.speculate == "model", named = !options.draft_model.empty();
  if (wanted && !named)
    return InvalidArgument(
        "--speculate model needs a model that guesses; name it with --draft-model", "speculate");
  if (!wanted && named && options.speculate != "auto")
    return Wrong(StrCat("--draft-model is of no use with --speculate ", options.speculate,
                        "; leave one of them out"));
  if (!named) return none;
  const auto path = files::ResolveModel(options.draft_model);
  if (!path.ok())
    return Status(path.status().code(), StrCat("--draft-model: ", path.status().message()),
                  "draft-model");
  Result<files::ModelFiles> opened = files::OpenModel(*path);
  if (!opened.ok())
    return Status(opened.status().code(), StrCat("--draft-model: ", opened.status().message()),
                  "draft-model");
  SLUICE_RETURN_IF_ERROR(CheckLayers(target, *opened));
  SLUICE_RETURN_IF_ERROR(CheckVocabulary(target, *opened));
  return std::make_unique<files::ModelFiles>(*std::move(opened));
}

}  // namespace sluice::exec
