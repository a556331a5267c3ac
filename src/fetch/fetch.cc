#include "fetch/fetch.h"

#include "base/str_cat.h"
#include "base/visible.h"
#include "fetch/fetch_hub.h"
#include "fetch/fetch_wheel.h"
#include "fetch/model_name.h"

namespace sluice::fetch {
namespace {

// It becomes a header field.
Status CheckToken(const std::string& token) {
  constexpr size_t kTokenBytesMax = 4096;
  if (token.size() <= kTokenBytesMax && Visible(token) == token &&
      token.find(' ') == std::string::npos) {
    return OkStatus();
  }
  return InvalidArgument(
      StrCat("the token of the Hub has a blank, a control character, or more than ", kTokenBytesMax,
             " bytes"));
}

}  // namespace

Result<Fetched> Fetch(const FetchOptions& given) {
  SLUICE_RETURN_IF_ERROR(CheckHttp());
  FetchOptions options = given;
  SLUICE_ASSIGN_OR_RETURN(options.hub_url, CheckUrl(given.hub_url, "the address of the hub"));
  SLUICE_ASSIGN_OR_RETURN(options.index_url,
                          CheckUrl(given.index_url, "the address of the package index"));
  SLUICE_RETURN_IF_ERROR(CheckToken(options.token));
  SLUICE_ASSIGN_OR_RETURN(const ModelName name, ParseModelName(options.name, options.hub_url));
  if (options.revision.empty()) options.revision = name.revision;
  if (!name.revision.empty() && options.revision != name.revision) {
    return InvalidArgument(StrCat("the URL names the revision ", Quote(name.revision),
                                  " and --revision ", Quote(options.revision)),
                           "revision");
  }
  if (name.entry != nullptr && !options.revision.empty()) {
    return InvalidArgument(StrCat(name.entry->name, " has no revisions; leave --revision out"),
                           "revision");
  }
  HttpClient client({.stall_seconds = options.stall_seconds,
                     .ca_file = options.ca_file,
                     .stopped = options.stopped});
  if (name.entry != nullptr) return FetchWheel(client, options, *name.entry);
  if (options.revision.empty()) options.revision = kMainRevision;
  SLUICE_RETURN_IF_ERROR(CheckRevision(options.revision));
  return FetchHub(client, options, name);
}

}  // namespace sluice::fetch
