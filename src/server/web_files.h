// The page that the server shows a browser: the files of web/, as the program carries them. They
// hold nothing of what is served, so that no key guards them; what they show, the page asks for
// with its key.
#pragma once

#include <span>
#include <string_view>

namespace sluice::server {

struct WebFile {
  std::string_view path;  // "/" or "/web/chat.js"
  std::string_view content_type;
  std::string_view bytes;
};

std::span<const WebFile> WebFiles();

// Null where there is no such file.
inline const WebFile* FindWebFile(std::string_view path) {
  for (const WebFile& file : WebFiles()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace sluice::server
