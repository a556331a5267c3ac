#include "exec/draft_files.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/architectures.h"
#include "files/synthetic_head.h"
#include "files/synthetic_model.h"

namespace sluice::exec {
namespace {

bool Has(const files::ModelConfig& config, files::LayerKind kind) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [&](const files::LayerConfig& layer) { return layer.kind == kind; });
}

Status Wrong(std::string message) { return InvalidArgument(std::move(message), "draft-model"); }

// Of the model, whose blocks what guesses shares.
Status CheckTarget(const files::ModelFiles& target, std::string_view proposer) {
  if (Has(target.config, files::LayerKind::kFull)) return OkStatus();
  return Wrong(
      StrCat("--speculate ", proposer,
             " needs a model with a layer of full attention, whose blocks the draft shares, "
             "and all those of ",
             Quote(target.path), " have windows; choose --speculate suffix"));
}

Status CheckNoStates(const files::ModelFiles& files, std::string_view proposer) {
  const std::vector<files::LayerConfig>& layers = files.config.layers;
  if (std::none_of(layers.begin(), layers.end(),
                   [](const auto& layer) { return files::HasState(layer.kind); }))
    return OkStatus();
  return Wrong(StrCat("--speculate ", proposer, " works with models of attention alone, and ",
                      Quote(files.path), " (", files::ArchitectureName(files.config.architecture),
                      ") has recurrent layers; leave --draft-model out or choose --speculate "
                      "suffix"));
}

Status CheckVocabulary(const files::ModelFiles& target, const files::ModelFiles& draft) {
  const auto differs = [&](const auto&... how) {
    return Wrong(StrCat("the vocabulary of --draft-model ", Quote(draft.path),
                        " is not that of the model: ", how...,
                        "; choose a draft with the model's own tokenizer"));
  };
  if (draft.config.vocab_size != target.config.vocab_size)
    return differs("it has ", draft.config.vocab_size, " tokens, not ", target.config.vocab_size);
  // Token ids of a model without a tokenizer have no texts to compare.
  const auto has_texts = [](const files::ModelFiles& files) {
    return files.tokenizer.model != files::TokenizerModel::kNone;
  };
  if (!has_texts(target) || !has_texts(draft)) return OkStatus();
  const std::vector<std::string>&ours = target.tokenizer.pieces, &theirs = draft.tokenizer.pieces;
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (a == ours.end() && b == theirs.end()) return OkStatus();
  return differs("token ", a - ours.begin(), " is ", b == theirs.end() ? "none" : Quote(*b),
                 " there and ", a == ours.end() ? "none" : Quote(*a), " here");
}

Status CheckModel(const files::ModelFiles& target, const files::ModelFiles& draft) {
  SLUICE_RETURN_IF_ERROR(CheckNoStates(target, "model"));
  SLUICE_RETURN_IF_ERROR(CheckNoStates(draft, "model"));
  SLUICE_RETURN_IF_ERROR(CheckTarget(target, "model"));
  return CheckVocabulary(target, draft);
}

// Which layers a head reads where its file does not say: those that EAGLE-3 was trained with, an
// early one, a middle one and a late one.
std::vector<int> UsualLayers(int layers) { return {1, layers / 2 - 1, layers - 4}; }

// Of a head that reads layers, that is what layers of the model add up to.
Status CheckLayers(const files::ModelFiles& target, std::string_view proposer) {
  const files::ModelConfig& model = target.config;
  const auto wrong = [&](std::string_view why) {
    return Wrong(StrCat("--speculate ", proposer, " does not work with ",
                        files::ArchitectureName(model.architecture), ", ", why,
                        "; leave --draft-model out"));
  };
  if (files::InfoOf(model.architecture).norm_places != files::NormPlaces::kBefore)
    return wrong("whose layers end in a norm");
  if (model.parallel_norms) return wrong("whose blocks stand side by side");
  if (model.residual_scale != 1.0f) return wrong("whose hidden states are scaled");
  return OkStatus();
}

