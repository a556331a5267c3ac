// Prompts of a file. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/load/prompts.h"
#include "sluice/status.h"

namespace sluice::load {

struct DatasetEntry {
  Prompt prompt;
  std::optional<int> output_tokens;  // how long its answer is to be
  std::string answer;  // a text that is as long as the answer is to be, where the file has that
};

// The first entries of a file, `most` of them or all there are. Two forms are read:
// - an object a line, {"prompt": TEXT or [IDS], "output_len": N}; "output_tokens" and
//   "max_tokens" mean the same as "output_len", which may be left out;
// - ShareGPT's, one list of {"conversations": [{"from": "human", "value": TEXT}, {"from": "gpt",
//   "value": TEXT}, ...]}: the first two turns are prompt and answer. Conversations with fewer
//   turns, or an empty one, are passed over.
// The file is read as far as it is needed. kInvalidArgument, with the line and its file: what is of
// neither form, or above 16 MiB; a file without an entry. Others as RegularFile's.
Result<std::vector<DatasetEntry>> ReadDataset(const std::string& path, size_t most);

}  // namespace sluice::load
