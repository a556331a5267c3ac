// Policy: in which order sequences are served, and who may push out whom. Step thread only;
// stateless. A new policy is a new file and one line of policy.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "schedule/sequence.h"
#include "sluice/status.h"

namespace sluice::schedule {

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view Name() const = 0;
  // Fixed at arrival; smaller goes first, ties by id. Memory is taken from the largest.
  virtual int64_t Rank(const SequenceSpec& spec, int64_t arrival_us) const = 0;
  // Whether `waiting` may have `running` preempted to be admitted. It must imply a smaller rank,
  // so that two sequences never push each other out.
  virtual bool MayPreempt(const Sequence& waiting, const Sequence& running) const = 0;
  // Whether the client that has had least is admitted first, whatever the ranks of several
  // (FairShare).
  virtual bool SharesByClient() const { return false; }
};

// First come, first served.
std::unique_ptr<Policy> MakeFcfsPolicy();
// What one step of priority is worth of waiting, so that an urgent flood delays others by a bounded
// time only.
inline constexpr int64_t kPriorityAgingUs = 10'000'000;
// Lower spec.priority first, but for kPriorityAgingUs.
std::unique_ptr<Policy> MakePriorityPolicy();
// As the priority policy within each client; clients share by their weights.
std::unique_ptr<Policy> MakeFairPolicy();

// By name: "fcfs", "priority" or "fair". kInvalidArgument names the choices.
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name);

}  // namespace sluice::schedule
