#include "server/openai/batch_lines.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/str_cat.h"
#include "server/http/errors.h"
#include "server/http/request_id.h"
#include "server/shared/api_call.h"
#include "server/shared/fields.h"
#include "server/shared/owned_store.h"

namespace sluice::server {
namespace {

constexpr size_t kIdBytesMax = 512;
constexpr const char* kLinePrefix = "batch_req_";

struct Endpoint {
  std::string_view path;
  bool has_priority;  // its bodies may say one
};
constexpr Endpoint kEndpoints[] = {{"/v1/chat/completions", true},
                                   {"/v1/completions", true},
                                   {"/v1/embeddings", true},
                                   {"/v1/responses", false}};

const Endpoint* FindEndpoint(std::string_view path) {
  const auto found = std::find_if(std::begin(kEndpoints), std::end(kEndpoints),
                                  [path](const Endpoint& e) { return e.path == path; });
  return found == std::end(kEndpoints) ? nullptr : found;
}

}  // namespace

std::string BatchEndpoints() {
  std::string list;
  for (const Endpoint& endpoint : kEndpoints) {
    list += StrCat(list.empty() ? "" : ", ", endpoint.path);
  }
  return list;
}

bool IsBatchEndpoint(std::string_view path) { return FindEndpoint(path) != nullptr; }

Result<BatchLine> ReadBatchLine(std::string_view text, std::string_view endpoint) {
  if (text.size() > kBatchLineBytesMax) {
    return InvalidArgument(
        StrCat("the line has ", text.size(), " bytes; the limit is ", kBatchLineBytesMax));
  }
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(text));
  Fields fields(object);
  BatchLine line;
  line.custom_id = fields.String("custom_id", kIdBytesMax).value_or("");
  if (line.custom_id.empty()) fields.Missing("custom_id", "a name of the line");
  fields.OnlyValue("method", "POST");
  line.path = fields.String("url", kIdBytesMax).value_or("");
  const Endpoint* const asked = FindEndpoint(line.path);
  if (asked == nullptr || (!endpoint.empty() && line.path != endpoint)) {
    fields.WrongValue(
        "url", endpoint.empty() ? StrCat("one of ", BatchEndpoints()) : std::string(endpoint));
  }
  const OrderedJson* body = fields.Object("body");
  if (body == nullptr) fields.Missing("body", "an object");
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  OrderedJson sent = *body;
  for (const char* field : {"stream", "background"}) {
    if (sent.value(field, OrderedJson(false)) != true) continue;
    return InvalidArgument(
        StrCat(field, " is true; the lines of a batch are answered whole, as their turn comes: ",
               "leave it out"),
        field);
  }
  if (asked->has_priority && !sent.contains("priority")) sent["priority"] = kPriorityMax;
  line.body = DumpJson(sent);
  return line;
}

std::string AnswerLine(const std::string& custom_id, const std::string& request_id,
                       const HttpReply& reply) {
  return StrCat("{\"id\":\"", DrawPrivateId(kLinePrefix),
                "\",\"custom_id\":", DumpJson(OrderedJson(custom_id)),
                ",\"response\":{\"status_code\":", reply.status,
                ",\"request_id\":", DumpJson(OrderedJson(request_id)), ",\"body\":", reply.body,
                "},\"error\":null}");
}

std::string ErrorLine(const std::string& custom_id, const Status& status) {
  return DumpJson(
      OrderedJson{{"id", DrawPrivateId(kLinePrefix)},
                  {"custom_id", custom_id},
                  {"response", nullptr},
                  {"error", OrderedJson{{"code", "invalid_line"}, {"message", status.message()}}}});
}

// What has come, for the thread that runs the lines. Outlives it where an exchange does.
struct LineRunner::Answers {
  struct Answer {
    uint64_t number;
    HttpReply reply;
  };

  void Put(uint64_t number, HttpReply reply) {
    {
      std::lock_guard lock(mutex);
      if (!open.contains(number)) return;
      come.push_back({number, std::move(reply)});
    }
    changed.notify_one();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Answer> come;  // guarded by mutex
  // Lines that have no answer yet, or one that was not looked at, and how to cancel them; guarded
  // by mutex.
  std::map<uint64_t, std::function<void()>> open;

  // Of the thread that runs.
  std::map<uint64_t, std::pair<BatchLine, std::string>> lines;  // with their requests' ids
  uint64_t next = 0;
};

class LineRunner::LineExchange : public Exchange {
 public:
  LineExchange(std::shared_ptr<Answers> answers, uint64_t number)
      : answers_(std::move(answers)), number_(number) {}

  void Reply(HttpReply reply) override { answers_->Put(number_, std::move(reply)); }
  void StreamType(const char*) override {}
  // No line asks for a stream.
  bool Stream(std::string_view) override { return false; }
  void EndStream(bool) override {}
  void Note(std::string, OrderedJson) override {}
  void OnDisconnect(std::function<void()> call) override {
    std::lock_guard lock(answers_->mutex);
    const auto found = answers_->open.find(number_);
    if (found != answers_->open.end()) found->second = std::move(call);
  }

 private:
  const std::shared_ptr<Answers> answers_;
  const uint64_t number_;
};

void LineRunner::Start(BatchLine line, const std::shared_ptr<Answers>& answers) {
  const uint64_t number = ++answers->next;
  HttpRequest request = like_;
  request.method = "POST";
  request.path = line.path;
  request.body = line.body;
  request.request_id = RequestIdOf("");
  answers->lines[number] = {std::move(line), request.request_id};
  {
    std::lock_guard lock(answers->mutex);
    answers->open[number] = nullptr;
  }
  send_(std::move(request), std::make_shared<LineExchange>(answers, number));
}

void LineRunner::Run(const Next& next, const Done& done, const std::function<bool()>& stop) {
  const auto answers = std::make_shared<Answers>();
  std::vector<BatchLine> again;  // that found the queue full
  int64_t again_us = 0;          // and may be sent again then
  bool more = true;
  while (!stop()) {
    while (NowMicros() >= again_us && answers->lines.size() < kLinesAtOnce) {
      if (!again.empty()) {
        Start(std::move(again.back()), answers);
        again.pop_back();
      } else if (auto line = more ? next() : std::nullopt) {
        Start(*std::move(line), answers);
      } else {
        more = false;
        break;
      }
    }
    if (answers->lines.empty() && !more && again.empty()) return;
    std::unique_lock lock(answers->mutex);
    answers->changed.wait_for(lock, kLookEvery, [&] { return !answers->come.empty(); });
    auto come = std::exchange(answers->come, {});
    for (const auto& answer : come) answers->open.erase(answer.number);
    lock.unlock();
    for (auto& [number, reply] : come) {
      auto [line, request_id] = std::move(answers->lines.at(number));
      answers->lines.erase(number);
      if (reply.status == 429) {
        again.push_back(std::move(line));
        again_us = NowMicros() + std::chrono::microseconds(kLookEvery).count();
      } else {
        done(AnswerLine(line.custom_id, request_id, reply), reply.status == 200);
      }
    }
  }
  std::unique_lock lock(answers->mutex);
  const auto open = std::exchange(answers->open, {});
  lock.unlock();
  for (const auto& [number, cancel] : open) {
    if (cancel) cancel();
  }
}

}  // namespace sluice::server
