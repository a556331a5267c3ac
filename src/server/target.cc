#include "server/target.h"

#include <algorithm>

namespace sluice::server {
namespace {

bool BeginsWithScheme(std::string_view target, std::string_view scheme) {
  return target.size() >= scheme.size() &&
         std::equal(scheme.begin(), scheme.end(), target.begin(), [](char wanted, char c) {
           return wanted == (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
         });
}

}  // namespace

std::string PathOf(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!BeginsWithScheme(target, scheme)) continue;
    target.remove_prefix(std::min(target.size(), target.find_first_of("/?", scheme.size())));
    if (!target.starts_with('/')) return "/";
  }
  return std::string(target.substr(0, target.find('?')));
}

}  // namespace sluice::server
