// A file that appears under its name only when it is complete. One thread.
//
// Until Commit the bytes are in a file without a name where the system has such files (then even a
// kill leaves nothing), else in a hidden one in the same folder, which the destructor removes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sluice/status.h"

namespace sluice::files {

class AtomicFile {
 public:
  struct Options {
    bool replace =
        false;  // an existing file of that name, which otherwise is an error; its mode stays
    bool hidden_name = false;  // do without files that have no name
  };

  // kInvalidArgument: `path` exists and may not or cannot be replaced. kIo: the folder cannot be
  // written.
  static Result<std::unique_ptr<AtomicFile>> Create(const std::string& path, Options options);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Asks for the room of the whole file, so that a full disk is known before the work. Where the
  // file system cannot tell, nothing happens. kIo: there is not enough.
  Status Reserve(uint64_t bytes);
  // Appends. kIo, a full disk for example.
  Status Write(std::span<const std::byte> bytes);
  // Makes the bytes durable and gives them their name. kInvalidArgument: without `replace`, a file
  // of that name has appeared meanwhile.
  Status Commit();

 private:
  AtomicFile(std::string path, bool replace, int fd, std::string hidden)
      : path_(std::move(path)), replace_(replace), fd_(fd), hidden_(std::move(hidden)) {}
  Status Failed(std::string_view what, int error) const;
  Status GiveName();

  const std::string path_;
  const bool replace_;
  int fd_;
  std::string hidden_;  // the name until Commit; empty without one
  uint64_t reserved_ = 0;
};

}  // namespace sluice::files
