#include "fetch/file_plan.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/part_name.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/folder_tokenizer.h"

namespace sluice::fetch {
namespace {

constexpr std::string_view kGgufSuffix = ".gguf", kSafetensorsSuffix = ".safetensors";
constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kModules = "modules.json";
constexpr std::string_view kQuantizations[] = {"Q4_K_M", "Q8_0"};  // by default, the first there is

// What is read beside the weights and a tokenizer's files, here (src/files/) or by others that open
// the folder.
constexpr std::string_view kTexts[] = {"config.json",
                                       "generation_config.json",
                                       "hf_quant_config.json",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       kModules,
                                       "sentence_bert_config.json",
                                       "config_sentence_transformers.json"};

// Files of weights that other programs read by running them.
constexpr std::string_view kPickles[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};

bool IsAtTop(std::string_view name) { return name.find('/') == name.npos; }

// "1_Pooling" of "1_Pooling/config.json": a module of sentence-transformers.
bool IsInModule(std::string_view name) {
  const size_t slash = name.find('/');
  const size_t line = name.find('_');
  return slash != name.npos && IsAtTop(name.substr(slash + 1)) && line != name.npos && line > 0 &&
         line < slash &&
         std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(line),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool Holds(const HubListing& listing, std::string_view name) {
  return std::any_of(listing.files.begin(), listing.files.end(),
                     [&](const HubFile& file) { return file.name == name; });
}

// Files for other uses have the same suffix: the vision part of a model, and what quantizing was
// guided by.
bool IsModelGguf(const std::string& name) {
  const std::string lower = Lower(name);
  return lower.ends_with(kGgufSuffix) && lower.find("mmproj") == lower.npos &&
         lower.find("imatrix") == lower.npos;
}

// A part of a model behind the first, which stands for all.
bool IsLaterPart(const std::string& name) {
  const std::optional<PartName> part = ParsePartName(name);
  return part && part->number > 1;
}

// The file, or all parts of the model whose first part it is.
Result<FilePlan> WithParts(const HubFile& file, const HubListing& listing,
                           const std::string& repository) {
  FilePlan plan{{file}, file.name};
  const std::optional<PartName> part = ParsePartName(file.name);
  for (int number = 2; part && number <= part->count; ++number) {
    const std::string name = part->Of(number);
    const auto other = std::find_if(listing.files.begin(), listing.files.end(),
                                    [&](const HubFile& one) { return one.name == name; });
    if (other == listing.files.end()) {
      return BadModel(StrCat(repository, " has ", Quote(file.name), " but not ", Quote(name),
                             ", without which it is no model"));
    }
    plan.files.push_back(*other);
  }
  return plan;
}

// Whether `word` stands in `name` between separators.
bool HasWord(std::string_view name, std::string_view word) {
  constexpr std::string_view kBefore = "-._/", kBehind = "-./";
  for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || kBefore.find(name[at - 1]) != kBefore.npos) && end < name.size() &&
        kBehind.find(name[end]) != kBehind.npos) {
      return true;
    }
  }
  return false;
}

std::vector<HubFile> WithWord(const std::vector<HubFile>& files, std::string_view word) {
  const std::string lower = Lower(word);
  std::vector<HubFile> found;
  for (const HubFile& file : files) {
    if (HasWord(Lower(file.name), lower)) found.push_back(file);
  }
  return found;
}

std::string ListOf(const std::vector<HubFile>& files) {
  constexpr size_t kListedMax = 12;
  std::string list;
  for (size_t i = 0; i < std::min(files.size(), kListedMax); ++i) {
    list += StrCat(i > 0 ? ", " : "", Quote(files[i].name));
  }
  if (files.size() > kListedMax) list += StrCat(" and ", files.size() - kListedMax, " more");
  return list;
}

Result<HubFile> OneGguf(const std::vector<HubFile>& found, const std::vector<HubFile>& all,
                        const std::string& repository, const std::string& selector) {
  const std::string example =
      StrCat("; name one of ", ListOf(found.empty() ? all : found), " as ", repository, ":FILE");
  if (found.empty()) {
    return InvalidArgument(StrCat(repository, " has no GGUF file of the name or quantization ",
                                  Quote(selector), example));
  }
  if (found.size() > 1) {
    return InvalidArgument(StrCat(repository, " has ", found.size(), " GGUF files",
                                  selector.empty() ? "" : StrCat(" that fit ", Quote(selector)),
                                  example));
  }
  return found.front();
}

