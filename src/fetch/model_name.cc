#include "fetch/model_name.h"

#include <algorithm>
#include <vector>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "fetch/file_name.h"

namespace sluice::fetch {
namespace {

constexpr size_t kModelNameBytesMax = 2048;
constexpr size_t kWordBytesMax = 96;  // of an owner or a repository, as the Hub has it

// An owner or a name of the Hub, which becomes the name of a folder.
bool IsFolderName(std::string_view word) {
  return IsWord(word) && word.size() <= kWordBytesMax && word.front() != '.';
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view WithoutScheme(std::string_view url) {
  const size_t scheme = url.find("://");
  return scheme == url.npos ? url : url.substr(scheme + 3);
}

Status Unknown(std::string_view name) {
  return InvalidArgument(StrCat(Quote(name), " is no model that can be fetched; give ",
                                CatalogueNames(),
                                ", or a repository of the Hugging Face Hub as OWNER/NAME, "
                                "OWNER/NAME:Q4_K_M, OWNER/NAME:FILE.gguf or its URL"));
}

// What follows the host in a URL: OWNER/NAME, and where the page of a browser may have led on.
Status ReadPath(std::string_view name, std::string_view path, ModelName* out) {
  const size_t query = path.find_first_of("?#");
  std::string_view rest = path.substr(0, query);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t slash = rest.find('/');
  const size_t colon = slash == rest.npos ? rest.npos : rest.find(':', slash);
  if (colon != rest.npos) {
    out->selector = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (out->selector.empty()) return Unknown(name);
  }
  const std::vector<std::string_view> parts = Split(rest, '/');
  if (parts.size() < 2 || !IsFolderName(parts[0]) || !IsFolderName(parts[1])) return Unknown(name);
  out->repository = StrCat(parts[0], '/', parts[1]);
  if (parts.size() == 2) return OkStatus();
  const bool file = parts[2] == "blob" || parts[2] == "resolve";
  if (parts.size() < 4 || (!file && (parts[2] != "tree" || parts.size() > 4))) return Unknown(name);
  out->revision = parts[3];
  if (!file) return CheckRevision(out->revision);
  if (parts.size() < 5 || !out->selector.empty()) return Unknown(name);
  out->selector = rest.substr(static_cast<size_t>(parts[4].data() - rest.data()));
  return CheckRevision(out->revision);
}

}  // namespace

Status CheckRevision(std::string_view revision) {
  const auto allowed = [](char c) { return IsWordByte(c) || c == '/'; };
  if (!revision.empty() && revision.size() <= kWordBytesMax && revision.front() != '-' &&
      std::all_of(revision.begin(), revision.end(), allowed) && CheckFileName(revision).ok()) {
    return OkStatus();
  }
  return InvalidArgument(StrCat("the revision ", Quote(revision),
                                " is no branch, tag or commit: at "
                                "most ",
                                kWordBytesMax, " letters, digits and any of . _ - / are allowed"),
                         "revision");
}

std::string FolderOf(std::string_view repository, std::string_view revision) {
  std::string folder(repository);
  if (revision == kMainRevision) return folder;
  std::string suffix(revision);
  std::replace(suffix.begin(), suffix.end(), '/', '+');  // which no revision has
  return StrCat(folder, '@', suffix);
}

Result<ModelName> ParseModelName(std::string_view name, std::string_view endpoint) {
  ModelName out;
  if (name.empty() || name.size() > kModelNameBytesMax || Visible(name) != name)
    return Unknown(name);
  out.entry = FindInCatalogue(name);
  if (out.entry != nullptr) return out;
  std::string_view path = WithoutScheme(name);
  const bool url = path.size() < name.size();
  bool known_host = false;
  for (const std::string_view host :
       {std::string_view("huggingface.co"), std::string_view("hf.co"), WithoutScheme(endpoint)}) {
    if (!path.starts_with(host) || path.substr(host.size(), 1) != "/") continue;
    path.remove_prefix(host.size() + 1);
    known_host = true;
    break;
  }
  if (url && !known_host) {
    return InvalidArgument(StrCat(Quote(name), " is at neither huggingface.co nor ", endpoint,
                                  "; to fetch from another hub, give its address as --hf-endpoint "
                                  "or in HF_ENDPOINT, and the repository as OWNER/NAME"));
  }
  SLUICE_RETURN_IF_ERROR(ReadPath(name, path, &out));
  if (!known_host && !out.revision.empty()) return Unknown(name);
  return out;
}

}  // namespace sluice::fetch
