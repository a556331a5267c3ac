// sluice run: fetches a model unless it is there or is a file, then talks with it as `sluice chat`
// does.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/fetch_model.h"
#include "fetch/catalogue.h"
#include "fetch/fetch.h"
#include "fetch/model_name.h"
#include "files/model_files.h"

namespace sluice::cli {

namespace {

// A file, and what can only be a path or a name of the model cache, which need no fetching.
bool IsThere(const std::string& name) {
  std::error_code error;
  if (std::filesystem::is_regular_file(name, error)) return true;
  return !fetch::ParseModelName(name, fetch::FetchOptions().hub_url).ok() &&
         files::ResolveModel(name).ok();
}

}  // namespace

Action SetUpRun(CLI::App& app) {
  struct Options {
    FetchFlags flags;
    ChatOptions chat;
  };
  auto options = std::make_shared<Options>();
  AddChatOptions(app, &options->chat);
  app.get_option("model")->type_name("NAME")->description(
      fetch::CatalogueNames() + ", OWNER/NAME, OWNER/NAME:Q4_K_M, the URL of one, or a file");
  AddFetchOptions(app, &options->flags);
  return [options]() -> Status {
    if (IsThere(options->chat.engine.model)) return RunChat(options->chat);
    SLUICE_ASSIGN_OR_RETURN(const fetch::Fetched fetched,
                            FetchModel(options->flags, options->chat.engine.model));
    if (!fetched.was_whole) std::cerr << Describe(fetched);
    options->chat.engine.model = fetched.path;
    return RunChat(options->chat);
  };
}

}  // namespace sluice::cli
