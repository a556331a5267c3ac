#include "server/shared/models.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::server {
namespace {

// Of a model that is unloaded, how often what uses it is ended: a profile may not have begun yet.
constexpr int64_t kLookEveryUs = 50'000;

std::string FingerprintOf(const EngineInfo& info) {
  std::string text = StrCat("sluice-", SLUICE_VERSION, "-", info.quantization, "-", info.isa,
                            info.fake_balance_experts ? "-fake-balance-experts" : "");
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

// Ends what nobody waits for while its model is unloaded, a profile, which would hold the model;
// with `drain`, requests too.
void EndUses(Engine& engine, bool drain, const std::string& name) {
  const auto ended = engine.Admin(R"({"command":"profile_end"})");
  const Status status = ended.ok() && drain ? engine.Drain(0) : ended.status();
  if (!status.ok()) LogWarning("model: ", Quote(name), ": ", status.message());
}

Status ShuttingDown() {
  return Status(StatusCode::kUnavailable, "the server is shutting down; try another");
}

}  // namespace

Status NotServed(std::string_view asked, const std::string& served, std::string field) {
  return {StatusCode::kNotFound,
          StrCat("the model ", Quote(asked), " is not served here; this server has ", served),
          std::move(field)};
}

std::string_view WithoutTag(std::string_view asked) {
  constexpr std::string_view kTag = ":latest";
  return asked.ends_with(kTag) ? asked.substr(0, asked.size() - kTag.size()) : asked;
}

const char* Name(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded:
      return "unloaded";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kLoaded:
      return "loaded";
    case ModelState::kUnloading:
      return "unloading";
  }
  return "unknown";
}

// All but `source` is guarded by the mutex of the models.
struct Models::Entry {
  // An engine, and what it is served with.
  struct Loaded {
    Loaded(Engine& of, std::unique_ptr<Engine> owner, const std::string& name)
        : owned(std::move(owner)),
          served{of,
                 {name, of.Info().vocab_size, of.Info().labels, of.Info().ids_alone},
                 FingerprintOf(of.Info())} {}
    const std::unique_ptr<Engine> owned;  // null: it belongs to the caller
    const ServedModel served;
  };

  ModelToServe source;
  ModelState state = ModelState::kUnloaded;
  std::unique_ptr<Loaded> loaded;
  int64_t uses = 0;
  int64_t bytes = 0;  // that it has of the budget
  Status failure;     // of the last load
  EngineInfo info;    // of the last engine
  int64_t loaded_s = 0;
  std::optional<int64_t> keep_us;
  int64_t leaves_us = 0;  // NowMicros when it is unloaded; 0: it is used, or stays

  void Have(Engine& engine, std::unique_ptr<Engine> owner) {
    info = engine.Info();
    info.model_name = source.name;
    loaded = std::make_unique<Loaded>(engine, std::move(owner), source.name);
    loaded_s = std::time(nullptr);
    state = ModelState::kLoaded;
    failure = OkStatus();
  }
};

Models::Models(Engine& engine) : options_() {
  auto entry = std::make_shared<Entry>();
  entry->source.name = engine.Info().model_name;
  entry->Have(engine, nullptr);
  entries_.push_back(std::move(entry));
}

Models::Models(std::vector<ModelToServe> models, const Options& options) : options_(options) {
  CHECK(!models.empty());
  for (ModelToServe& model : models) {
    auto entry = std::make_shared<Entry>();
    entry->source = std::move(model);
    if (std::unique_ptr<Engine> engine = std::move(entry->source.loaded)) {
      Engine& there = *engine;
      entry->Have(there, std::move(engine));
      entry->bytes = entry->info.weight_bytes + entry->info.kv_bytes;
    }
    entries_.push_back(std::move(entry));
  }
  thread_ = std::thread([this] { Work(); });
}

Models::~Models() {
  Close();
  for (const auto& entry : entries_) {
    if (entry->loaded != nullptr && entry->loaded->owned != nullptr) entry->loaded.reset();
  }
}

void Models::Close() {
  {
    std::lock_guard lock(shared_->mutex);
    stopping_ = hurry_ = true;
    shared_->changed.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

const std::shared_ptr<Models::Entry>& Models::EntryOf(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry->source.name == name; });
  CHECK(found != entries_.end(), "there is no model ", name);
  return *found;
}

