#include "server/http/multipart.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::server {
namespace {

constexpr std::string_view kLine = "\r\n";
constexpr size_t kBoundaryBytesMax = 70;  // of RFC 2046
constexpr size_t kPartHeadBytesMax = 4096;

Status Broken(std::string what) {
  return InvalidArgument(StrCat("the form ", std::move(what), "; send multipart/form-data"));
}

// The value of `name=` among parameters with semicolons, in quotes or not; nothing: there is none.
std::optional<std::string> Parameter(std::string_view parameters, std::string_view name) {
  size_t at = 0;
  while ((at = parameters.find(';', at)) != std::string_view::npos) {
    at = parameters.find_first_not_of(" \t;", at);
    if (at == std::string_view::npos) break;
    const size_t equals = parameters.find('=', at);
    if (equals == std::string_view::npos) break;
    const bool meant = Lower(parameters.substr(at, equals - at)) == name;
    std::string value;
    at = equals + 1;
    if (at < parameters.size() && parameters[at] == '"') {
      for (++at; at < parameters.size() && parameters[at] != '"'; ++at) {
        if (parameters[at] == '\\' && at + 1 < parameters.size()) ++at;
        value += parameters[at];
      }
    } else {
      const size_t end = std::min(parameters.find_first_of("; \t", at), parameters.size());
      value = parameters.substr(at, end - at);
      at = end;
    }
    if (meant) return value;
  }
  return std::nullopt;
}

// The names in a part's Content-Disposition.
Status ReadHead(std::string_view head, FormPart* part) {
  while (!head.empty()) {
    const size_t end = std::min(head.find(kLine), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + kLine.size(), head.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return Broken("has a part whose header is no header");
    if (Lower(line.substr(0, colon)) != "content-disposition") continue;
    const std::string_view value = line.substr(colon + 1);
    part->name = Parameter(value, "name").value_or("");
    part->filename = Parameter(value, "filename").value_or("");
  }
  return part->name.empty() ? Broken("has a part without a name") : OkStatus();
}

}  // namespace

Result<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body) {
  if (!Lower(content_type).starts_with("multipart/form-data")) {
    return Broken(StrCat("has the type ", Quote(content_type)));
  }
  const std::string boundary = Parameter(content_type, "boundary").value_or("");
  if (boundary.empty() || boundary.size() > kBoundaryBytesMax) {
    return Broken(StrCat("has the boundary ", Quote(boundary), ", which is not of 1 to ",
                         kBoundaryBytesMax, " characters"));
  }
  const std::string delimiter = StrCat(kLine, "--", boundary);
  // The first one has no line before it.
  if (!body.starts_with(std::string_view(delimiter).substr(kLine.size()))) {
    return Broken("does not begin with its boundary");
  }
  body.remove_prefix(delimiter.size() - kLine.size());
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (parts.size() == kFormPartsMax) {
      return Broken(StrCat("has more than ", kFormPartsMax, " parts"));
    }
    const size_t end = body.find(delimiter);
    const size_t head = body.find("\r\n\r\n");
    if (!body.starts_with(kLine) || end == std::string_view::npos || head >= end ||
        head > kPartHeadBytesMax) {
      return Broken("has a part that does not end or has no header");
    }
    FormPart& part = parts.emplace_back();
    SLUICE_RETURN_IF_ERROR(ReadHead(body.substr(kLine.size(), head - kLine.size()), &part));
    const size_t content = std::min(head + 4, end);
    part.content = body.substr(content, end - content);
    body.remove_prefix(end + delimiter.size());
  }
  return parts;
}

}  // namespace sluice::server
