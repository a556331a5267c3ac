#include "fetch/file_name.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::fetch {
namespace {

constexpr size_t kFileNameBytesMax = 1024;
// File systems take 255; the names of a part and of what is noted beside it are longer.
constexpr size_t kPartBytesMax = 200;

bool IsWrong(std::string_view name) {
  if (name.empty() || name.size() > kFileNameBytesMax) return true;
  if (Visible(name) != name || name.find('\\') != name.npos) return true;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kPartBytesMax) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

Status CheckFileName(std::string_view name) {
  if (!IsWrong(name)) return OkStatus();
  return BadModel(
      StrCat("the repository has a file named ", Quote(name),
             ", which could lie outside its folder or which no file system takes; choose another "
             "repository"));
}

std::string EscapePath(std::string_view path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~/";
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kPlain.find(c) != kPlain.npos;
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

}  // namespace sluice::fetch
