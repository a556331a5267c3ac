// The beginning of a file that is being fetched, with a note of what it is the beginning of. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "sluice/status.h"

namespace sluice::fetch {

// What the bytes of a part were part of when they came.
struct PartNote {
  std::string checksum;  // that the whole file is to have; or empty
  std::string etag;      // the server's name of its state; or empty
};

class PartFile {
 public:
  // Of the file at `path`, whose folder exists. Nothing is touched yet.
  explicit PartFile(std::string path) : path_(std::move(path)) {}
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // Opens PATH.part, or creates it. REQUIRES: it is not open. kIo.
  Status Open();
  uint64_t size() const { return size_; }
  // Empty if there is none, or none that can be read.
  PartNote ReadNote() const;
  Status WriteNote(const PartNote& note);

  Status Append(std::span<const std::byte> bytes);
  // Drops every byte.
  Status Empty();
  // Makes the bytes durable, gives them the name, in place of what had it, and removes the note.
  Status Finish();
  // Removes part and note; Open begins a new one.
  void Remove();

  static std::string NameOf(const std::string& path) { return path + ".part"; }

 private:
  Status Failed(std::string_view what, int error) const;
  std::string NoteName() const { return NameOf(path_) + ".note"; }

  const std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace sluice::fetch
