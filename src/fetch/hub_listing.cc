#include "fetch/hub_listing.h"

#include <utility>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "fetch/file_name.h"
#include "fetch/json_text.h"

namespace sluice::fetch {
namespace {

Status Wrong(std::string_view what) {
  return {StatusCode::kIo, StrCat("the hub's list of files ", what,
                                  "; is the address of --hf-endpoint that of a hub?")};
}

const Json* Find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<HubFile> ReadFile(const Json& item) {
  if (!item.is_object()) return Wrong("has an entry that is no object");
  HubFile file;
  file.name = TextOf(item, "rfilename");
  SLUICE_RETURN_IF_ERROR(CheckFileName(file.name));
  const Json* lfs = Find(item, "lfs");
  const bool large = lfs != nullptr && lfs->is_object();
  const Json* size = Find(large ? *lfs : item, "size");
  if (size == nullptr) size = Find(item, "size");
  if (size != nullptr) {
    if (!size->is_number_unsigned() || size->get<uint64_t>() > kFileBytesMax) {
      return Wrong(StrCat("gives ", Quote(file.name), " the size ", Quote(DumpJson(*size)),
                          ", which is above the limit of ", kFileBytesMax, " bytes or no size"));
    }
    file.size = size->get<uint64_t>();
  }
  // The blob of a large file is a small text that points to it, so only its SHA-256 says something.
  file.checksum = ChecksumOf(large ? TextOf(*lfs, "sha256") : TextOf(item, "blobId"));
  return file;
}

}  // namespace

Result<HubListing> ParseHubListing(std::string_view json) {
  const JsonItemsLimit items[] = {{"siblings", kListedFilesMax}};
  const JsonLimits limits{
      .bytes_max = kListingBytesMax, .values_max = 1u << 20, .items_max = items};
  const Result<Json> root = ParseJson(json, "the hub's list of files", limits);
  if (!root.ok()) return Status(StatusCode::kIo, root.status().message());
  if (!root->is_object()) return Wrong("is no JSON object");
  HubListing listing;
  const Checksum commit = ChecksumOf(TextOf(*root, "sha"));
  if (commit.kind != Checksum::Kind::kGitBlob) return Wrong("names no commit");
  listing.commit = commit.hex;
  const Json* siblings = Find(*root, "siblings");
  if (siblings == nullptr || !siblings->is_array()) return Wrong("has no \"siblings\"");
  for (const Json& item : *siblings) {
    SLUICE_ASSIGN_OR_RETURN(HubFile file, ReadFile(item));
    listing.files.push_back(std::move(file));
  }
  return listing;
}

}  // namespace sluice::fetch
