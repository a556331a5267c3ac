// How many drafts of a sequence are worth verifying: as many as make the expected tokens a second
// the most, by how often drafts like them were right and by what a step costs with them. None,
// where every number is a loss. For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sluice/limits.h"

namespace sluice::speculate {

// By the number of drafts less 1: the time of a step that verifies so many of each sequence, less
// that of one without drafts, in terms of the latter.
using DraftCosts = std::array<float, limits::kDraftTokensMax>;

// Drafts differ in how much speaks for them, as for how long a run was found again. Grades are told
// apart by their proposer, which gives the better ones the larger number.
inline constexpr int32_t kDraftGrades = 4;

// Expected gains below this are within what the estimates miss.
inline constexpr float kDraftGainMin = 1.03F;

// How often the drafts of one sequence were right. It looks at what is drawn in their places,
// verified or not, so it learns where no draft is verified, too.
class Acceptance {
 public:
  // Begins another sequence, of which it expects what `others` show.
  void Start(const Acceptance& others);
  // What was proposed behind the first `at` tokens. Left out while an earlier draft's tokens are
  // still to come. `asides`: by place, what may come instead, or -1; may be empty.
  void Propose(int32_t at, int32_t grade, std::span<const int32_t> drafts,
               std::span<const int32_t> asides = {});
  // Compares what was proposed with what was drawn, and tells `others` too. `tokens`: all so far.
  void Observe(std::span<const int32_t> tokens, Acceptance* others);

  // `drafted` drafts of this grade were verified, of which the first `right` were right. Of those
  // that are not known otherwise; tells `others` too.
  void Verified(int32_t grade, int32_t drafted, int32_t right, Acceptance* others);

  // How often a draft at this place was right where those before it were; and where something might
  // come instead, how often the draft was, and how often that was.
  float Right(int32_t grade, int32_t place) const { return right_[grade][place]; }
  float ContestedRight() const { return contested_right_; }
  float AsideRight() const { return aside_right_; }

  // The number of drafts, of `count` of this grade, that pays most.
  int32_t Choose(int32_t grade, int32_t count, const DraftCosts& costs) const;

 private:
  using Row = std::array<float, limits::kDraftTokensMax>;
  void LearnContested(bool right, bool aside, float rate);
  void Learn(int32_t grade, int32_t place, bool right, float rate);
  // One draft of any sequence. What a program begins with counts as a few of them.
  void LearnOfAll(int32_t grade, int32_t place, bool right);

  // By grade and place: the share that was right of those whose predecessors were. The first
  // sequence of a program begins with these, which let it try.
  std::array<Row, kDraftGrades> right_ = {
      Row{.6, .6, .6, .6, .6, .6, .6, .6}, Row{.8, .8, .8, .8, .8, .8, .8, .8},
      Row{.9, .9, .9, .9, .9, .9, .9, .9}, Row{.95, .95, .95, .95, .95, .95, .95, .95}};
  // Of drafts instead of which something else might come, and of these others. The first sequence
  // begins with what drafts of suffix showed in answers of the demo model.
  float contested_right_ = .3F, aside_right_ = .2F;
  // Drafts that LearnOfAll has told of, up to a number from which on each counts as much.
  std::array<std::array<uint8_t, limits::kDraftTokensMax>, kDraftGrades> told_ = {};
  // The draft that is looked at.
  std::array<int32_t, limits::kDraftTokensMax> drafts_, asides_;
  int32_t at_ = 0, grade_ = 0, count_ = 0, seen_ = 0;
};

}  // namespace sluice::speculate
