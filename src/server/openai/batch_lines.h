// Lines of OpenAI's batch files: each is a request, whose answer is a line, too. LineRunner answers
// many of them at once by the handlers that clients of the server reach. One call at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http.h"
#include "sluice/status.h"

namespace sluice::server {

inline constexpr size_t kBatchLineBytesMax = 16 << 20;

// The paths that a line may ask, for people: "/v1/chat/completions, ...".
std::string BatchEndpoints();
bool IsBatchEndpoint(std::string_view path);

struct BatchLine {
  std::string custom_id;
  std::string path;
  std::string body;  // waits behind other requests of its key, unless it says otherwise
};
// `endpoint`: the only path that it may ask; empty: any of BatchEndpoints. kInvalidArgument says
// what is wrong.
Result<BatchLine> ReadBatchLine(std::string_view line, std::string_view endpoint);

// A line of the answers: of a reply, and of a line that could not be read.
std::string AnswerLine(const std::string& custom_id, const std::string& request_id,
                       const HttpReply& reply);
std::string ErrorLine(const std::string& custom_id, const Status& status);

class LineRunner {
 public:
  // Handles a request as the server does.
  using Send = std::function<void(HttpRequest, std::shared_ptr<Exchange>)>;
  // The next line; nothing: there are no more.
  using Next = std::function<std::optional<BatchLine>()>;
  // `answer`: the line, without its end. `ok`: the request went well.
  using Done = std::function<void(std::string answer, bool ok)>;

  // `like`: a request with what all have in common: whose they are.
  LineRunner(Send send, HttpRequest like) : send_(std::move(send)), like_(std::move(like)) {}

  // Answers the lines, some at once, and gives each answer as it comes, on this thread. Ends early,
  // and cancels what runs, once `stop` says so, which is asked every `kLookEvery`.
  void Run(const Next& next, const Done& done, const std::function<bool()>& stop);

 private:
  static constexpr size_t kLinesAtOnce = 64;
  static constexpr std::chrono::milliseconds kLookEvery{100};

  class LineExchange;
  struct Answers;

  void Start(BatchLine line, const std::shared_ptr<Answers>& answers);

  const Send send_;
  const HttpRequest like_;
};

}  // namespace sluice::server
