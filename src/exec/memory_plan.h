// How the KV memory is shared out: a pure function from the model's layer groups and a budget to
// blocks per group, decided once at start.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kvstore/kv_store.h"
#include "model/model.h"
#include "sluice/status.h"

namespace sluice::exec {

struct MemoryRequest {
  std::vector<batch::KvGroup> groups;  // without num_blocks
  // Of a draft model: they have a block for each of the group that is followed. May be empty.
  std::vector<batch::KvGroup> draft_groups;
  int max_num_seqs = 1;
  int max_batch_tokens = 1;
  int declared_model_len = 0;  // by the model
  int max_model_len = 0;       // by the user; 0: what the model declares or what fits
  bool length_found = false;   // max_model_len is the longest that fits, not the user's
  size_t weight_bytes = 0;     // that the device gives to the weights
  size_t free_bytes = 0;       // of the device, after the weights
  // Of them, what a step needs beside the KV cache: its buffers, and of kernels and graphs.
  size_t step_bytes = 0;
  size_t scratch_bytes = 0;         // of ops, for the largest step
  size_t graph_bytes = 0;           // of graphs and kernels' code, an estimate
  size_t allocation_bytes_max = 0;  // that the device gives in one piece; 0: any
  double share = 0.25;              // of what is left, that the KV cache may take unasked
  // Of a sequence in a step, by the user: what a state is to be kept behind, where there are any.
  int draft_tokens = 0;
  size_t kv_bytes = 0;  // by the user; 0: the lesser of what sequences * length need and
                        // `share` of what is left
};

struct MemoryPlan {
  int max_model_len = 0;
  std::vector<batch::KvGroup> groups, draft_groups;
  size_t bytes = 0;  // of both
  std::string note;  // one line when the length or the drafts were cut to what fits; else empty
  // As they were asked for; `free_bytes` counts what the weights take as free.
  size_t weight_bytes = 0, step_bytes = 0, free_bytes = 0;
  size_t host_weight_bytes = 0;  // of experts on the host, which count nowhere else

  // Of what was free: weights, KV cache and what a step needs. 0 to 1.
  double Share() const;
  // One line for people: what takes how much, and which share of what was free that is.
  std::string ToString() const;
};

// The group whose blocks stand for a draft model's, too: the first of full attention. -1: none.
int FollowedGroup(std::span<const batch::KvGroup> groups);

// Groups of states get room for the drafts asked for, or for as many as leave room for the longest
// sequence. kOutOfMemory, naming the flags, when one sequence of the length asked for does not fit;
// kInvalidArgument when block sizes or the length are not possible.
Result<MemoryPlan> PlanMemory(const MemoryRequest& request);

// As PlanMemory of request_for(0), whose length the user chose or nobody. Where nobody did and the
// KV cache cuts the declared length, it is of the longest that fits: `request_for` says what is
// needed with the length given, since a step's buffers and the tables of positions grow with it,
// too. `shorter`: also where these alone do not fit with the declared length, which is an error
// otherwise.
Result<MemoryPlan> PlanLongest(
    const std::function<Result<MemoryRequest>(int max_model_len)>& request_for, bool shorter);

}  // namespace sluice::exec
