// TextWorkers: threads that turn prompts into sequences and drawn tokens into events, off the step
// thread. A request stays with one worker, so its events come in order. Start is thread-safe, Post
// is for the step thread; sinks are called on the worker.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/metrics.h"
#include "engine/request_state.h"
#include "engine/text_model.h"
#include "engine/turn_queue.h"
#include "engine/update_batch.h"

namespace sluice::engine {

// What the workers need to know of the engine, and how they answer it. The functions are called on
// workers and must not block.
struct TextContext {
  const TextModelImpl* text = nullptr;
  Metrics* metrics = nullptr;
  files::GenerationDefaults defaults;
  std::vector<int32_t> end_ids;  // end of generation
  DType kv_dtype = DType::kF16;  // part of the prefix key
  bool prefix_cache = true;
  bool whole_prompts = false;  // SequenceSpec::whole_prompt
  int token_types = 0;         // of the model
  bool normalize = false;      // vectors get length 1
  bool drafts = false;         // are verified, so what clients predict is of use
  const text::OutputFormat* output = nullptr;
  // Of requests whose answers are held to something.
  const Constraints* constraints = nullptr;
  MaskBoard* masks = nullptr;
  int max_model_len = 0;
  int longest_sequence = 0;        // that the KV cache holds
  std::vector<int> longest_beams;  // the same of each beam of a search with 1, 2, ... of them
  int device_drafts = 0;           // SequenceSpec::device_drafts
  int forced_drafts = 0;           // of what an answer is held to, found ahead, at most
  // Hands the sequences of a tokenized request to the step thread; false when that has stopped.
  std::function<bool(std::shared_ptr<RequestState>, std::vector<schedule::SequenceSpec>)> add;
  // From now on there are masks for the choice.
  std::function<void(RequestId, int choice)> mask;
  // A stop string ended the choice.
  std::function<void(RequestId, int choice)> stop;
  // The last event of the request was delivered.
  std::function<void(RequestId)> ended;
};

class TextWorkers {
 public:
  TextWorkers(int threads, TextContext context);
  ~TextWorkers();  // Stop
  TextWorkers(const TextWorkers&) = delete;
  TextWorkers& operator=(const TextWorkers&) = delete;

  // Tokenizes the prompt and goes on from there.
  void Start(std::shared_ptr<RequestState> request);
  // Holds the request's answers to ending their thinking, where nothing holds them yet. Any thread.
  // REQUIRES: its end_thinking is set.
  void EndThinking(std::shared_ptr<RequestState> request);
  size_t size() const { return workers_.size(); }
  int forced_drafts() const { return context_.forced_drafts; }
  // The worker of a request, below size().
  size_t IndexOf(RequestId id) const { return id % workers_.size(); }
  // Delivers one batch per worker, all of one step, and leaves empty buffers in their places. Waits
  // while a worker is far behind (kUpdatesMax, kItemsMax).
  void Post(std::span<UpdateBatch> batches);
  // Finishes what is queued and ends the threads.
  void Stop();
  // Of the worker that has been at one piece of work for longest, in milliseconds at `now_us`
  // (NowMicros); 0 where none has anything to do. Any thread; waits for nothing.
  int64_t StuckMs(int64_t now_us) const { return LongestMs(&Worker::since_us, now_us); }
  // Of the worker that has taken no request for longest although some wait; else as StuckMs.
  int64_t UntakenMs(int64_t now_us) const { return LongestMs(&Worker::untaken_since_us, now_us); }

 private:
  // Of a worker's backlog, beyond which the step thread waits.
  static constexpr size_t kUpdatesMax = 65536;
  static constexpr size_t kItemsMax = 1 << 20;  // tokens, scores and log-probs

  struct Worker {
    bool idle() const { return updates.empty() && starts.empty() && ending.empty(); }
    bool Behind() const {
      return updates.updates().size() >= kUpdatesMax || updates.items() >= kItemsMax;
    }

    std::mutex mutex;
    std::condition_variable ready, drained;
    TurnQueue starts;                                   // guarded by mutex
    UpdateBatch updates;                                // guarded by mutex
    std::vector<std::shared_ptr<RequestState>> ending;  // their thinking; guarded by mutex
    bool stopping = false;                              // guarded by mutex
    // When its present piece of work began, or when it was woken for one; 0: it has nothing to do.
    // Set by the worker, and under the mutex by whoever wakes it.
    std::atomic<int64_t> since_us = 0;
    // When it last took a request, or was given one while none waited; 0: none waits. Set under the
    // mutex.
    std::atomic<int64_t> untaken_since_us = 0;
    std::vector<uint32_t> mask_words;  // worker only
    std::vector<int32_t> forced;       // the same
    std::thread thread;
  };

