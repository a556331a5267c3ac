// UpdateBatch: what a step, or an end outside of one, means for the choices of one text worker.
// Flat: the step thread fills it, hands it over whole and gets empty buffers back, so that a step
// allocates nothing. For one thread at a time. Requests are named by plain pointers: whoever posts
// batches keeps a request alive until it has posted it as retired, and no update after that names
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "batch/result.h"
#include "schedule/scheduler.h"
#include "sluice/status.h"

namespace sluice::engine {

struct RequestState;

// The common case, one drawn token, is 32 bytes and an id: every update moves from one core's cache
// to another's. The rest stands in UpdateDetails.
struct ChoiceUpdate {
  RequestState* request = nullptr;
  int64_t now_us = 0;
  int32_t token_begin = 0;  // in the batch's ids
  int32_t details = -1;     // in the batch's details; -1: none
  uint16_t token_count = 0;
  uint8_t choice = 0;
  schedule::FinishReason finish = schedule::FinishReason::kNone;
  bool drafts = false;  // its ids were not drawn: masks are wanted for them
  bool logits = false;  // it has no ids: logits were lent to the choice's processor
  // Its ids are the moves of the request's beams, each as its member, its parent and its token
  // (schedule::BeamMove): masks are wanted behind them.
  bool beams = false;

  // It is nothing that the client is told of.
  bool inner() const { return drafts || logits || beams; }
};
static_assert(sizeof(ChoiceUpdate) == 32);

struct UpdateDetails {
  int64_t admitted_us = 0;  // 0: unknown
  int32_t cached_tokens = 0;
  int32_t drafted = 0, accepted = 0;  // in this update: drafts verified, and its tokens among them
  int32_t token_begin = -1;  // the update's drawn tokens in the batch's tokens; -1: no log-probs
  int32_t score_begin = 0, score_count = 0;   // in the batch's tokens
  int32_t vector_begin = 0, vector_size = 0;  // in the batch's vectors
  int32_t error = -1;                         // in the batch's errors; -1: none
  std::optional<double> cumulative_logprob;   // of an answer of a beam search
};

class UpdateBatch {
 public:
  // Adds what a step gave for a choice of `request`; ids, log-probs and scores are copied from
  // `result`.
  void Add(RequestState* request, const schedule::SequenceOutcome& outcome,
           const batch::StepResult& result, int64_t now_us);
  // Asks for the masks behind each of `drafts`, of a constrained choice.
  void AddDrafts(RequestState* request, int choice, std::span<const int32_t> drafts);
  // Tells a search what its beams have become. REQUIRES: the moves are all of one.
  void AddBeams(RequestState* request, std::span<const schedule::BeamMove> moves);
  // Tells a choice that its logits were lent to it.
  void AddLogits(RequestState* request, int choice) {
    updates_.push_back(
        {.request = request, .choice = static_cast<uint8_t>(choice), .logits = true});
  }
  // Adds an update without tokens; an `error` that is not ok is kept.
  void AddEnd(ChoiceUpdate update, UpdateDetails details, const Status& error);
  void Retire(std::shared_ptr<RequestState> request) { retired_.push_back(std::move(request)); }
  // Moves all of `other` behind what is here. `other` is left empty, with buffers.
  void Append(UpdateBatch* other);
  // Lets go of the retired requests; the buffers stay.
  void Clear();

  bool empty() const { return updates_.empty() && retired_.empty(); }
  const std::vector<ChoiceUpdate>& updates() const { return updates_; }
  // Ids, tokens and log-probs in all.
  size_t items() const {
    return ids_.size() + tokens_.size() + top_.size() + distributions_.size();
  }

  std::span<const int32_t> IdsOf(const ChoiceUpdate& update) const {
    return {ids_.data() + update.token_begin, update.token_count};
  }
  // Null when it has none.
  const UpdateDetails* DetailsOf(const ChoiceUpdate& update) const {
    return update.details < 0 ? nullptr : &details_[update.details];
  }
  // The drawn tokens with their log-probs; empty when none were computed.
  std::span<const batch::ResultToken> TokensOf(const ChoiceUpdate& update) const {
    const UpdateDetails* details = DetailsOf(update);
    if (details == nullptr || details->token_begin < 0) return {};
    return {tokens_.data() + details->token_begin, update.token_count};
  }
  std::span<const batch::ResultToken> ScoresOf(const UpdateDetails& details) const {
    return {tokens_.data() + details.score_begin, static_cast<size_t>(details.score_count)};
  }
  std::span<const batch::TokenLogprob> TopOf(const batch::ResultToken& token) const {
    return {top_.data() + token.top_begin, static_cast<size_t>(token.top_count)};
  }
  // Its whole distribution; empty if it was not asked for.
  std::span<const float> DistributionOf(const batch::ResultToken& token) const {
    if (token.distribution < 0) return {};
    return std::span(distributions_)
        .subspan(distribution_size_ * static_cast<size_t>(token.distribution), distribution_size_);
  }
  // What the model made of the prompt; empty where it generates.
  std::span<const float> VectorOf(const ChoiceUpdate& update) const {
    const UpdateDetails* details = DetailsOf(update);
    if (details == nullptr) return {};
    return {vectors_.data() + details->vector_begin, static_cast<size_t>(details->vector_size)};
  }
  // Null when the update has none.
  const Status* ErrorOf(const ChoiceUpdate& update) const {
    const UpdateDetails* details = DetailsOf(update);
    return details == nullptr || details->error < 0 ? nullptr : &errors_[details->error];
  }

 private:
  // Copies tokens of `result` with their log-probs and gives where they begin.
  int32_t Copy(std::span<const batch::ResultToken> from, const batch::StepResult& result);

  // Makes room for more updates, each with details and as many tokens as a step with drafts gives:
  // which steps have how many of them is a matter of chance, and none is to ask for memory late.
  void Grow();

  std::vector<ChoiceUpdate> updates_;
  std::vector<int32_t> ids_;
  std::vector<UpdateDetails> details_;
  std::vector<batch::ResultToken> tokens_;
  std::vector<batch::TokenLogprob> top_;  // what tokens point into
  std::vector<float> vectors_;
  size_t distribution_size_ = 0;      // the vocabulary, where there are distributions
  std::vector<float> distributions_;  // likewise, [rows, distribution_size_]
  std::vector<Status> errors_;
  std::vector<std::shared_ptr<RequestState>> retired_;
};

}  // namespace sluice::engine