std::string Models::Listed() const {
  std::string text;
  for (const auto& entry : entries_) {
    text += StrCat(text.empty() ? "" : ", ", Quote(entry->source.name));
  }
  return text;
}

Result<std::string> Models::Resolve(std::string_view asked) const {
  if (asked.empty()) return entries_.front()->source.name;
  for (const std::string_view name : {asked, WithoutTag(asked)}) {
    for (const auto& entry : entries_) {
      if (entry->source.name == name) return entry->source.name;
    }
  }
  return NotServed(asked, Listed(), "model");
}

ModelUse Models::UseOf(const std::shared_ptr<Entry>& entry, bool look) const {
  return {&entry->loaded->served, [shared = shared_, entry, look](const ServedModel*) {
            std::lock_guard lock(shared->mutex);
            --entry->uses;
            if (!look && entry->keep_us) entry->leaves_us = NowMicros() + *entry->keep_us;
            const bool awaited = entry->keep_us || entry->state == ModelState::kUnloading;
            if (entry->uses == 0 && awaited) shared->changed.notify_all();
          }};
}

Result<ModelUse> Models::Find(const std::string& name) {
  const std::shared_ptr<Entry>& entry = EntryOf(name);
  Lock lock(shared_->mutex);
  if (entry->state != ModelState::kLoaded) {
    return Status(StatusCode::kUnavailable,
                  StrCat("the model ", Quote(name), " is ", Name(entry->state),
                         "; load it with POST /v1/models/NAME/load, or ask again later"),
                  "model");
  }
  ++entry->uses;
  lock.unlock();
  return UseOf(entry);
}

void Models::Await(const std::string& name, Then then) {
  Result<ModelUse> use = Find(name);
  if (use.ok() || !options_.autoload) return then(std::move(use));
  Load(name, std::move(then));
}

std::vector<ModelUse> Models::Loaded() const {
  std::vector<ModelUse> uses;
  for (const auto& entry : entries_) {
    Lock lock(shared_->mutex);
    if (entry->state != ModelState::kLoaded) continue;
    ++entry->uses;
    lock.unlock();
    uses.push_back(UseOf(entry, true));
  }
  return uses;
}

void Models::KeepFor(const std::string& name, std::optional<int64_t> us) {
  Entry& entry = *EntryOf(name);
  if (!entry.source.open) return;
  std::lock_guard lock(shared_->mutex);
  entry.keep_us = us;
  entry.leaves_us = 0;
}

std::vector<ModelReport> Models::Report() const {
  std::vector<ModelReport> reports;
  const int64_t now_us = NowMicros();
  for (const auto& entry : entries_) {
    Lock lock(shared_->mutex);
    ModelReport report{entry->source.name, entry->state,    entry->failure,
                       entry->info,        entry->loaded_s, -1};
    if (entry->keep_us) {
      report.leaves_in_s = (entry->leaves_us > 0 ? std::max<int64_t>(0, entry->leaves_us - now_us)
                                                 : *entry->keep_us) /
                           1'000'000;
    }
    const bool loaded = entry->state == ModelState::kLoaded;
    if (loaded) ++entry->uses;
    lock.unlock();
    // Without the lock, as a request that ends within the engine takes it.
    if (loaded) report.info = UseOf(entry, true)->engine.Info();
    report.info.model_name = entry->source.name;
    reports.push_back(std::move(report));
  }
  return reports;
}

void Models::Load(const std::string& name, Then then) {
  Result<ModelUse> use = Find(name);
  if (use.ok()) return then(std::move(use));
  Enqueue(EntryOf(name).get(), true, std::move(then));
}

void Models::Unload(const std::string& name, std::function<void(Status)> then) {
  Entry& entry = *EntryOf(name);
  if (!entry.source.open) {
    return then(Status(StatusCode::kFailedPrecondition,
                       StrCat("the model ", Quote(name), " stays until the server ends"), "model"));
  }
  Enqueue(&entry, false,
          [then = std::move(then)](const Result<ModelUse>& result) { then(result.status()); });
}

