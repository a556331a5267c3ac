#include "fetch/fetch_hub.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "fetch/download.h"
#include "fetch/file_name.h"
#include "fetch/file_plan.h"
#include "fetch/folder_lock.h"
#include "fetch/folder_record.h"
#include "fetch/hub_listing.h"

namespace sluice::fetch {
namespace {

namespace fs = std::filesystem;

class HubFetch {
 public:
  HubFetch(HttpClient& client, const FetchOptions& options, const ModelName& name)
      : client_(client),
        options_(options),
        name_(name),
        model_(FolderOf(name.repository, options.revision)),
        folder_(StrCat(options.cache, "/", model_)) {}

  Result<Fetched> Run() {
    if (auto there = WhatIsThere()) return *there;
    SLUICE_ASSIGN_OR_RETURN(const auto lock,
                            FolderLock::Take(folder_, options_.on_wait, options_.stopped));
    // Another process may have fetched it meanwhile.
    if (auto there = WhatIsThere()) return *there;
    record_ = ReadRecord(folder_);
    SLUICE_ASSIGN_OR_RETURN(const HubListing listing, List());
    SLUICE_ASSIGN_OR_RETURN(const FilePlan plan,
                            ChooseFiles(listing, name_.repository, name_.selector));
    SLUICE_RETURN_IF_ERROR(FetchFiles(listing, plan));
    SLUICE_RETURN_IF_ERROR(Record(listing, plan));
    Fetched fetched = Described(listing.commit, plan.gguf);
    fetched.bytes = bytes_;
    fetched.was_whole = bytes_ == 0 && missing_ == 0;
    fetched.checked = checked_;
    return fetched;
  }

 private:
  Fetched Described(const std::string& commit, const std::string& gguf) const {
    const std::string file = gguf.empty() ? "" : StrCat("/", gguf);
    return {.path = folder_ + file, .model = model_ + file, .commit = commit};
  }

  // The model, if it is whole and nothing newer is asked for.
  std::optional<Fetched> WhatIsThere() const {
    if (options_.update) return std::nullopt;
    const FolderRecord record = ReadRecord(folder_);
    const FolderRecord::Model* model = WholeModel(record, folder_, name_.selector);
    if (model == nullptr) return std::nullopt;
    Fetched fetched = Described(model->commit, model->gguf);
    fetched.was_whole = true;
    return fetched;
  }

  RetryOptions Retries() const {
    return {options_.retries, options_.stopped, [this] { return client_.retry_after_s(); }};
  }

  // What the statuses of a hub mean to the user.
  Status Explained(const Status& status) const {
    const std::string what = StrCat(name_.repository, " at ", ShownUrl(options_.hub_url));
    if (status.code() == StatusCode::kNotFound) {
      return {status.code(), StrCat("there is no ", what, ", or it has no revision ",
                                    Quote(options_.revision), " (", status.message(), ")")};
    }
    if (status.code() != StatusCode::kUnauthenticated) return status;
    return {status.code(),
            options_.token.empty()
                ? StrCat(what, " does not exist, or is not public (", status.message(),
                         "); set HF_TOKEN to the token of an account that may read it")
                : StrCat(what, " is not open to the account of the token (", status.message(),
                         "); ask for access on its page there, or check HF_TOKEN")};
  }

  Result<HubListing> List() {
    HttpRequest request;
    request.url = StrCat(options_.hub_url, "/api/models/", name_.repository, "/revision/",
                         EscapedRevision(), "?blobs=true");
    request.accept = "application/json";
    request.bearer = options_.token;
    HttpClient::Text text;
    const Status status = WithRetries(Retries(), [&]() -> Status {
      SLUICE_ASSIGN_OR_RETURN(text, client_.GetText(request, kListingBytesMax));
      return OkStatus();
    });
    if (!status.ok()) return Explained(status);
    return ParseHubListing(text.body);
  }

  // One part of a path: a branch may have slashes.
  std::string EscapedRevision() const {
    std::string escaped = EscapePath(options_.revision);
    for (size_t at = 0; (at = escaped.find('/', at)) != std::string::npos;) {
      escaped.replace(at, 1, "%2F");
    }
    return escaped;
  }

