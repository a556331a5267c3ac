// Files of OpenAI's batch lines, answered by an engine without a server. One call at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

struct BatchProgress {
  int64_t before = 0;         // lines that the file of answers had already, and that went well
  int64_t failed_before = 0;  // that it had already, with an error for an answer
  int64_t completed = 0;      // that went well
  int64_t failed = 0;         // whose answer is an error
};

// Whether each line that can be read has a custom_id of its own; kInvalidArgument names two that do
// not. What can be read only once, as a pipe, is not read.
Status CheckBatch(const std::string& in_path);

// Answers the lines of `in_path` into `out_path`, as they come, which need not be in order. Lines
// whose custom_id stands in that file already are left out, so that a run that was stopped goes on;
// a line that it left unfinished is cut off. `told` is called behind each answer, on this thread;
// `stop` ends the run where it stands. A line that cannot be read has an error for an answer, once.
// kInvalidArgument, kIo: as CheckBatch, or a file cannot be read or written.
Result<BatchProgress> RunBatch(Engine& engine, const std::string& in_path,
                               const std::string& out_path,
                               const std::function<void(const BatchProgress&)>& told,
                               const std::function<bool()>& stop);

}  // namespace sluice
