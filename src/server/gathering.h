// Requests to a model that embeds, whose vectors become one answer: submits them, some
// at once and the others as these end, keeps what comes, and cancels everything when the client
// goes or one of them fails. So their number may pass what the engine's queue takes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/activity_log.h"
#include "server/http/errors.h"
#include "server/http/http.h"
#include "server/shared/deadlines.h"
#include "sluice/engine.h"

namespace sluice::server {

// The body of the answer, from one vector for each request and the usage of all.
using MakeAnswer =
    std::function<std::string(const std::vector<std::vector<float>>& vectors, const Usage& usage)>;

// How an answer that is gathered differs from others.
struct GatheringOptions {
  ErrorForm errors = ErrorForm::kOpenAi;
  std::optional<double> timeout_s;  // after which it fails
};

// Takes the requests over; the exchange is answered sooner or later, from a text worker of the
// engine or a thread of `deadlines`, and `engine` is kept until then. `totals` and `deadlines` must
// outlive the exchange. Any thread.
void StartGathering(std::shared_ptr<Engine> engine, std::vector<Request> requests,
                    MakeAnswer make_answer, const GatheringOptions& options, TokenTotals* totals,
                    Deadlines* deadlines, std::shared_ptr<Exchange> exchange);

}  // namespace sluice::server
