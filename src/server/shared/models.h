// The models that a server answers with, by name: which of them are loaded, and who uses them.
// Loads and unloads are done one at a time, in the order in which they were asked for, on a thread
// of this. Thread-safe.
//
// Invariants: (1) a model is used by nobody unless it has an engine; (2) an engine ends when nobody
// uses it, and not on a thread of its own; (3) the bytes of the models that have an engine, or are
// being loaded, are at most the budget, and are known before a load begins; (4) whoever asked for a
// load or an unload is told once how it went.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/shared/api_call.h"
#include "sluice/server.h"

namespace sluice::server {

// What a model is served with. Constant.
struct ServedModel {
  Engine& engine;
  ModelFacts facts;
  std::string fingerprint;  // of answers, as OpenAI's system_fingerprint
};

// A use of a model: it stays loaded until the last copy has ended.
using ModelUse = std::shared_ptr<const ServedModel>;

enum class ModelState { kUnloaded, kLoading, kLoaded, kUnloading };

// For people and programs: "unloaded", "loading", "loaded", "unloading".
const char* Name(ModelState state);

// What is known of a model at one time.
struct ModelReport {
  std::string name;
  ModelState state = ModelState::kUnloaded;
  Status failure;           // of the last load
  EngineInfo info;          // as it was at last, where it was ever loaded; the name is always there
  int64_t loaded_s = 0;     // seconds since the epoch, when it was loaded at last; 0: never
  int64_t leaves_in_s = 0;  // until it is unloaded, if nobody asks for it; -1: it stays
};

// The error of a name that no model is served by. `served`: the names that one is, as a sentence
// has them; `field`: the request's, at fault.
Status NotServed(std::string_view asked, const std::string& served, std::string field);

// The name without Ollama's ":latest" at its end, which it puts behind a name without a tag.
std::string_view WithoutTag(std::string_view asked);

class Models {
 public:
  struct Options {
    int64_t budget_bytes = 0;   // 0: no budget
    bool autoload = true;       // Await loads a model
    double drain_seconds = 30;  // that requests get before their model is unloaded
  };
  using Then = std::function<void(Result<ModelUse>)>;

  // One model that is loaded and stays, whose engine outlives this.
  explicit Models(Engine& engine);
  // REQUIRES: there is one at least, and all names differ.
  Models(std::vector<ModelToServe> models, const Options& options);
  // As Close; then ends the engines, with what they still keep of requests.
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  // The name of the model that `asked` means: itself, or without Ollama's ":latest" at its end;
  // nothing means the first. kNotFound tells which there are.
  Result<std::string> Resolve(std::string_view asked) const;
  // The names as a sentence has them: "a", "b".
  std::string Listed() const;
  bool several() const { return entries_.size() > 1; }

  // The following take names that Resolve gives.

  // kUnavailable: it is not loaded.
  Result<ModelUse> Find(const std::string& name);
  // Gives the model to `then` when it is loaded: at once, or from the thread of this. kUnavailable:
  // it is not loaded, and requests load none; else as Load.
  void Await(const std::string& name, Then then);
  // Loads it if it is not loaded. kOutOfMemory: it is over the budget or does not fit on its
  // device, of which nothing else has been touched; kResourceExhausted: too many wait for loads.
  void Load(const std::string& name, Then then);
  // Unloads it. No new request gets it, those that use it have drain_seconds and are then
  // cancelled; ok where it is not loaded. kFailedPrecondition: it belongs to the caller.
  void Unload(const std::string& name, std::function<void(Status)> then);
  // Unloads it when nobody has used it for so long, from the end of the next use on; nothing:
  // never.
  void KeepFor(const std::string& name, std::optional<int64_t> us);

  // In the order in which they were given.
  std::vector<ModelReport> Report() const;
  // Those that are loaded, for a look at them, which is no use in the sense of KeepFor.
  std::vector<ModelUse> Loaded() const;

  // Loads those that are to be loaded from the start; the first error ends it.
  Status LoadAtStart();
  // From here on no model is loaded, and the server is not ready for more requests.
  void BeginStop();
  bool stopping() const;
  // BeginStop, and no request is taken; waits so long for those that run.
  void Drain(double seconds);
  // Cancels all that run.
  void CancelAll();
  // Waits for a load that is under way; from here on nobody is told anything any more. One thread.
  void Close();

  // Ends the program if an invariant does not hold. For tests.
  void CheckInvariants() const;

 private:
  struct Entry;
  // What uses keep, as they may end behind this where the engine is another's.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
  };
  struct Job {
    Entry* entry;
    bool load;
    Then then;  // an unload that went well gives it no model
  };
  using Lock = std::unique_lock<std::mutex>;
  static constexpr size_t kJobsMax = 1024;

  const std::shared_ptr<Entry>& EntryOf(const std::string& name) const;
  // REQUIRES: its uses were raised for this one. `look`: as Loaded has it.
  ModelUse UseOf(const std::shared_ptr<Entry>& entry, bool look = false) const;
  void Enqueue(Entry* entry, bool load, Then then);
  void Work();
  // Those that take a lock give it up while they work. REQUIRES: it is held.
  void RunJob(Job job, Lock* lock);
  Status LoadNow(Entry* entry, Lock* lock);
  void UnloadNow(Entry* entry, Lock* lock);
  // REQUIRES of the rest: the mutex is held.
  Status CheckBudget(const Entry& entry) const;
  // The first that is to be unloaded because nobody asks for it, and when; null: none.
  std::pair<int64_t, Entry*> FirstToLeave() const;
  // The loads of `entry` that wait before its next unload.
  std::vector<Job> TakeLoadsOf(const Entry* entry);

  const Options options_;
  std::vector<std::shared_ptr<Entry>> entries_;  // the list is constant; the first is the default
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();

  // Guarded by the mutex of shared_, as are the entries.
  std::deque<Job> jobs_;
  bool hurry_ = false;     // what runs has been cancelled
  bool stopping_ = false;  // no more loads

  std::thread thread_;  // none where no model can be loaded; ended by Close
};

}  // namespace sluice::server
