#include "server/openai/batches_api.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/errors.h"
#include "server/openai/list_page.h"
#include "server/shared/fields.h"
#include "server/shared/key_share.h"

namespace sluice::server {
namespace {

constexpr size_t kBatchTextBytesMax = 512;
constexpr size_t kMetadataBytesMax = 16u << 10;
constexpr int64_t kBatchesBytesMax = 64 << 20;
constexpr int64_t kWindowSeconds = 24 * 3600;  // the only one that OpenAI has
constexpr size_t kLinesMax = 50'000;
constexpr size_t kErrorsMax = 100;               // told of a file
constexpr size_t kAnswersBytesMax = 128u << 20;  // of one batch
constexpr std::string_view kCancel = "/cancel";
constexpr PageSize kBatchesPage = {.otherwise = 20, .max = 100};  // as OpenAI's

// The lines of a file without their ends; empty ones are left out.
template <class Visitor>
void ForEachLine(std::string_view text, Visitor&& visit) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (!visit(number, line)) return;
  }
}

}  // namespace

class Batches::Batch {
 public:
  // Constant.
  std::string id = DrawPrivateId("batch_");
  HttpRequest like;  // whose lines they are
  std::string endpoint, input_id;
  OrderedJson metadata;
  int64_t created = std::time(nullptr);
  std::atomic<bool> cancelled = false;

  struct Progress {
    std::string status = "validating";
    std::vector<LineError> errors;
    int64_t total = 0, completed = 0, failed = 0;
    std::string output_id, error_id;
    // Seconds since the epoch; 0: not yet.
    int64_t begun = 0, finalizing = 0, ended = 0, cancelling = 0;
  };

  template <class Change>
  void Update(Change&& change) {
    std::lock_guard lock(mutex_);
    change(progress_);
  }
  // Whether it may still be cancelled; then it is.
  bool Cancel() {
    std::lock_guard lock(mutex_);
    if (progress_.ended > 0) return false;
    cancelled = true;
    progress_.status = "cancelling";
    if (progress_.cancelling == 0) progress_.cancelling = std::time(nullptr);
    return true;
  }
  void End(const char* status) {
    std::lock_guard lock(mutex_);
    progress_.status = status;
    progress_.ended = std::time(nullptr);
  }
  OrderedJson Json() const;

 private:
  mutable std::mutex mutex_;
  Progress progress_;  // guarded by mutex_
};

OrderedJson Batches::Batch::Json() const {
  std::lock_guard lock(mutex_);
  const Progress& now = progress_;
  const auto time = [](int64_t at) { return at > 0 ? OrderedJson(at) : OrderedJson(nullptr); };
  const auto ended = [&](std::string_view status) {
    return time(now.status == status ? now.ended : 0);
  };
  const auto file = [](const std::string& name) {
    return name.empty() ? OrderedJson(nullptr) : OrderedJson(name);
  };
  OrderedJson json{
      {"id", id},
      {"object", "batch"},
      {"endpoint", endpoint},
      {"errors", nullptr},
      {"input_file_id", input_id},
      {"completion_window", "24h"},
      {"status", now.status},
      {"output_file_id", file(now.output_id)},
      {"error_file_id", file(now.error_id)},
      {"created_at", created},
      {"in_progress_at", time(now.begun)},
      {"expires_at", created + kWindowSeconds},
      {"finalizing_at", time(now.finalizing)},
      {"completed_at", ended("completed")},
      {"failed_at", ended("failed")},
      {"expired_at", ended("expired")},
      {"cancelling_at", time(now.cancelling)},
      {"cancelled_at", ended("cancelled")},
      {"request_counts",
       OrderedJson{{"total", now.total}, {"completed", now.completed}, {"failed", now.failed}}},
      {"metadata", metadata}};
  if (!now.errors.empty()) {
    OrderedJson list = OrderedJson::array();
    for (const LineError& error : now.errors) {
      list.push_back(OrderedJson{{"code", "invalid_line"},
                                 {"line", error.line},
                                 {"message", error.status.message()},
                                 {"param", file(error.status.field())}});
    }
    json["errors"] = OrderedJson{{"object", "list"}, {"data", std::move(list)}};
  }
  return json;
}

int64_t Batches::Kept::bytes() const {
  // What it takes at most, its file apart.
  return 4096 + static_cast<int64_t>(DumpJson(batch->metadata).size());
}

