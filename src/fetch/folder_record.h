// What was fetched into a folder of the model cache, as the file .fetch.json there keeps it. One
// thread, with the folder's lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fetch/checksum.h"
#include "sluice/status.h"

namespace sluice::fetch {

struct FolderRecord {
  // A file that was whole and right when it got its name.
  struct File {
    uint64_t size = 0;
    Checksum checksum;
  };
  // A model in the folder.
  struct Model {
    std::string commit;  // of its files; empty while some of them are still to come
    std::string gguf;    // its one file; empty: the folder is the model
    std::vector<std::string> files;
  };
  std::map<std::string, File> files;
  std::map<std::string, Model> models;  // by what chose them (ChooseFiles)
};

// Empty if there is none, or none that can be read; then every file is checked again.
FolderRecord ReadRecord(const std::string& folder);
// kIo.
Status WriteRecord(const std::string& folder, const FolderRecord& record);

// The model, if it has its commit and each of its files is in the folder with its size.
const FolderRecord::Model* WholeModel(const FolderRecord& record, const std::string& folder,
                                      const std::string& selector);

}  // namespace sluice::fetch
