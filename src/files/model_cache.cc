#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/environment.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/model_cache.h"
#include "files/model_files.h"
#include "files/synthetic_model.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What a user may name in the cache, at most a handful; "; it holds A, B" or empty.
std::string CacheListing(const fs::path& cache) {
  constexpr size_t kListedMax = 8;
  constexpr int kSeenMax = 1000;
  std::vector<std::string> names;
  int seen = 0;
  const auto look = [&](const fs::path& folder, const auto& inner) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error);
         !error && entry != fs::directory_iterator() && ++seen < kSeenMax; entry.increment(error)) {
      const fs::path& path = entry->path();
      if (path.extension() == ".gguf" || Exists(path / "config.json")) {
        names.push_back(path.lexically_relative(cache).string());
      } else if (std::error_code ignored; entry->is_directory(ignored)) {
        inner(path);
      }
    }
  };
  const auto nothing = [](const fs::path&) {};
  const auto owner = [&](const fs::path& path) { look(path, nothing); };
  look(cache, owner);  // OWNER/NAME, as models of the Hub are called
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  if (names.size() > kListedMax) names.resize(kListedMax);
  std::string listing = "; it holds ";
  for (const std::string& name : names) {
    if (&name != &names.front()) listing += ", ";
    listing += Quote(name);
  }
  return listing;
}

}  // namespace

// The rule of scripts/lib/steps.sh.
Result<std::string> ModelCacheFolder() {
  if (std::string cache = Environment("SLUICE_CACHE"); !cache.empty()) return cache;
  if (const std::string cache = Environment("XDG_CACHE_HOME"); !cache.empty()) {
    return (fs::path(cache) / "sluice").string();
  }
  if (const std::string home = Environment("HOME"); !home.empty()) {
    return (fs::path(home) / ".cache" / "sluice").string();
  }
  return Status(StatusCode::kNotFound,
                "none of SLUICE_CACHE, XDG_CACHE_HOME and HOME is set, so there is no model cache");
}

Result<std::string> ResolveModel(const std::string& name_or_path) {
  if (name_or_path.empty()) return InvalidArgument("the model's name is empty");
  if (IsSyntheticPath(name_or_path) || Exists(name_or_path)) return name_or_path;
  const fs::path name(name_or_path);
  const Status missing(StatusCode::kNotFound, StrCat("there is no file or folder ", name_or_path));
  const bool leads_out = std::find(name.begin(), name.end(), "..") != name.end();
  if (name.is_absolute() || leads_out || name_or_path.starts_with("./")) return missing;
  SLUICE_ASSIGN_OR_RETURN(const fs::path cache, ModelCacheFolder());
  for (const char* suffix : {"", ".gguf"}) {
    const fs::path candidate = cache / StrCat(name_or_path, suffix);
    if (Exists(candidate)) return candidate.string();
  }
  return Status(StatusCode::kNotFound,
                StrCat(missing.message(), ", and no such name in the cache ", cache.string(),
                       CacheListing(cache), "; sluice fetch gets models into it"));
}

}  // namespace sluice::files
