// Requests to a model that embeds, whose vectors become one answer: submits them, keeps what comes,
// and cancels everything when the client goes or one of them fails.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/activity_log.h"
#include "server/http.h"
#include "sluice/engine.h"

namespace sluice::server {

// The body of the answer, from one vector for each request and the usage of all.
using MakeAnswer =
    std::function<std::string(const std::vector<std::vector<float>>& vectors, const Usage& usage)>;

// Takes the requests over; the exchange is answered sooner or later, from a text worker of the
// engine. `engine` and `totals` must outlive the exchange. Any thread.
void StartGathering(Engine& engine, std::vector<Request> requests, MakeAnswer make_answer,
                    TokenTotals* totals, std::shared_ptr<Exchange> exchange);

}  // namespace sluice::server
