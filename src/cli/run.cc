// sluice run: fetches a model unless it is there, then talks with it as `sluice chat` does.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/fetch_model.h"
#include "fetch/catalogue.h"

namespace sluice::cli {

Action SetUpRun(CLI::App& app) {
  struct Options {
    FetchFlags flags;
    ChatOptions chat;
  };
  auto options = std::make_shared<Options>();
  AddChatOptions(app, &options->chat);
  app.get_option("model")->type_name("NAME")->description(
      fetch::CatalogueNames() + ", OWNER/NAME, OWNER/NAME:Q4_K_M, or the URL of one");
  AddFetchOptions(app, &options->flags);
  return [options]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const fetch::Fetched fetched,
                            FetchModel(options->flags, options->chat.engine.model));
    if (!fetched.was_whole) std::cerr << Describe(fetched);
    options->chat.engine.model = fetched.path;
    return RunChat(options->chat);
  };
}

}  // namespace sluice::cli
