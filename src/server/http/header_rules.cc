#include "server/http/header_rules.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "server/http/target.h"

namespace sluice::server {
namespace {

// Fields of which a second one would leave open which of them counts.
constexpr std::string_view kSingleFields[] = {
    "host",
    "content-length",
    "transfer-encoding",
    "content-type",
    "authorization",
    "x-api-key",
    "origin",
    "expect",
    "content-encoding",
    "x-request-timeout",
};

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

bool IsTokenCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool Has(const HeaderView& header, std::string_view name) {
  return std::any_of(header.fields.begin(), header.fields.end(),
                     [name](const HeaderField& field) { return SameName(field.name, name); });
}

std::optional<HeaderFault> CheckSingles(const HeaderView& header) {
  for (const std::string_view name : kSingleFields) {
    const auto count =
        std::count_if(header.fields.begin(), header.fields.end(),
                      [name](const HeaderField& field) { return SameName(field.name, name); });
    if (count > 1) {
      return HeaderFault{400, StrCat("the header ", name, " stands ", count,
                                     " times in the request; send it once")};
    }
  }
  return std::nullopt;
}

std::optional<HeaderFault> CheckFolds(const HeaderView& header) {
  if (!header.folded) return std::nullopt;
  return HeaderFault{400,
                     "a line of the header begins with a space or a tab; send each field in "
                     "one line"};
}

std::optional<HeaderFault> CheckTarget(const HeaderView& header) {
  if (header.target.starts_with('/')) return std::nullopt;
  if (header.target == "*" && header.method == "OPTIONS") return std::nullopt;
  const auto authority = AuthorityOf(header.target);
  if (authority && HostOf(*authority)) return std::nullopt;
  return HeaderFault{400, "the request's target is neither a path nor an http URL"};
}

std::optional<HeaderFault> CheckHost(const HeaderView& header) {
  if (!Has(header, "host")) {
    if (header.http_1_0) return std::nullopt;
    return HeaderFault{400, "the header Host is missing; HTTP/1.1 asks for it"};
  }
  if (HostOf(ValueOf(header, "host"))) return std::nullopt;
  return HeaderFault{400, "the header Host is not a host name with or without a port"};
}

std::optional<HeaderFault> CheckTransferEncoding(const HeaderView& header) {
  if (!Has(header, "transfer-encoding")) return std::nullopt;
  const std::string_view coding = ValueOf(header, "transfer-encoding");
  if (header.http_1_0) {
    return HeaderFault{400, "HTTP/1.0 has no Transfer-Encoding; send Content-Length"};
  }
  if (Has(header, "content-length")) {
    return HeaderFault{400, "Content-Length and Transfer-Encoding exclude each other; send one"};
  }
  if (SameName(coding, "chunked")) return std::nullopt;
  if (!coding.empty() && std::all_of(coding.begin(), coding.end(), IsTokenCharacter)) {
    return HeaderFault{501, "no transfer coding but chunked is supported; send that"};
  }
  return HeaderFault{400, "Transfer-Encoding must be the one word chunked"};
}

std::optional<HeaderFault> CheckContentLength(const HeaderView& header) {
  if (!Has(header, "content-length")) return std::nullopt;
  const std::string_view length = ValueOf(header, "content-length");
  const bool digits =
      std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digits && !length.empty()) return std::nullopt;
  return HeaderFault{400, "Content-Length is not one decimal number"};
}

}  // namespace

bool HasFoldedLine(std::string_view lines) {
  for (size_t at = lines.find("\r\n"); at != lines.npos; at = lines.find("\r\n", at + 2)) {
    const std::string_view next = lines.substr(at + 2);
    if (next.starts_with(' ') || next.starts_with('\t')) return true;
  }
  return false;
}

std::optional<HeaderFault> CheckHeader(const HeaderView& header) {
  for (const auto check : {CheckFolds, CheckSingles, CheckTarget, CheckHost, CheckTransferEncoding,
                           CheckContentLength}) {
    if (auto fault = check(header)) return fault;
  }
  return std::nullopt;
}

std::string_view ValueOf(const HeaderView& header, std::string_view name) {
  for (const HeaderField& field : header.fields) {
    if (SameName(field.name, name)) return field.value;
  }
  return {};
}

}  // namespace sluice::server