Batches::Batches(FileStore* files, LineRunner::Send send)
    : files_(files),
      send_(std::move(send)),
      kept_(kBatchesBytesMax, FileStore::kAgeSecondsMax * 1'000'000) {}

Batches::~Batches() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  std::vector<std::thread> threads = std::exchange(threads_, {});
  lock.unlock();
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

HttpReply Batches::Create(const HttpRequest& request) {
  Result<OrderedJson> object = ParseBody(request.body);
  if (!object.ok()) return ErrorReply(object.status());
  Fields fields(*object);
  auto batch = std::make_shared<Batch>();
  batch->like.key_salt = request.key_salt;
  batch->like.key_weight = request.key_weight;
  batch->like.client = request.client;
  batch->input_id = fields.String("input_file_id", kBatchTextBytesMax).value_or("");
  batch->endpoint = fields.String("endpoint", kBatchTextBytesMax).value_or("");
  if (!IsBatchEndpoint(batch->endpoint)) {
    fields.WrongValue("endpoint", StrCat("one of ", BatchEndpoints()));
  }
  if (fields.String("completion_window", kBatchTextBytesMax) != "24h") {
    fields.WrongValue("completion_window", "\"24h\"");
  }
  const OrderedJson* metadata = fields.Object("metadata");
  if (metadata != nullptr) batch->metadata = *metadata;
  if (DumpJson(batch->metadata).size() > kMetadataBytesMax) {
    fields.Fail("metadata", StrCat("metadata has ", DumpJson(batch->metadata).size(),
                                   " bytes; the limit is ", kMetadataBytesMax));
  }
  fields.Any("output_expires_after");  // files have an age of their own
  if (Status status = fields.Finish(); !status.ok()) return ErrorReply(status);
  if (files_->Find(request.key_salt, batch->input_id, NowMicros()) == nullptr) {
    return ErrorReply(Status(
        StatusCode::kNotFound,
        StrCat("there is no file ", Quote(batch->input_id), " of this key; send it to /v1/files"),
        "input_file_id"));
  }
  {
    std::lock_guard lock(mutex_);
    const size_t own = std::count_if(queue_.begin(), queue_.end(), [&](const auto& other) {
      return other->like.key_salt == request.key_salt;
    });
    if (!MayTakePlace(request.key_salt, own, queue_.size(), kQueueMax)) {
      return HttpErrorReply(
          429, StrCat("API keys may have ", kQueueMax, " batches that wait, and this one has its ",
                      "share (", own, "); try again when one has ended"));
    }
    kept_.Put(request.key_salt, batch->id, {batch}, NowMicros());
    queue_.push_back(batch);
    while (threads_.size() < kThreads && !stopping_) threads_.emplace_back([this] { Work(); });
  }
  changed_.notify_one();
  return JsonReply(batch->Json());
}

HttpReply Batches::List(const HttpRequest& request) {
  std::vector<OrderedJson> list;
  for (const auto& kept : kept_.List(request.key_salt, NowMicros())) {
    list.push_back(kept->batch->Json());
  }
  const auto page = PageOf(std::move(list), request.query, kBatchesPage);
  return page.ok() ? JsonReply(*page) : ErrorReply(page.status());
}

HttpReply Batches::Find(const HttpRequest& request) {
  const std::string id = request.path.substr(std::string_view(kBatchPrefix).size());
  const auto kept = kept_.Find(request.key_salt, id, NowMicros());
  if (kept != nullptr) return JsonReply(kept->batch->Json());
  return ErrorReply(Status(StatusCode::kNotFound,
                           StrCat("there is no batch ", Quote(id), " of this key"), "batch_id"));
}

HttpReply Batches::Cancel(const HttpRequest& request) {
  if (!request.path.ends_with(kCancel)) {
    return HttpErrorReply(404, "a batch takes a POST of its cancel alone, /v1/batches/ID/cancel");
  }
  HttpRequest named = request;
  named.path.resize(named.path.size() - kCancel.size());
  const std::string id = named.path.substr(std::string_view(kBatchPrefix).size());
  const auto kept = kept_.Find(request.key_salt, id, NowMicros());
  if (kept == nullptr) return Find(named);
  if (!kept->batch->Cancel()) {
    return HttpErrorReply(409, "the batch has ended and cannot be cancelled");
  }
  return JsonReply(kept->batch->Json());
}

