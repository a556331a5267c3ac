#include "schedule/beam_search.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sluice::schedule {

int32_t BeamOptions::width() const { return *std::max_element(widths.begin(), widths.end()); }

BeamSearch::BeamSearch(BeamOptions options, std::vector<int32_t> end_ids,
                       std::vector<int32_t> stop_ids, int32_t max_tokens)
    : options_(std::move(options)),
      end_ids_(std::move(end_ids)),
      stop_ids_(std::move(stop_ids)),
      max_tokens_(max_tokens) {
  for (const int32_t width : options_.widths) CHECK(width >= 1 && width <= kBeamsMax, width);
  CHECK(options_.answers >= 1 && options_.answers <= options_.width(), options_.answers);
  CHECK(max_tokens > 0, max_tokens);
  beams_.push_back({.node = -1});
  tops_.resize(options_.width());
  has_row_.resize(options_.width());
}

void BeamSearch::Take(int32_t beam, std::span<const batch::TokenLogprob> top) {
  CHECK(beam < static_cast<int32_t>(beams_.size()), "beam ", beam);
  rows_ += has_row_[beam] ? 0 : 1;
  has_row_[beam] = true;
  tops_[beam].assign(top.begin(), top.end());
}

void BeamSearch::ForgetRows() {
  for (auto& top : tops_) top.clear();
  has_row_.assign(has_row_.size(), false);
  rows_ = 0;
}

// Behind the last token nothing goes on, so as many answers are wanted as are kept.
int32_t BeamSearch::WidthOfStep() const {
  if (length_ + 1 == max_tokens_) return options_.width();
  const auto last = options_.widths.size() - 1;
  return options_.widths[std::min<size_t>(static_cast<size_t>(length_), last)];
}

double BeamSearch::Score(double logprob, int32_t length) const {
  return logprob / std::pow(static_cast<double>(length), options_.length_penalty);
}

// Continuations of all beams, the best first; of equal ones that of the better beam, then the
// better token.
void BeamSearch::Sort() {
  candidates_.clear();
  for (int32_t b = 0; b < static_cast<int32_t>(beams_.size()); ++b) {
    for (int32_t r = 0; r < static_cast<int32_t>(tops_[b].size()); ++r) {
      candidates_.push_back({beams_[b].logprob + tops_[b][r].logprob, b, r});
    }
  }
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const Candidate& x, const Candidate& y) { return x.logprob > y.logprob; });
}

int32_t BeamSearch::AddNode(const Candidate& candidate) {
  const std::vector<batch::TokenLogprob>& row = tops_[candidate.beam];
  const batch::TokenLogprob& chosen = row[candidate.rank];
  Node node{.parent = beams_[candidate.beam].node, .token = {.id = chosen.id}};
  if (options_.asked.top_logprobs >= 0) {
    node.token.logprob = chosen.logprob;
    node.token.rank = candidate.rank;
    node.token.top_begin = static_cast<int32_t>(top_.size());
    const auto shown =
        std::min<int64_t>(options_.asked.top_logprobs, static_cast<int64_t>(row.size()));
    top_.insert(top_.end(), row.begin(), row.begin() + shown);
    if (candidate.rank >= shown) top_.push_back(chosen);
    node.token.top_count = static_cast<int32_t>(top_.size()) - node.token.top_begin;
  }
  nodes_.push_back(node);
  return static_cast<int32_t>(nodes_.size()) - 1;
}

bool BeamSearch::Advance() {
  CHECK(ready(), rows_, " of ", beams_.size(), " rows");
  const int32_t width = WidthOfStep();
  ++length_;
  const bool last = length_ == max_tokens_;
  Sort();
  next_.clear();
  int32_t seen = 0;  // continuations so far, the best ones
  for (const Candidate& candidate : candidates_) {
    if (static_cast<int32_t>(next_.size()) == width || (last && seen == width)) break;
    const int32_t token = tops_[candidate.beam][candidate.rank].id;
    FinishReason end = EndOf(token, end_ids_, stop_ids_);
    if (end != FinishReason::kNone && !options_.asked.MayEnd(length_ - 1)) continue;
    if (end == FinishReason::kNone && last) end = FinishReason::kLength;
    const bool among_best = seen++ < width;
    if (end == FinishReason::kNone) {
      next_.push_back({candidate.beam, token, AddNode(candidate), candidate.logprob});
    } else if (among_best) {
      answers_.push_back(
          {Score(candidate.logprob, length_), candidate.logprob, AddNode(candidate), end});
    }
  }
  std::stable_sort(answers_.begin(), answers_.end(),
                   [](const Answer& x, const Answer& y) { return x.score > y.score; });
  answers_.resize(std::min<size_t>(answers_.size(), static_cast<size_t>(options_.width())));
  beams_.swap(next_);
  ForgetRows();
  return !last && !beams_.empty() && GoesOn();
}

bool BeamSearch::GoesOn() const {
  if (static_cast<int32_t>(answers_.size()) < options_.width()) return true;
  if (options_.stop == BeamOptions::Stop::kEarly) return false;
  const bool longest = options_.stop == BeamOptions::Stop::kNever && options_.length_penalty > 0.0;
  return Score(beams_[0].logprob, longest ? max_tokens_ : length_) > answers_.back().score;
}

int32_t BeamSearch::Tell(const Answer& answer, batch::StepResult* result) const {
  const auto begin = static_cast<int64_t>(result->tokens.size());
  for (int32_t at = answer.node; at >= 0; at = nodes_[at].parent) {
    batch::ResultToken token = nodes_[at].token;
    const auto first = top_.begin() + token.top_begin;
    token.top_begin = static_cast<int32_t>(result->top.size());
    result->top.insert(result->top.end(), first, first + token.top_count);
    result->tokens.push_back(token);
  }
  std::reverse(result->tokens.begin() + begin, result->tokens.end());
  return static_cast<int32_t>(static_cast<int64_t>(result->tokens.size()) - begin);
}

}  // namespace sluice::schedule
