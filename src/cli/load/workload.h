// The requests of a load, from a seed or a file: which prompt each has, and how long its answer is
// to be. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/load/dataset.h"
#include "cli/load/load_client.h"
#include "cli/load/server_facts.h"
#include "sluice/status.h"

namespace sluice::load {

// Vocabularies of models that are served have at least so many tokens, but for toys.
inline constexpr int kVocabGuess = 32000;
inline constexpr int kRequestsMax = 100000;

struct WorkloadOptions {
  std::string input_tokens = "512";
  std::string output_tokens;  // empty: what the dataset says, else kOutputDefault
  std::string dataset;        // a file; empty: random prompts
  std::optional<int> requests;
  std::string prompts = "auto";  // random ones are: ids, text, or auto (ids where they are taken)
  int vocab_size = 0;            // ids are below it; 0: what the server says, or kVocabGuess
  uint64_t seed = 0;

  static constexpr char kOutputDefault[] = "128";
  static constexpr int kRequestsDefault = 100;
};

class Workload {
 public:
  // Reads the dataset and draws the lengths. kInvalidArgument: what ParseLengths and ReadDataset
  // refuse, and a dataset with fewer prompts than requests are asked for.
  static Result<Workload> Make(const WorkloadOptions& options);

  // Finds out what the server takes, which a short request of its own shows, and how long answers
  // are that only their texts tell. Logs a warning where random prompts become text. kUnavailable:
  // the server refuses that request; kInvalidArgument: a prompt and its answer are longer than the
  // server's context.
  Status Fit(const Target& target, const ServerFacts& facts);

  size_t size() const { return output_tokens_.size(); }
  const std::vector<int>& output_tokens() const { return output_tokens_; }
  // As asked for; of a dataset's texts 0, as only the server counts them.
  const std::vector<int>& input_tokens() const { return input_tokens_; }
  bool sends_ids() const { return sends_ids_; }  // in random prompts

  // Of request `index`. REQUIRES: Fit has succeeded.
  std::string Body(size_t index) const;
  // Of a request like request `index`, for warming up, with a prompt of its own.
  std::string WarmUpBody(size_t index) const;

 private:
  Status Probe(const Target& target);
  Status CheckLengths() const;
  Prompt RandomPrompt(int tokens, uint32_t index) const;

  WorkloadOptions options_;
  std::vector<DatasetEntry> entries_;  // empty: prompts are random
  std::vector<int> input_tokens_, output_tokens_;
  ServerFacts facts_;
  int vocab_size_ = 0;
  bool sends_ids_ = false;
};

}  // namespace sluice::load