void Models::Enqueue(Entry* entry, bool load, Then then) {
  Status refusal;
  {
    std::lock_guard lock(shared_->mutex);
    if (stopping_) {
      refusal = ShuttingDown();
    } else if (jobs_.size() >= kJobsMax) {
      refusal = Status(StatusCode::kResourceExhausted,
                       StrCat(kJobsMax, " requests wait for models to be loaded; try again later"),
                       "model");
    } else {
      jobs_.push_back({entry, load, std::move(then)});
      shared_->changed.notify_all();
      return;
    }
  }
  then(refusal);
}

std::pair<int64_t, Models::Entry*> Models::FirstToLeave() const {
  std::pair<int64_t, Entry*> first = {0, nullptr};
  for (const auto& entry : entries_) {
    const bool leaves =
        entry->state == ModelState::kLoaded && entry->uses == 0 && entry->leaves_us > 0;
    if (leaves && (first.second == nullptr || entry->leaves_us < first.first)) {
      first = {entry->leaves_us, entry.get()};
    }
  }
  return first;
}

void Models::Work() {
  Lock lock(shared_->mutex);
  while (!stopping_) {
    if (!jobs_.empty()) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      RunJob(std::move(job), &lock);
      continue;
    }
    const auto [leaves_us, entry] = FirstToLeave();
    if (entry == nullptr) {
      shared_->changed.wait(lock);
    } else if (const int64_t left_us = leaves_us - NowMicros(); left_us > 0) {
      shared_->changed.wait_for(lock, std::chrono::microseconds(left_us));
    } else {
      LogInfo("model: ", Quote(entry->source.name), " leaves: nobody has asked for it");
      UnloadNow(entry, &lock);
    }
  }
  std::deque<Job> left = std::move(jobs_);
  jobs_.clear();
  lock.unlock();
  for (Job& job : left) {
    job.then(ShuttingDown());
  }
}

std::vector<Models::Job> Models::TakeLoadsOf(const Entry* entry) {
  std::vector<Job> taken;
  for (auto it = jobs_.begin(); it != jobs_.end() && !(it->entry == entry && !it->load);) {
    if (it->entry == entry) {
      taken.push_back(std::move(*it));
      it = jobs_.erase(it);
    } else {
      ++it;
    }
  }
  return taken;
}

void Models::RunJob(Job job, Lock* lock) {
  Entry* const entry = job.entry;
  if (!job.load) {
    if (entry->state == ModelState::kLoaded) UnloadNow(entry, lock);
    lock->unlock();
    job.then(ModelUse());
    lock->lock();
    return;
  }
  Status status;
  if (entry->state != ModelState::kLoaded) status = LoadNow(entry, lock);
  // Who asked for it meanwhile is not to wait for another try.
  std::vector<Job> told = TakeLoadsOf(entry);
  told.insert(told.begin(), std::move(job));
  if (status.ok()) entry->uses += static_cast<int64_t>(told.size());
  lock->unlock();
  for (Job& one : told) {
    one.then(status.ok() ? Result<ModelUse>(UseOf(EntryOf(entry->source.name)))
                         : Result<ModelUse>(status));
  }
  told.clear();
  lock->lock();
}

Status Models::CheckBudget(const Entry& entry) const {
  if (options_.budget_bytes == 0) return OkStatus();
  int64_t taken = 0;
  for (const auto& other : entries_) taken += other.get() == &entry ? 0 : other->bytes;
  const int64_t left = std::max<int64_t>(0, options_.budget_bytes - taken);
  if (entry.bytes <= left) return OkStatus();
  return Status(StatusCode::kOutOfMemory,
                StrCat("the model ", Quote(entry.source.name), " takes ", FormatBytes(entry.bytes),
                       ", but of --memory-budget ", FormatBytes(options_.budget_bytes), " only ",
                       FormatBytes(left), " are left; ",
                       entry.bytes > options_.budget_bytes
                           ? "lower --kv-memory, or raise the budget"
                           : "unload another model, lower --kv-memory, or raise the budget"),
                "memory-budget");
}