Status NotMadeFor(const files::EagleFiles& eagle, std::string_view why) {
  return Wrong(StrCat("the head of --draft-model ", Quote(eagle.path),
                      " was not made for this model: ", why,
                      "; choose one that was trained for it"));
}

Status ChooseLayers(const files::ModelFiles& target, files::EagleFiles* eagle) {
  const files::ModelConfig& model = target.config;
  std::vector<int>& layers = eagle->config.hidden_layers;
  if (layers.empty()) layers = UsualLayers(model.stored_layers());
  if (!std::is_sorted(layers.begin(), layers.end(), std::less_equal<>()))
    return NotMadeFor(*eagle, StrCat("it does not say which layers it reads, and this one has ",
                                     model.stored_layers(), ", too few for the usual ones"));
  if (layers.back() >= model.stored_layers())
    return NotMadeFor(*eagle,
                      StrCat("it reads layer ", layers.back(), " of ", model.stored_layers()));
  return OkStatus();
}

// Whether the embedding of the head, if it has one, is the model's to the bit, as many were
// published that a copy of it was put beside. Those that differ do so soon.
bool SharesEmbedding(const files::ModelFiles& target, const files::EagleFiles& eagle) {
  const files::HfTensors& names = files::InfoOf(target.config.architecture).hf_tensors;
  const std::string name = StrCat(names.embedding, ".weight");
  const files::FileTensor* const ours = target.tensors->Find(StrCat(names.decoder, name));
  const files::FileTensor* theirs = eagle.tensors->Find("embed_tokens.weight");
  if (theirs == nullptr) theirs = eagle.tensors->Find("model.embed_tokens.weight");
  return ours != nullptr && theirs != nullptr && ours->dtype == theirs->dtype &&
         ours->shape == theirs->shape && ours->data.size() == theirs->data.size() &&
         std::memcmp(ours->data.data(), theirs->data.data(), ours->data.size()) == 0;
}

Status CheckEagle(const files::ModelFiles& target, files::EagleFiles* eagle) {
  const files::ModelConfig& model = target.config;
  const files::EagleConfig& head = eagle->config;
  const bool third = files::ReadsLayers(head.form);
  const char* const proposer = DraftFiles::ProposerOf(head.form);
  SLUICE_RETURN_IF_ERROR(CheckNoStates(target, proposer));
  SLUICE_RETURN_IF_ERROR(CheckTarget(target, proposer));
  if (third) SLUICE_RETURN_IF_ERROR(CheckLayers(target, proposer));
  if (files::UsesModelsOutput(head.form) && model.logit_scale != 1.0f)
    return Wrong(StrCat("--speculate ", proposer, " does not work with ",
                        files::ArchitectureName(model.architecture),
                        ", whose logits are scaled; leave --draft-model out"));
  if (head.layer.vocab_size != model.vocab_size)
    return NotMadeFor(*eagle, StrCat("its vocabulary has ", head.layer.vocab_size, " tokens, not ",
                                     model.vocab_size));
  if (head.target_hidden_size != model.hidden_size)
    return NotMadeFor(*eagle, StrCat("it reads hidden states of ", head.target_hidden_size,
                                     " numbers, not ", model.hidden_size));
  if (!head.own_embedding && head.layer.hidden_size != model.hidden_size)
    return NotMadeFor(*eagle,
                      StrCat("it has no embedding of its own, and is ", head.layer.hidden_size,
                             " numbers wide, not ", model.hidden_size));
  if (SharesEmbedding(target, *eagle)) eagle->config.own_embedding = false;
  return third ? ChooseLayers(target, eagle) : OkStatus();
}

// How many tokens a block may have, where the head's files say what it was trained for.
Status CheckBlock(const files::EagleFiles& eagle, const EngineOptions& options) {
  const int most = eagle.config.block_tokens;
  if (most == 0 || options.speculate_tokens <= most) return OkStatus();
  return InvalidArgument(StrCat("--speculate-tokens ", options.speculate_tokens, " is above the ",
                                most, " that the head of --draft-model ",
                                Quote(options.draft_model), " guesses at once; lower it to ", most),
                         "speculate-tokens");
}

