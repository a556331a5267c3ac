#include "server/target.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace sluice::server {
namespace {

// RFC 9110 allows more in a name (escapes, !$&'()*+,;=); no name that is in use has them.
bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The length of "http://" or "https://" at the beginning; 0 without either.
size_t SchemeBytes(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (Lower(target.substr(0, scheme.size())) == scheme) return scheme.size();
  }
  return 0;
}

bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size();
}

bool IsIpv6(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

std::string PathOf(std::string_view target) {
  if (const size_t scheme = SchemeBytes(target)) {
    target.remove_prefix(std::min(target.size(), target.find_first_of("/?", scheme)));
    if (!target.starts_with('/')) return "/";
  }
  return std::string(target.substr(0, target.find('?')));
}

std::optional<std::string_view> AuthorityOf(std::string_view target) {
  const size_t scheme = SchemeBytes(target);
  if (scheme == 0) return std::nullopt;
  target.remove_prefix(scheme);
  return target.substr(0, target.find_first_of("/?#"));
}

std::optional<std::string> HostOf(std::string_view authority) {
  std::string_view name = authority;
  std::string_view rest;
  const bool ipv6 = authority.starts_with('[');
  if (ipv6) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    name = authority.substr(1, end - 1);
    rest = authority.substr(end + 1);
  } else if (const size_t colon = authority.find(':'); colon != std::string_view::npos) {
    name = authority.substr(0, colon);
    rest = authority.substr(colon);
  }
  const bool bare = rest.empty() || rest == ":";
  if (!bare && (rest.front() != ':' || !IsPort(rest.substr(1)))) return std::nullopt;
  std::string host = Lower(name);
  if (ipv6) return IsIpv6(host) ? std::optional(host) : std::nullopt;
  if (host.ends_with('.')) host.pop_back();
  if (host.empty() || !std::all_of(host.begin(), host.end(), IsNameCharacter)) return std::nullopt;
  return host;
}

bool IsLoopbackName(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace sluice::server
