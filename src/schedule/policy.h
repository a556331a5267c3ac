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
// Lower spec.priority first. One step of priority is worth `aging_us` of waiting, so that an urgent
// flood delays others by a bounded time only.
std::unique_ptr<Policy> MakePriorityPolicy(int64_t aging_us);
// As the priority policy within each client; clients share by their weights.
std::unique_ptr<Policy> MakeFairPolicy(int64_t aging_us);

// By name: "fcfs", "priority" or "fair". kInvalidArgument names the choices.
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, int64_t aging_us);

}  // namespace sluice::schedule
