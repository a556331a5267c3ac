// What the APIs tell of the models and take about them: which one a body names, the entries of
// lists, orders to models and their engines, and metrics of several engines as one text. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/shared/models.h"

namespace sluice::server {

// The text that the field `field` of a body has, an object in JSON; empty: there is none, or this
// is no JSON, which the body's reader tells better. Reads no further than that field.
std::string ModelNamedIn(std::string_view body, std::string_view field);

// An entry of /v1/models. `created`: seconds since the epoch.
OrderedJson ModelJson(const ModelReport& report, int64_t created);

// A wish that a model be loaded, or unloaded.
struct ModelOrder {
  std::string name;
  bool load = true;
};
// Of `path`, /v1/models/NAME/load or /unload, or /models/load or /unload with the name in the body,
// as llama.cpp has it. kNotFound: there is no such path; kInvalidArgument: the body.
Result<ModelOrder> ReadModelOrder(const std::string& path, std::string_view body);

// An order to a model's engine that changes what all its clients get.
struct EngineOrder {
  std::string model;    // as the body names it; empty: the first
  std::string command;  // as Engine::Admin takes it
};
// Of `path`, /admin/ and the command's name, and of a body {"model": NAME}, which may be left out.
// kInvalidArgument: the body.
Result<EngineOrder> ReadEngineOrder(const std::string& path, std::string_view body);

// Prometheus' texts, of which some have the same families: each family stands once.
std::string MergedMetrics(const std::vector<std::string>& texts);

// Whether each model is loaded, as a family of metrics.
std::string LoadedMetric(const std::vector<ModelReport>& reports);

}  // namespace sluice::server
