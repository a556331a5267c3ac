#include "engine/update_batch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "sluice/limits.h"

namespace sluice::engine {
namespace {

template <class T>
void MoveBehind(std::vector<T>* from, std::vector<T>* to) {
  to->insert(to->end(), std::make_move_iterator(from->begin()),
             std::make_move_iterator(from->end()));
}

template <class T>
int32_t Size(const std::vector<T>& values) {
  return static_cast<int32_t>(values.size());
}

}  // namespace

int32_t UpdateBatch::Copy(std::span<const batch::ResultToken> from,
                          const batch::StepResult& result) {
  const int32_t begin = Size(tokens_);
  for (const batch::ResultToken& token : from) {
    tokens_.push_back(token);
    tokens_.back().top_begin = Size(top_);
    const auto first = result.top.begin() + token.top_begin;
    top_.insert(top_.end(), first, first + token.top_count);
    if (token.distribution < 0) continue;
    distribution_size_ = static_cast<size_t>(result.distribution_size);
    const auto row =
        result.distributions.begin() + int64_t{token.distribution} * result.distribution_size;
    tokens_.back().distribution = static_cast<int32_t>(distributions_.size() / distribution_size_);
    distributions_.insert(distributions_.end(), row, row + result.distribution_size);
  }
  return begin;
}

void UpdateBatch::Add(RequestState* request, const schedule::SequenceOutcome& outcome,
                      const batch::StepResult& result, int64_t now_us) {
  CHECK(outcome.token_count <= UINT16_MAX, outcome.token_count);
  if (updates_.size() == updates_.capacity()) Grow();
  ChoiceUpdate update{.request = request,
                      .now_us = now_us,
                      .token_begin = Size(ids_),
                      .token_count = static_cast<uint16_t>(outcome.token_count),
                      .choice = static_cast<uint8_t>(outcome.choice),
                      .finish = outcome.finish};
  const std::span<const batch::ResultToken> tokens(result.tokens.data() + outcome.token_begin,
                                                   static_cast<size_t>(outcome.token_count));
  bool has_logprobs = false;
  for (const batch::ResultToken& token : tokens) {
    ids_.push_back(token.id);
    has_logprobs |= token.top_count > 0 || token.distribution >= 0;
  }
  const bool first = outcome.drawn == outcome.token_count;
  if (first || has_logprobs || outcome.score_count > 0 || outcome.drafted > 0 ||
      update.finish != schedule::FinishReason::kNone) {
    UpdateDetails details{.admitted_us = outcome.admitted_us,
                          .cached_tokens = outcome.cached_tokens,
                          .drafted = outcome.drafted,
                          .accepted = outcome.accepted};
    if (outcome.beam) details.cumulative_logprob = outcome.logprob;
    if (has_logprobs) details.token_begin = Copy(tokens, result);
    details.score_count = outcome.score_count;
    details.score_begin =
        Copy({result.scores.data() + outcome.score_begin, static_cast<size_t>(outcome.score_count)},
             result);
    details.vector_begin = Size(vectors_);
    details.vector_size = outcome.vector_size;
    const auto vector = result.vectors.begin() + outcome.vector_begin;
    vectors_.insert(vectors_.end(), vector, vector + outcome.vector_size);
    update.details = Size(details_);
    details_.push_back(details);
  }
  updates_.push_back(update);
}

void UpdateBatch::AddDrafts(RequestState* request, int choice, std::span<const int32_t> drafts) {
  updates_.push_back({.request = request,
                      .token_begin = Size(ids_),
                      .token_count = static_cast<uint16_t>(drafts.size()),
                      .choice = static_cast<uint8_t>(choice),
                      .drafts = true});
  ids_.insert(ids_.end(), drafts.begin(), drafts.end());
}

void UpdateBatch::AddBeams(RequestState* request, std::span<const schedule::BeamMove> moves) {
  updates_.push_back({.request = request,
                      .token_begin = Size(ids_),
                      .token_count = static_cast<uint16_t>(3 * moves.size()),
                      .beams = true});
  for (const schedule::BeamMove& move : moves)
    ids_.insert(ids_.end(), {move.member, move.parent, move.token});
}

void UpdateBatch::Grow() {
  const size_t updates = std::max<size_t>(16, 2 * updates_.size());
  updates_.reserve(updates);
  details_.reserve(updates);
  ids_.reserve(updates * (1 + limits::kDraftTokensMax));
}

void UpdateBatch::AddEnd(ChoiceUpdate update, UpdateDetails details, const Status& error) {
  if (!error.ok()) {
    details.error = Size(errors_);
    errors_.push_back(error);
  }
  update.details = Size(details_);
  details_.push_back(details);
  updates_.push_back(update);
}

void UpdateBatch::Append(UpdateBatch* other) {
  if (empty()) {
    std::swap(*this, *other);
    return;
  }
  const int32_t ids = Size(ids_), details = Size(details_), tokens = Size(tokens_);
  const int32_t top = Size(top_), errors = Size(errors_), vectors = Size(vectors_);
  for (ChoiceUpdate& update : other->updates_) {
    update.token_begin += ids;
    if (update.details >= 0) update.details += details;
  }
  for (UpdateDetails& detail : other->details_) {
    detail.score_begin += tokens;
    detail.vector_begin += vectors;
    if (detail.token_begin >= 0) detail.token_begin += tokens;
    if (detail.error >= 0) detail.error += errors;
  }
  if (other->distribution_size_ > 0) distribution_size_ = other->distribution_size_;
  const int32_t rows = distribution_size_ == 0
                           ? 0
                           : static_cast<int32_t>(distributions_.size() / distribution_size_);
  for (batch::ResultToken& token : other->tokens_) {
    token.top_begin += top;
    if (token.distribution >= 0) token.distribution += rows;
  }
  MoveBehind(&other->updates_, &updates_);
  MoveBehind(&other->ids_, &ids_);
  MoveBehind(&other->details_, &details_);
  MoveBehind(&other->tokens_, &tokens_);
  MoveBehind(&other->top_, &top_);
  MoveBehind(&other->vectors_, &vectors_);
  MoveBehind(&other->distributions_, &distributions_);
  MoveBehind(&other->errors_, &errors_);
  MoveBehind(&other->retired_, &retired_);
  other->Clear();
}

void UpdateBatch::Clear() {
  updates_.clear();
  ids_.clear();
  details_.clear();
  tokens_.clear();
  top_.clear();
  vectors_.clear();
  distributions_.clear();
  errors_.clear();
  retired_.clear();
}

}  // namespace sluice::engine
