// What may change around a request without changing its answer.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "subjects.h"

namespace sluice::sameness {

struct Perturbation {
  std::string name;
  EngineOptions options;
  int neighbours = 0;         // random requests per subject, running beside them
  int cancelled = 0;          // of the neighbours, in percent, while they run
  int rounds = 1;             // later ones find the prefix cache filled
  bool must_preempt = false;  // the run shows nothing unless something was preempted
  bool must_hit = false;      // the same of tokens that were found in the prefix cache
  bool must_draft = false;    // the same of drafts that were accepted, and of others that were not
};

// Little memory, for few of the subjects at a time.
struct Scarcity {
  int max_model_len = 0;  // of the longest subject
  int64_t kv_bytes = 0,
          kv_bytes_drafting = 0;  // the latter beside drafts, whose states or KV count
};

// Where drafts come from, as --speculate and --draft-model say it.
struct Drafts {
  std::string proposer = "ngram", model;
  void Set(std::string_view name, EngineOptions* options) const {
    options->speculate = name;
    options->draft_model = name == proposer ? model : "";
  }
};

// All of them for a model, on the instruction set of `base`. `drafts`: of most of them.
std::vector<Perturbation> Perturbations(const EngineOptions& base, const Scarcity& scarcity,
                                        const Drafts& drafts);

// Makes `options` leave prompts of `prompt_max` tokens uncut whatever runs beside them: no prefix
// cache, and room for all in one step.
void FixChunks(int prompt_max, EngineOptions* options);
// Those of level 1, for options that FixChunks has seen.
std::vector<Perturbation> LevelOnePerturbations(const EngineOptions& base, const Drafts& drafts);

// Runs all subjects at once in a random order between neighbours, and compares with `expected`.
// `preempted`: how often a sequence lost its memory. No hit or draft where there must be, an engine
// that does not open, or blocks that are not free at the end, are an error.
Result<Difference> Run(const Perturbation& perturbation, const std::vector<Request>& subjects,
                       const std::vector<Outcome>& expected, int vocab, uint64_t seed,
                       double* preempted);

// Each answer read back as a prompt: its tokens' log-probs from prefill against those of decoding.
Result<Difference> ReadBack(const EngineOptions& options, const std::vector<Request>& subjects,
                            const std::vector<Outcome>& expected);

}  // namespace sluice::sameness
