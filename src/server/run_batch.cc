// Files of batch lines through the routes, without a server.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

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

// The custom_ids of the lines that are whole, behind which the file is cut.
Result<std::set<std::string>> ReadAnswered(const std::string& path) {
  std::set<std::string> ids;
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return ids;
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
    const Json& id = (*json)["custom_id"];
    if (id.is_string()) ids.insert(id.get<std::string>());
  }
  if (end < info.st_size && truncate(path.c_str(), end) != 0) return Failed("written", path);
  return ids;
}

}  // namespace

Result<BatchProgress> RunBatch(Engine& engine, const std::string& in_path,
                               const std::string& out_path,
                               const std::function<void(const BatchProgress&)>& told,
                               const std::function<bool()>& stop) {
  std::ifstream in(in_path, std::ios::binary);
  if (!in) return Failed("read", in_path);
  SLUICE_ASSIGN_OR_RETURN(std::set<std::string> answered, ReadAnswered(out_path));
  std::ofstream out(out_path, std::ios::binary | std::ios::app);
  if (!out) return Failed("written", out_path);
  BatchProgress progress;
  const auto write = [&](const std::string& answer, bool ok) {
    out << answer << '\n' << std::flush;
    ++(ok ? progress.completed : progress.failed);
    told(progress);
  };
  const auto next = [&]() -> std::optional<server::BatchLine> {
    std::string text;
    for (bool whole = true; ReadLine(in, &text, &whole);) {
      if (text.empty()) continue;
      auto line = server::ReadBatchLine(text, "");
      if (!line.ok()) {
        write(server::ErrorLine("", line.status()), false);
      } else if (answered.insert(line->custom_id).second) {
        return *std::move(line);
      } else {
        ++progress.before;
      }
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
