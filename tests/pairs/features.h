// The features that a flag or a request can switch on, in one table: a new feature is a new row,
// and every pair with the others is tried.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_fixture.h"

namespace sluice::pairs {

using Choice = engine::Answer::Choice;

// What a run of all requests gave.
struct Outcome {
  std::vector<std::shared_ptr<engine::Answer>> answers;  // of the last round
  Status refused;  // not ok: the engine did not open, or took no request
  std::vector<std::shared_ptr<engine::Answer>> cancelled;  // their twins, likewise, where there are
  double preempted = 0, hits = 0, accepted = 0, steps = 0, moved = 0;
};

struct Feature {
  std::string name;      // in docs/pairs.md
  std::string spelling;  // of the flag or field
  // What the engine or each request has with it; one of the two is set, unless it cancels.
  std::function<void(EngineOptions&)> engine;
  std::function<void(Request&)> request;
  // An answer is what it is without the feature.
  bool same_answer = false;
  // Engines have one feature of a name here, such as "model".
  std::string place;
  // The name of another feature, which comes before it and which it cannot be without; empty: none.
  std::string needs;
  // Names of other features beside which an engine does not open, or takes no request, and what is
  // said then.
  std::vector<std::pair<std::string, std::string>> refused;
  // Each request has a twin, which is cancelled.
  bool cancels = false;
  // What is wrong with an answer to `request`, whatever else is on; empty: nothing. May be empty.
  std::function<std::string(const Request& request, const Choice& choice)> check;
  // Whether the feature did something, by a run with it alone and one of nothing. Empty: an answer
  // must be another.
  std::function<bool(const Outcome& with, const Outcome& plain)> shown;
};

// The feature that every pair is tried with, too.
inline constexpr char kDrafts[] = "n-gram drafts";

const std::vector<Feature>& Features();

// What all requests are made from, one for each prompt.
EngineOptions PlainOptions();
std::vector<Request> PlainRequests();

}  // namespace sluice::pairs