std::string_view NameOf(files::EagleForm form) {
  switch (form) {
    case files::EagleForm::kFirst:
      return "EAGLE's first form";
    case files::EagleForm::kThird:
      return "EAGLE-3's form";
    case files::EagleForm::kDiffusion:
      return "DFlash's form";
    case files::EagleForm::kParallel:
      break;
  }
  return "parallel EAGLE's form";
}

// Whether --speculate names the head's form, if it names one.
Status CheckForm(const files::EagleFiles& eagle, const EngineOptions& options) {
  const char* const proposer = DraftFiles::ProposerOf(eagle.config.form);
  if (options.speculate == "auto" || options.speculate == proposer) return OkStatus();
  return Wrong(StrCat("--draft-model ", Quote(options.draft_model), " is a head of ",
                      NameOf(eagle.config.form), "; choose --speculate ", proposer));
}

Status OfDraft(const Status& status) {
  return Status(status.code(), StrCat("--draft-model: ", status.message()), "draft-model");
}

// Of a head or a model without files. `known`: what is wrong with it as a model.
std::string NoSuchHead(std::string_view name, const Status& known) {
  const std::string heads = StrCat("heads are ", files::SyntheticHeads());
  if (known.ok()) return StrCat("--draft-model ", Quote(name), " is a model and no head; ", heads);
  return StrCat("--draft-model ", Quote(name), " is not known; ", heads,
                "; of models: ", known.message());
}

}  // namespace

Result<DraftFiles> OpenDraft(const files::ModelFiles& target, const EngineOptions& options) {
  DraftFiles draft;
  const std::string& wanted = options.speculate;
  const bool takes_head = wanted == "eagle" || wanted == "eagle3" || wanted == "block",
             takes_one = wanted == "model" || takes_head, named = !options.draft_model.empty();
  if (takes_one && !named)
    return InvalidArgument(
        StrCat("--speculate ", wanted, " needs a ", takes_head ? "head" : "model",
               " that guesses; name it with --draft-model"),
        "speculate");
  if (!takes_one && named && wanted != "auto")
    return Wrong(
        StrCat("--draft-model is of no use with --speculate ", wanted, "; leave one of them out"));
  if (!named) return draft;
  const bool synthetic = files::IsSyntheticHead(options.draft_model);
  if (!synthetic && files::IsSyntheticPath(options.draft_model)) {
    const Status known = files::SyntheticTokenizer(options.draft_model).status();
    if (!known.ok() || takes_head) return Wrong(NoSuchHead(options.draft_model, known));
  }
  const auto path = synthetic ? Result<std::string>(options.draft_model)
                              : files::ResolveModel(options.draft_model);
  if (!path.ok()) return OfDraft(path.status());
  if (takes_head || synthetic || files::IsEagle(*path)) {
    Result<files::EagleFiles> opened =
        synthetic ? files::OpenSyntheticHead(*path, target.config) : files::OpenEagle(*path);
    if (!opened.ok()) return OfDraft(opened.status());
    SLUICE_RETURN_IF_ERROR(CheckForm(*opened, options));
    SLUICE_RETURN_IF_ERROR(CheckEagle(target, &*opened));
    SLUICE_RETURN_IF_ERROR(CheckBlock(*opened, options));
    draft.eagle = std::make_unique<files::EagleFiles>(*std::move(opened));
    return draft;
  }
  Result<files::ModelFiles> opened = files::OpenModel(*path);
  if (!opened.ok()) return OfDraft(opened.status());
  SLUICE_RETURN_IF_ERROR(CheckModel(target, *opened));
  draft.model = std::make_unique<files::ModelFiles>(*std::move(opened));
  return draft;
}

}  // namespace sluice::exec
