// BeamSearch: which of several continuations of one prompt go on, and which answers are best. It
// sees log-probs alone, knows neither sequences nor blocks, and equal rows give equal answers. Step
// thread only.
//
// The search is that of transformers' generate(num_beams=W, do_sample=False)
// (generation/utils.py, _beam_search): of all continuations of all beams by one token those with
// the largest sums of log-probs are looked at. The W best that do not end go on; of the W best,
// those that end are answers. An answer's score is its sum over its length in tokens to the power
// of length_penalty, and the best answers are kept, as many as there are beams at most.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "batch/result.h"
#include "schedule/sequence.h"

namespace sluice::schedule {

inline constexpr int32_t kBeamsMax = 8;

struct BeamOptions {
  // kEarly: as many answers have ended as there are beams at most. kLikely: the best beam's score,
  // as if it ended here, is no better than the worst of these. kNever: nor is the best score that
  // it could have at any length.
  enum class Stop : uint8_t { kEarly, kLikely, kNever };

  std::vector<int32_t> widths = {1};  // behind each token, 1..kBeamsMax; the last one goes on
  double length_penalty = 1.0;
  Stop stop = Stop::kLikely;
  int32_t answers = 1;  // that are given, best first; at most width()
  // What was asked for, of which a search minds when an answer may end and its log-probs.
  batch::SamplingParams asked;

  int32_t width() const;  // the most beams
  // Likeliest tokens of a row that the search may have to see, of `ends` ids that end an answer.
  int32_t candidates(int32_t ends) const { return width() + ends; }
};

class BeamSearch {
 public:
  struct Beam {
    int32_t parent = 0;  // which of the beams before it continues
    int32_t token = 0;
    int32_t node = 0;
    double logprob = 0.0;  // the sum of its tokens'
  };
  struct Answer {
    double score = 0.0, logprob = 0.0;
    int32_t node = 0;
    FinishReason finish = FinishReason::kNone;
  };

  // Ids of `end_ids` end an answer with kEnd, those of `stop_ids` with kStop, and the last of
  // `max_tokens` with kLength.
  BeamSearch(BeamOptions options, std::vector<int32_t> end_ids, std::vector<int32_t> stop_ids,
             int32_t max_tokens);

  const BeamOptions& options() const { return options_; }
  // Best first; before the first Advance there is one without tokens.
  const std::vector<Beam>& beams() const { return beams_; }
  // The likeliest tokens that may stand behind a beam, best first, by the log-softmax of its
  // logits: as many as BeamOptions::candidates says, or all that there are. None, and the beam goes
  // no further. Given again, it is the same.
  void Take(int32_t beam, std::span<const batch::TokenLogprob> top);
  void ForgetRows();
  // Every beam has its row.
  bool ready() const { return rows_ == static_cast<int32_t>(beams_.size()); }
  // Chooses the next beams. False: the search is over, and the beams mean nothing more.
  // REQUIRES: ready().
  bool Advance();

  // Best first. Once the search is over these are at least options().answers, or all that there
  // can be where beams had too few tokens to go on with.
  const std::vector<Answer>& answers() const { return answers_; }
  // Appends the tokens of an answer to result->tokens, with log-probs if those were asked for.
  // Returns how many.
  int32_t Tell(const Answer& answer, batch::StepResult* result) const;

 private:
  // A token of a beam or an answer, behind those of its parents.
  struct Node {
    int32_t parent = -1;
    batch::ResultToken token;  // its log-probs are in top_
  };
  struct Candidate {
    double logprob;
    int32_t beam, rank;  // its place in the beam's row
  };

  int32_t WidthOfStep() const;
  void Sort();
  int32_t AddNode(const Candidate& candidate);
  double Score(double logprob, int32_t length) const;
  // Whether a beam may become an answer better than those that are there.
  bool GoesOn() const;

  const BeamOptions options_;
  const std::vector<int32_t> end_ids_, stop_ids_;
  const int32_t max_tokens_;
  int32_t length_ = 0;  // of the beams, in tokens
  std::vector<Beam> beams_, next_;
  std::vector<std::vector<batch::TokenLogprob>> tops_;  // of each beam
  std::vector<bool> has_row_;                           // likewise
  int32_t rows_ = 0;                                    // of these
  std::vector<Candidate> candidates_;
  std::vector<Answer> answers_;
  std::vector<Node> nodes_;
  std::vector<batch::TokenLogprob> top_;  // of the nodes
};

// A search and the sequences that compute it. They are admitted and preempted together, since none
// goes on without the others.
struct BeamGroup {
  BeamSearch search;
  // As many as there are beams at most. The first one waits for admission in the name of all; those
  // that are no beam have no tokens.
  std::vector<Sequence*> members;
  std::vector<Sequence*> beams;  // of these, in the order of search.beams()
  std::vector<Sequence*> stuck;  // of these, the ones that nothing may follow
};

}  // namespace sluice::schedule
