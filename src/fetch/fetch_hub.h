// A repository of the Hugging Face Hub, into its folder of the model cache. One thread.
#pragma once

#include "fetch/fetch.h"
#include "fetch/http_client.h"
#include "fetch/model_name.h"

namespace sluice::fetch {

// `options` with checked URLs, token and revision. Errors are those of Fetch.
Result<Fetched> FetchHub(HttpClient& client, const FetchOptions& options, const ModelName& name);

}  // namespace sluice::fetch
