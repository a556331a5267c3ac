#include "cli/load/server_url.h"

#include <algorithm>

#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::load {
namespace {

constexpr std::string_view kScheme = "http://";

// What could end a header line or the request line is in no part of an address.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f && c != '@' && c != '?' && c != '#' && c != '\\';
  });
}

bool ParsePort(std::string_view text, int* port) {
  const std::optional<int> read = ParseNumber<int>(text, 1, 65535);
  *port = read.value_or(0);
  return read.has_value();
}

bool ParseAuthority(std::string_view text, ServerUrl* url) {
  const bool v6 = text.starts_with('[');
  const size_t end = v6 ? text.find(']') : text.find(':');
  if (v6 && end == std::string_view::npos) return false;
  url->host = text.substr(v6 ? 1 : 0, v6 ? end - 1 : end);
  std::string_view rest = end == std::string_view::npos ? "" : text.substr(end + (v6 ? 1 : 0));
  if (url->host.empty()) return false;
  if (rest.empty()) return true;
  return rest.starts_with(':') && ParsePort(rest.substr(1), &url->port);
}

}  // namespace

std::string ServerUrl::HostField() const {
  const bool v6 = host.find(':') != std::string::npos;
  return StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

Result<ServerUrl> ParseUrl(std::string_view text) {
  ServerUrl url;
  std::string_view rest = text;
  const bool http = rest.starts_with(kScheme);
  if (http) rest.remove_prefix(kScheme.size());
  const size_t slash = rest.find('/');
  if (!http || !IsPlain(rest) || !ParseAuthority(rest.substr(0, slash), &url)) {
    return InvalidArgument(StrCat("--url ", Quote(text),
                                  " is not the address of a server as http://HOST:PORT; there is "
                                  "no https"),
                           "url");
  }
  std::string_view prefix = slash == std::string_view::npos ? "" : rest.substr(slash);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.ends_with("/v1")) prefix.remove_suffix(3);
  url.prefix = prefix;
  return url;
}

}  // namespace sluice::load