Status Models::LoadNow(Entry* entry, Lock* lock) {
  entry->state = ModelState::kLoading;
  const auto fail = [entry](const Status& status) {
    LogError("model: ", Quote(entry->source.name), " was not loaded: ", status.message());
    entry->state = ModelState::kUnloaded;
    entry->bytes = 0;
    entry->failure = status;
    return status;
  };
  if (options_.budget_bytes > 0 && entry->source.need) {
    lock->unlock();
    const Result<int64_t> need = entry->source.need();
    lock->lock();
    if (!need.ok()) return fail(need.status());
    entry->bytes = *need;
    if (Status status = CheckBudget(*entry); !status.ok()) return fail(status);
  }
  lock->unlock();
  Result<std::unique_ptr<Engine>> opened = entry->source.open();
  lock->lock();
  if (!opened.ok()) return fail(opened.status());
  std::unique_ptr<Engine> engine = *std::move(opened);
  Engine& there = *engine;
  entry->leaves_us = 0;
  entry->keep_us.reset();
  entry->Have(there, std::move(engine));
  return OkStatus();
}

void Models::UnloadNow(Entry* entry, Lock* lock) {
  entry->state = ModelState::kUnloading;
  const int64_t limit_us = NowMicros() + static_cast<int64_t>(options_.drain_seconds * 1e6);
  bool drained = false;
  while (entry->uses > 0) {
    const bool drain = !drained && (hurry_ || NowMicros() >= limit_us);
    lock->unlock();
    EndUses(entry->loaded->served.engine, drain, entry->source.name);
    lock->lock();
    drained |= drain;
    const int64_t left_us = std::max<int64_t>(0, limit_us - NowMicros());
    const int64_t look_us = drained ? kLookEveryUs : std::min(kLookEveryUs, left_us);
    shared_->changed.wait_for(*lock, std::chrono::microseconds(look_us),
                              [&] { return entry->uses == 0 || (hurry_ && !drained); });
  }
  std::unique_ptr<Entry::Loaded> loaded = std::move(entry->loaded);
  lock->unlock();
  loaded.reset();
  lock->lock();
  entry->bytes = 0;
  entry->leaves_us = 0;
  entry->state = ModelState::kUnloaded;
  LogInfo("model: ", Quote(entry->source.name), " is unloaded");
}

Status Models::LoadAtStart() {
  for (const auto& entry : entries_) {
    if (!entry->source.at_start) continue;
    std::promise<Status> told;
    Load(entry->source.name, [&](const Result<ModelUse>& use) { told.set_value(use.status()); });
    SLUICE_RETURN_IF_ERROR(told.get_future().get());
  }
  return OkStatus();
}

void Models::BeginStop() {
  std::lock_guard lock(shared_->mutex);
  stopping_ = true;
  shared_->changed.notify_all();
}

bool Models::stopping() const {
  std::lock_guard lock(shared_->mutex);
  return stopping_;
}

void Models::Drain(double seconds) {
  std::vector<ModelUse> uses = Loaded();
  BeginStop();
  std::vector<std::future<void>> drains;
  for (const ModelUse& use : uses) {
    drains.push_back(std::async(std::launch::async, [&use, seconds] {
      const Status status = use->engine.Drain(seconds);
      if (!status.ok()) LogWarning(status.message());
    }));
  }
  for (std::future<void>& drain : drains) drain.get();
}

void Models::CancelAll() {
  {
    std::lock_guard lock(shared_->mutex);
    hurry_ = true;
    shared_->changed.notify_all();
  }
  for (const ModelUse& use : Loaded()) {
    if (const Status status = use->engine.Drain(0); !status.ok()) LogWarning(status.message());
  }
}

void Models::CheckInvariants() const {
  std::lock_guard lock(shared_->mutex);
  int64_t bytes = 0;
  for (const auto& entry : entries_) {
    const bool has_engine = entry->loaded != nullptr;
    CHECK(entry->uses >= 0 && (entry->uses == 0 || has_engine));
    CHECK(entry->state != ModelState::kLoaded || has_engine);
    CHECK(entry->state != ModelState::kUnloaded || !has_engine);
    bytes += entry->bytes;
  }
  CHECK(options_.budget_bytes == 0 || bytes <= options_.budget_bytes);
  CHECK(jobs_.size() <= kJobsMax);
}

}  // namespace sluice::server
