#include "fetch/package_index.h"

#include <algorithm>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "fetch/json_text.h"

namespace sluice::fetch {
namespace {

Status Missing(std::string_view name) {
  return {StatusCode::kNotFound, StrCat("the package index has no file ", name,
                                        "; name another index as --pypi-url or in PIP_INDEX_URL")};
}

Result<IndexFile> FindInJson(std::string_view page, std::string_view name) {
  const Result<Json> root = ParseJson(page, "the page of the package index",
                                      {.bytes_max = kIndexBytesMax, .values_max = 1u << 20});
  if (!root.ok()) return Status(StatusCode::kIo, root.status().message());
  const auto files = root->is_object() ? root->find("files") : root->end();
  if (!root->is_object() || files == root->end() || !files->is_array()) return Missing(name);
  for (const Json& file : *files) {
    if (!file.is_object() || TextOf(file, "filename") != name) continue;
    IndexFile found{TextOf(file, "url"), {}};
    const auto hashes = file.find("hashes");
    if (hashes != file.end() && hashes->is_object()) {
      found.checksum = ChecksumOf(TextOf(*hashes, "sha256"));
    }
    return found;
  }
  return Missing(name);
}

// Of an attribute's value.
std::string Unescaped(std::string_view text) {
  constexpr std::string_view kAmpersand = "&amp;";
  std::string out;
  while (!text.empty()) {
    const bool escape = text.starts_with(kAmpersand);
    out += text.front();
    text.remove_prefix(escape ? kAmpersand.size() : 1);
  }
  return out;
}

// The page is a list of anchors, whose URLs end in the file's name and #sha256=DIGEST.
Result<IndexFile> FindInHtml(std::string_view page, std::string_view name) {
  constexpr std::string_view kAttribute = "href=", kHash = "#sha256=";
  for (size_t at = page.find(kAttribute); at != page.npos; at = page.find(kAttribute, at)) {
    at += kAttribute.size();
    const char quote = at < page.size() ? page[at] : ' ';
    if (quote != '"' && quote != '\'') continue;
    const size_t end = page.find(quote, at + 1);
    if (end == page.npos) break;
    const std::string url = Unescaped(page.substr(at + 1, end - at - 1));
    at = end;
    const size_t fragment = std::min(url.find('#'), url.size());
    const std::string_view path =
        std::string_view(url).substr(0, std::min(url.find('?'), fragment));
    if (path.substr(path.rfind('/') + 1) != name) continue;
    IndexFile found{url.substr(0, fragment), {}};
    if (url.compare(fragment, kHash.size(), kHash) == 0) {
      found.checksum = ChecksumOf(std::string_view(url).substr(fragment + kHash.size()));
    }
    return found;
  }
  return Missing(name);
}

}  // namespace

Result<IndexFile> FindInIndex(std::string_view page, std::string_view type, std::string_view name) {
  return type.find("json") != type.npos ? FindInJson(page, name) : FindInHtml(page, name);
}

}  // namespace sluice::fetch