Result<HubFile> ChooseGguf(const HubListing& listing, const std::string& repository,
                           const std::string& selector) {
  std::vector<HubFile> all;
  for (const HubFile& file : listing.files) {
    const bool later = IsLaterPart(file.name);
    if (file.name == selector && later) {
      return InvalidArgument(StrCat(Quote(selector), " is a part of a model; name the first, ",
                                    Quote(ParsePartName(selector)->Of(1))));
    }
    if (file.name == selector && Lower(file.name).ends_with(kGgufSuffix)) return file;
    if (IsModelGguf(file.name) && !later) all.push_back(file);
  }
  if (all.empty()) {
    return InvalidArgument(StrCat(repository, " has no GGUF files, so ", Quote(selector),
                                  " chooses nothing; give ", repository, " alone"));
  }
  if (!selector.empty()) return OneGguf(WithWord(all, selector), all, repository, selector);
  for (const std::string_view quantization : kQuantizations) {
    const std::vector<HubFile> found = WithWord(all, quantization);
    if (!found.empty()) return OneGguf(found, all, repository, selector);
  }
  return OneGguf(all, all, repository, selector);
}

// The safetensors that the loader would read: the one of the fixed name, else the shards.
bool IsWanted(const HubListing& listing, const std::string& name) {
  if (!IsAtTop(name)) return false;
  if (Holds(listing, kSingle)) return name == kSingle;
  const bool consolidated = name.starts_with("consolidated");  // the same weights once more
  return !Holds(listing, kIndex) || (!consolidated && name.find("-of-") != name.npos);
}

Result<FilePlan> ChooseFolder(const HubListing& listing, const std::string& repository) {
  FilePlan plan;
  bool weights = false;
  const bool modules = Holds(listing, kModules);
  for (const HubFile& file : listing.files) {
    const bool tensors = file.name.ends_with(kSafetensorsSuffix);
    const bool module =
        modules && IsInModule(file.name) && (tensors || file.name.ends_with("/config.json"));
    const bool wanted =
        tensors ? IsWanted(listing, file.name)
                : std::find(std::begin(kTexts), std::end(kTexts), file.name) != std::end(kTexts) ||
                      files::IsTokenizerFile(file.name) ||
                      (file.name == kIndex && !Holds(listing, kSingle));
    if (wanted || module) plan.files.push_back(file);
    weights = weights || (tensors && wanted);
  }
  if (weights && Holds(listing, "config.json")) return plan;
  for (const HubFile& file : listing.files) {
    for (const std::string_view suffix : kPickles) {
      if (!file.name.ends_with(suffix) || weights) continue;
      return BadModel(StrCat(repository, " has its weights in pickles (", Quote(file.name),
                             "), which can run code when they are read and are never fetched; "
                             "choose a repository with safetensors or GGUF files"));
    }
  }
  return BadModel(StrCat(repository,
                         " has neither config.json with safetensors nor a GGUF file, so "
                         "there is no model to fetch"));
}

}  // namespace

Result<FilePlan> ChooseFiles(const HubListing& listing, const std::string& repository,
                             const std::string& selector) {
  std::set<std::string_view> names;
  bool gguf = !selector.empty(), folder = false;
  for (const HubFile& file : listing.files) {
    if (!names.insert(file.name).second) {
      return Status(StatusCode::kIo,
                    StrCat("the hub's list of files has ", Quote(file.name), " twice"));
    }
    gguf = gguf || IsModelGguf(file.name);
    folder = folder || (IsAtTop(file.name) && file.name.ends_with(kSafetensorsSuffix));
  }
  folder = folder && names.contains("config.json");
  const bool one = !selector.empty() || (gguf && !folder);
  FilePlan plan;
  if (one) {
    SLUICE_ASSIGN_OR_RETURN(const HubFile file, ChooseGguf(listing, repository, selector));
    SLUICE_ASSIGN_OR_RETURN(plan, WithParts(file, listing, repository));
  } else {
    SLUICE_ASSIGN_OR_RETURN(plan, ChooseFolder(listing, repository));
  }
  // What is wrong with a model shows early.
  std::stable_sort(plan.files.begin(), plan.files.end(), [](const HubFile& a, const HubFile& b) {
    return a.size.value_or(0) < b.size.value_or(0);
  });
  return plan;
}

}  // namespace sluice::fetch