  // Whether the file is there as the hub has it now. What was fetched and checked before is looked
  // at again only for an update, since that takes as long as reading the model.
  Result<bool> IsThere(const HubFile& file) {
    const std::string path = StrCat(folder_, "/", file.name);
    const auto known = record_.files.find(file.name);
    std::error_code error;
    if (!options_.update && known != record_.files.end() &&
        file.checksum.kind != Checksum::Kind::kNone && known->second.checksum == file.checksum &&
        fs::file_size(path, error) == known->second.size) {
      return true;
    }
    SLUICE_ASSIGN_OR_RETURN(const bool there,
                            HoldsFile(path, file.size, file.checksum, options_.stopped));
    // Without a checksum to compare, what lies there may be anything.
    if (!there || file.checksum.kind == Checksum::Kind::kNone) return false;
    record_.files[file.name] = {fs::file_size(path, error), file.checksum};
    return true;
  }

  Status FetchFiles(const HubListing& listing, const FilePlan& plan) {
    std::vector<const HubFile*> missing;
    uint64_t needed = 0;
    for (const HubFile& file : plan.files) {
      SLUICE_ASSIGN_OR_RETURN(const bool there, IsThere(file));
      if (there) continue;
      missing.push_back(&file);
      const uint64_t part = PartBytes(StrCat(folder_, "/", file.name));
      needed += file.size.value_or(0) - std::min(part, file.size.value_or(0));
      total_ += file.size.value_or(0);
    }
    missing_ = missing.size();
    SLUICE_RETURN_IF_ERROR(CheckRoom(folder_, needed));
    for (const HubFile* file : missing) {
      SLUICE_RETURN_IF_ERROR(FetchFile(listing, *file));
    }
    return OkStatus();
  }

  Status FetchFile(const HubListing& listing, const HubFile& file) {
    const std::string path = StrCat(folder_, "/", file.name);
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (error) return {StatusCode::kIo, StrCat(path, " cannot be written: ", error.message())};
    // By the commit, so that all files are of one state.
    const Download download{.url = StrCat(options_.hub_url, "/", name_.repository, "/resolve/",
                                          listing.commit, "/", EscapePath(file.name)),
                            .path = path,
                            .bearer = options_.token,
                            .size = file.size,
                            .checksum = file.checksum,
                            .before_naming = [&] { return Announce(file, path); }};
    const auto show = [&](uint64_t done, bool checking) {
      if (options_.on_progress) options_.on_progress({file.name, checking, done_ + done, total_});
    };
    uint64_t last = 0;
    const Watcher watcher{[&](uint64_t done, uint64_t) { show(last = done, false); },
                          [&] { show(last, true); }};
    auto checksum = DownloadFile(client_, download, Retries(), watcher);
    if (!checksum.ok()) return Explained(checksum.status());
    checked_ = checked_ && checksum->kind != Checksum::Kind::kNone;
    const uint64_t size = fs::file_size(path, error);
    done_ += size;
    bytes_ += size;
    record_.files[file.name] = {size, *checksum};
    return WriteRecord(folder_, record_);
  }

  // Notes that the file is about to be there as one of the model's. Until then an older state of
  // the model stays whole; once a file of it is replaced, the folder has files of two states.
  Status Announce(const HubFile& file, const std::string& path) {
    FolderRecord::Model& model = record_.models[name_.selector];
    std::error_code error;
    if (fs::exists(path, error)) model.commit.clear();
    if (std::find(model.files.begin(), model.files.end(), file.name) == model.files.end()) {
      model.files.push_back(file.name);
    }
    return WriteRecord(folder_, record_);
  }

  // Notes that the model is whole, and removes what an older state of it had besides.
  Status Record(const HubListing& listing, const FilePlan& plan) {
    FolderRecord::Model model{listing.commit, plan.gguf, {}};
    for (const HubFile& file : plan.files) model.files.push_back(file.name);
    const std::vector<std::string> before =
        std::exchange(record_.models[name_.selector], std::move(model)).files;
    std::set<std::string> wanted;
    for (const auto& [selector, one] : record_.models) {
      wanted.insert(one.files.begin(), one.files.end());
    }
    std::error_code error;
    for (const std::string& file : before) {
      if (wanted.contains(file) || record_.files.erase(file) == 0) continue;
      fs::remove(StrCat(folder_, "/", file), error);
    }
    return WriteRecord(folder_, record_);
  }

  HttpClient& client_;
  const FetchOptions& options_;
  const ModelName& name_;
  const std::string model_;  // in the cache
  const std::string folder_;
  FolderRecord record_;
  size_t missing_ = 0;             // files that are fetched
  uint64_t done_ = 0, total_ = 0;  // bytes of these
  uint64_t bytes_ = 0;
  bool checked_ = true;
};

}  // namespace

Result<Fetched> FetchHub(HttpClient& client, const FetchOptions& options, const ModelName& name) {
  return HubFetch(client, options, name).Run();
}

}  // namespace sluice::fetch