void Batches::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = std::find_if(queue_.begin(), queue_.end(), [this](const auto& batch) {
      return !owners_.contains(batch->like.key_salt);
    });
    if (next == queue_.end()) {
      changed_.wait(lock);
      continue;
    }
    const std::shared_ptr<Batch> batch = std::move(*next);
    queue_.erase(next);
    owners_.insert(batch->like.key_salt);
    lock.unlock();
    Run(batch.get());
    lock.lock();
    owners_.erase(batch->like.key_salt);
    changed_.notify_all();
  }
}

void Batches::Keep(const std::string& content, const char* suffix, Batch* batch, std::string* id) {
  if (content.empty()) return;
  StoredFile file{{}, StrCat(batch->id, suffix), "batch_output", content};
  if (KeepFile(batch->like.key_salt, &file, files_)) *id = file.id;
}

std::vector<Batches::LineError> Batches::ReadLines(const Batch& batch,
                                                   std::vector<BatchLine>* lines) const {
  const auto input = files_->Find(batch.like.key_salt, batch.input_id, NowMicros());
  if (input == nullptr) {
    return {{0, Status(StatusCode::kNotFound,
                       "the file was deleted, or too old, when the batch's turn came",
                       "input_file_id")}};
  }
  std::vector<LineError> errors;
  std::set<std::string> ids;
  ForEachLine(input->content, [&](int64_t number, std::string_view text) {
    Result<BatchLine> line = ReadBatchLine(text, batch.endpoint);
    Status status = line.status();
    if (line.ok() && !ids.insert(line->custom_id).second) {
      status = InvalidArgument(StrCat("custom_id is ", Quote(line->custom_id),
                                      ", as in an earlier line; each line needs one of its own"),
                               "custom_id");
    }
    if (!status.ok()) errors.push_back({number, status});
    if (status.ok()) lines->push_back(*std::move(line));
    if (lines->size() > kLinesMax) {
      errors.push_back({number, InvalidArgument(StrCat("the file has more lines than the limit of ",
                                                       kLinesMax, "; send the rest in another"))});
    }
    return errors.size() < kErrorsMax && lines->size() <= kLinesMax;
  });
  if (lines->empty() && errors.empty()) {
    errors.push_back({1, InvalidArgument("the file has no lines; send a request a line")});
  }
  return errors;
}

void Batches::Run(Batch* batch) {
  std::vector<BatchLine> lines;
  std::vector<LineError> errors = ReadLines(*batch, &lines);
  const bool valid = errors.empty();
  batch->Update([&](Batch::Progress& progress) {
    progress.errors = std::move(errors);
    progress.total = static_cast<int64_t>(lines.size());
    progress.begun = std::time(nullptr);
    if (valid && !batch->cancelled) progress.status = "in_progress";
  });
  if (!valid) return batch->End("failed");
  std::string answers, failures;
  const auto stop = [&] {
    std::lock_guard lock(mutex_);
    return stopping_ || batch->cancelled || std::time(nullptr) > batch->created + kWindowSeconds ||
           answers.size() + failures.size() > kAnswersBytesMax;
  };
  size_t next = 0;
  LineRunner(send_, batch->like)
      .Run(
          [&]() -> std::optional<BatchLine> {
            if (next == lines.size()) return std::nullopt;
            return std::move(lines[next++]);
          },
          [&](std::string answer, bool ok) {
            (ok ? answers : failures) += answer + "\n";
            batch->Update(
                [&](Batch::Progress& progress) { ++(ok ? progress.completed : progress.failed); });
          },
          stop);
  std::string output_id, error_id;
  Keep(answers, "_output.jsonl", batch, &output_id);
  Keep(failures, "_error.jsonl", batch, &error_id);
  bool whole = false;
  batch->Update([&](Batch::Progress& progress) {
    whole = progress.completed + progress.failed == progress.total;
    progress.finalizing = std::time(nullptr);
    progress.output_id = output_id;
    progress.error_id = error_id;
    if (answers.size() + failures.size() > kAnswersBytesMax) {
      progress.errors.push_back(
          {0, InvalidArgument(StrCat("the answers have more than the limit of ", kAnswersBytesMax,
                                     " bytes; send the rest in another batch"))});
    }
  });
  batch->End(whole                                                  ? "completed"
             : batch->cancelled                                     ? "cancelled"
             : std::time(nullptr) > batch->created + kWindowSeconds ? "expired"
                                                                    : "failed");
}

}  // namespace sluice::server
