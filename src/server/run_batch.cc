// Files of batch lines through the routes, without a server.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/openai/batch_lines.h"
#include "server/routes.h"
#include "sluice/batch.h"

namespace sluice {
namespace {

// For what was cancelled to end.
constexpr double kDrainSeconds = 30;

Status Failed(const char* what, const std::string& path) {
  return Status(StatusCode::kIo, StrCat(Quote(path), " cannot be ", what, ": ", strerror(errno)));
}

// A line without its end, of no more than kBatchLineBytesMax + 1 bytes; the rest is left out.
// False: there is none. `*whole`: its end has come.
bool ReadLine(std::istream& in, std::string* line, bool* whole) {
  line->clear();
  *whole = false;
  for (int c = in.get(); c != std::char_traits<char>::eof(); c = in.get()) {
    if (c == '\n') {
      *whole = true;
      break;
    }
    if (line->size() <= server::kBatchLineBytesMax) *line += static_cast<char>(c);
  }
  if (line->ends_with('\r')) line->pop_back();
  return *whole || !line->empty();
}

// What a file of answers has.
struct Answered {
  std::map<std::string, bool> ids;   // the custom_ids of its lines, and whether these went well
  std::set<std::string> unreadable;  // the errors of lines that have none
};

// Of the lines that are whole, behind which the file is cut.
Result<Answered> ReadAnswered(const std::string& path) {
  Answered answered;
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return answered;
    return Failed("read", path);
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return Failed("read", path);
  int64_t end = 0;
  std::string line;
  for (bool whole = true; ReadLine(in, &line, &whole) && whole;) {
    end = in.tellg();
    auto json = ParseJson(line, "a line of answers");
    if (!json.ok() || !json->is_object() || !json->contains("custom_id")) {
      return InvalidArgument(StrCat(Quote(path),
                                    " has a line that is no answer of a batch; name "
                                    "another file for the answers"));
    }
    const Json id = json->value("custom_id", Json()), error = json->value("error", Json());
    const Json response = json->value("response", Json());
    const bool good = response.is_object() && response.value("status_code", Json()) == 200;
    if (id.is_string() && id != "") {
      answered.ids[id.get<std::string>()] = good;
    } else if (error.is_object() && error.value("message", Json()).is_string()) {
      answered.unreadable.insert(error["message"].get<std::string>());
    }
  }
  if (end < info.st_size && truncate(path.c_str(), end) != 0) return Failed("written", path);
  return answered;
}

// Reads the lines of a file, which must have a custom_id each.
class LineReader {
 public:
  LineReader(std::istream& in, const Answered& answered) : in_(in), answered_(answered) {}

  // The next one that has no answer, or the error of one that cannot be read and has none;
  // nothing: there are no more.
  std::optional<Result<server::BatchLine>> Next(BatchProgress* progress) {
    std::string text;
    for (bool whole = true; ReadLine(in_, &text, &whole);) {
      ++number_;
      if (text.empty()) continue;
      auto line = server::ReadBatchLine(text, "");
      if (line.ok() && !Twice(*line).ok()) line = Twice(*line);
      if (!line.ok()) {
        const Status status = line.status().WithContext(StrCat("line ", number_));
        if (!answered_.unreadable.contains(status.message())) return status;
        ++progress->failed_before;
        continue;
      }
      numbers_.emplace(line->custom_id, number_);
      const auto found = answered_.ids.find(line->custom_id);
      if (found == answered_.ids.end()) return line;
      ++(found->second ? progress->before : progress->failed_before);
    }
    return std::nullopt;
  }
  // Reads all, for two lines with one custom_id.
  Status FindTwice() {
    std::string text;
    for (bool whole = true; ReadLine(in_, &text, &whole);) {
      ++number_;
      const auto line = server::ReadBatchLine(text, "");
      if (!line.ok()) continue;  // which is told as its answer
      SLUICE_RETURN_IF_ERROR(Twice(*line).WithContext(StrCat("line ", number_)));
      numbers_.emplace(line->custom_id, number_);
    }
    return OkStatus();
  }

 private:
  Status Twice(const server::BatchLine& line) const {
    const auto found = numbers_.find(line.custom_id);
    if (found == numbers_.end()) return OkStatus();
    return InvalidArgument(StrCat("custom_id is ", Quote(line.custom_id), ", as in line ",
                                  found->second, "; each line needs one of its own"),
                           "custom_id");
  }

  std::istream& in_;
  const Answered& answered_;
  int64_t number_ = 0;                      // of the line that was read last, from 1
  std::map<std::string, int64_t> numbers_;  // of the lines with these custom_ids
};

}  // namespace

Status CheckBatch(const std::string& in_path) {
  struct stat info = {};
  if (stat(in_path.c_str(), &info) != 0) return Failed("read", in_path);
  if (!S_ISREG(info.st_mode)) return OkStatus();
  std::ifstream in(in_path, std::ios::binary);
  if (!in) return Failed("read", in_path);
  const Answered none;
  return LineReader(in, none).FindTwice().WithContext(Quote(in_path));
}

Result<BatchProgress> RunBatch(Engine& engine, const std::string& in_path,
                               const std::string& out_path,
                               const std::function<void(const BatchProgress&)>& told,
                               const std::function<bool()>& stop) {
  std::ifstream in(in_path, std::ios::binary);
  if (!in) return Failed("read", in_path);
  SLUICE_RETURN_IF_ERROR(CheckBatch(in_path));
  SLUICE_ASSIGN_OR_RETURN(const Answered answered, ReadAnswered(out_path));
  std::ofstream out(out_path, std::ios::binary | std::ios::app);
  if (!out) return Failed("written", out_path);
  BatchProgress progress;
  const auto write = [&](const std::string& answer, bool ok) {
    out << answer << '\n' << std::flush;
    ++(ok ? progress.completed : progress.failed);
    told(progress);
  };
  LineReader reader(in, answered);
  const auto next = [&]() -> std::optional<server::BatchLine> {
    while (auto line = reader.Next(&progress)) {
      if (line->ok()) return **std::move(line);
      write(server::ErrorLine("", line->status()), false);
    }
    return std::nullopt;
  };
  server::Models models(engine);
  server::Routes routes(models, server::ApiKeys(), [] { return server::HttpState(); });
  server::LineRunner runner(
      [&routes](server::HttpRequest request, std::shared_ptr<server::Exchange> exchange) {
        routes.Handle(std::move(request), std::move(exchange));
      },
      server::HttpRequest());
  runner.Run(next, write, [&] { return !out || stop(); });
  if (!out) return Failed("written", out_path);
  // What was cancelled has let go of the routes once the engine is at rest.
  SLUICE_RETURN_IF_ERROR(engine.Drain(kDrainSeconds));
  return progress;
}

}  // namespace sluice