  // How long ago the earliest of these times was, in milliseconds; those that are 0 don't count.
  int64_t LongestMs(std::atomic<int64_t> Worker::*since_us, int64_t now_us) const;
  void Run(Worker* worker);
  // There is something for the worker to do. REQUIRES: its mutex is held.
  static void Wake(Worker* worker);
  // Runs one piece of a request's work; a request for which memory runs out ends, the others go on.
  template <class Work>
  void Guard(Worker* worker, RequestState* request, Work&& work);
  // Ends a request that fails here.
  void Abandon(RequestState* request, const Status& why);
  void Ended(RequestState* request);
  void Begin(const std::shared_ptr<RequestState>& request);
  void EndUnstarted(const std::shared_ptr<RequestState>& request, const Status& status);
  Result<std::vector<schedule::SequenceSpec>> MakeSequences(RequestState* request) const;
  // Masks and drafts of a sequence, by what steers the answer. REQUIRES: its sampling is set.
  void SetSteering(const RequestState& state, schedule::SequenceSpec* spec) const;
  // What the answer may quote, behind the prompt's end, so that it is found from the first token
  // on. Null: nothing.
  Result<std::shared_ptr<const std::vector<int32_t>>> Quoted(std::span<const int32_t> prompt_tail,
                                                             const RequestState& state) const;
  // What the parsers of its choices need, while its prompt is there; then these parsers.
  Status PrepareParsing(RequestState* state) const;
  void MakeParsers(RequestState* state) const;
  Status Constrain(std::span<const int32_t> prompt_tail, RequestState* state) const;
  // One per choice, or one for all beams of a search; none: the answers are free.
  Result<std::vector<std::unique_ptr<text::AnswerWalk>>> MakeWalks(
      std::span<const int32_t> prompt_tail, RequestState* state) const;
  // Whether the thinking of its free answers may be ended by masks.
  bool MayHoldThinking(const RequestState& state) const;
  void HoldThinking(RequestState* state) const;
  // Keeps the text that the answer goes on with, while its prompt is there.
  void NoteBegun(RequestState* state) const;
  // The prompt's end in text, where the tag of the thinking may stand, before what is begun.
  std::string PromptEnd(const RequestState& state) const;
  // Whether the answer begins within the thinking, by what its prompt has opened or begun.
  bool OpensThinking(const RequestState& state) const;
  // Of what is begun, the part behind the thinking. REQUIRES: the answer begins behind that.
  std::string_view BegunAnswer(const RequestState& state) const;
  // Leads walks along that part. kInvalidArgument: it does not fit.
  Status PassBegun(const RequestState& state,
                   std::vector<std::unique_ptr<text::AnswerWalk>>* walks) const;
  // Makes the mask of the token that comes next, and of those behind drafts.
  void AdvanceMask(const UpdateBatch& batch, const ChoiceUpdate& update, Worker* worker) const;
  // Makes those of the beams of a search. `moves`: ChoiceUpdate::beams.
  void AdvanceBeams(std::span<const int32_t> moves, RequestState* state, Worker* worker) const;
  // Keeps what was drawn for the request's processor of logits, or lets that see those lent to it.
  void AdvanceLogits(const UpdateBatch& batch, const ChoiceUpdate& update);
  void Apply(const UpdateBatch& batch, const ChoiceUpdate& update);
  void TakeScores(const UpdateBatch& batch, const UpdateDetails& details,
                  RequestState* request) const;
  void TakeTokens(const UpdateBatch& batch, const ChoiceUpdate& update, ChoiceState* choice,
                  TextDelta* delta) const;
  void FinishChoice(const UpdateBatch& batch, const ChoiceUpdate& update, ChoiceState* choice,
                    TextDelta* delta);
  // What the client gets of the vector that the model gave.
  std::vector<float> EmbeddingOf(std::span<const float> vector, const Request& request) const;
  void EndRequest(RequestState* request, TextDelta* delta, int64_t now_us) const;
  TokenInfo InfoOf(const UpdateBatch& batch, const batch::ResultToken& token) const;

  const TextContext context_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace sluice::engine
