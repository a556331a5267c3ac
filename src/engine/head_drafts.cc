#include "engine/head_drafts.h"

#include <algorithm>
#include <cmath>

namespace sluice::engine {
namespace {

// A head's drafts are all of one kind, that which is expected to be right four times of five until
// it is known better.
constexpr int32_t kGrade = 1;
// So many losses in a row, a draft at a time, and a sequence is given up.
constexpr int32_t kPatience = 8;
// Where drafts do not pay, an arrival tries them once in so many steps: the few steps in which it
// does cost a step of each other sequence, too, so it is their time that counts.
constexpr int32_t kProbe = 1024;
// Log-probs of guesses that are none are below this.
constexpr float kNoGuess = -1000.0F;

}  // namespace

HeadDrafts::HeadDrafts(const Options& options) : options_(options), seats_(options.slots) {}

int32_t HeadDrafts::ForArrival() {
  if (!options_.adapt) return options_.drafts;
  // A step that is to be without drafts, to measure it, says nothing of what they cost.
  if (rests_) return 0;
  if (std::isinf(costs_[0]) || of_all_.Choose(kGrade, options_.drafts, costs_) > 0)
    return options_.drafts;
  if (unprobed_ < kProbe) return 0;
  unprobed_ = 0;
  return options_.drafts;
}

int32_t HeadDrafts::ForFirst(bool rests) const {
  if (!options_.adapt) return options_.drafts;
  if (rests) return -1;
  const int32_t best = of_all_.Choose(kGrade, options_.drafts, costs_);
  return prompts_ ? best : std::max(best, 1);
}

// Below 0: it is given up.
int32_t HeadDrafts::NumberFor(Seat* seat, const Prospect& prospect) const {
  if (!options_.adapt) return options_.drafts;
  if (std::isinf(prospect.costs[0])) return 0;
  const int32_t best = seat->acceptance.Choose(kGrade, options_.drafts, prospect.costs);
  if (prospect.prompts && best == 0) return 0;
  seat->losses = best > 0 ? 0 : seat->losses + 1;
  if (best > 0) return best;
  return seat->losses < kPatience ? 1 : -1;
}

void HeadDrafts::Learn(const batch::StepResult& result, const schedule::SequenceOutcome& out,
                       Seat* seat) {
  if (!options_.trees)
    return seat->acceptance.Verified(kGrade, out.drafted, out.accepted, &of_all_);
  const auto tokens = std::span(result.tokens).subspan(out.token_begin, out.token_count);
  LearnTree(tokens, std::min(out.drafted, seat->tree.count), seat);
  seat->tree.count = 0;
}

// From the root on, as far as one of the drafts behind a token was what was drawn there.
void HeadDrafts::LearnTree(std::span<const batch::ResultToken> tokens, int32_t drafted,
                           Seat* seat) {
  int32_t at = 0, depths = 0, right = 0;
  for (const batch::ResultToken& token : tokens) {
    float expected = 0;
    int32_t next = 0;
    bool any = false;
    for (int32_t i = at; i < drafted; ++i) {
      if (seat->tree.parents[i] != at) continue;
      any = true;
      expected += seat->expected[i];
      if (seat->tree.tokens[i] == token.id) next = i + 1;
    }
    if (!any) break;
    ++depths;
    seat->trust.Observe(expected, next > 0);
    if (next == 0) break;
    ++right;
    at = next;
  }
  seat->acceptance.Verified(kGrade, depths, right, &of_all_);
}

void HeadDrafts::AttachTree(std::span<const batch::GuessedToken> guesses,
                            const speculate::DraftCosts* costs, schedule::Scheduler* scheduler,
                            Seat* seat) {
  std::array<speculate::GuessedNode, speculate::kGuessedNodesMax> nodes;
  const size_t count = std::min(guesses.size(), nodes.size());
  for (size_t i = 0; i < count; ++i) {
    // Where there is no such token its log-prob is far below any other.
    const float right = guesses[i].logprob > kNoGuess ? std::exp(guesses[i].logprob) : 0.0F;
    nodes[i] = {guesses[i].id, guesses[i].parent, seat->trust.Right(right)};
  }
  const speculate::DraftTree tree =
      speculate::ChooseNodes(std::span(nodes).first(count), costs, options_.drafts);
  ++totals_.lengths[tree.count];
  if (tree.count == 0) return;
  const auto drafts = static_cast<size_t>(tree.count);
  if (!scheduler->AttachDrafts(seat->id, std::span(tree.tokens).first(drafts), /*forced=*/false,
                               std::span(tree.parents).first(drafts)))
    return;
  seat->tree = tree;
  // By token and parent, in the order of the tree, to which nodes are fewer than a hundred.
  std::array<int32_t, 1 + limits::kDraftTokensMax> node_of = {};
  for (int32_t i = 0; i < tree.count; ++i) {
    for (size_t n = 0; n < count; ++n) {
      if (nodes[n].token != tree.tokens[i] || nodes[n].parent != node_of[tree.parents[i]]) continue;
      node_of[i + 1] = static_cast<int32_t>(n) + 1;
      seat->expected[i] = nodes[n].right;
      break;
    }
  }
}

void HeadDrafts::Choose(const batch::StepResult& result, const schedule::CommitOutcome& outcome,
                        const Prospect& prospect, schedule::Scheduler* scheduler) {
  const speculate::DraftCosts& costs = prospect.costs;
  rests_ = prospect.rests && options_.adapt;
  if (unprobed_ < kProbe) ++unprobed_;
  if (!std::isinf(costs[0])) costs_ = costs;
  prompts_ = prospect.prompts;
  auto entry = result.entries.begin();
  for (const schedule::SequenceOutcome& out : outcome.sequences) {
    const schedule::Sequence* const sequence = scheduler->Find(out.id);
    // Without a slot it was preempted by the plan in flight.
    if (sequence == nullptr || sequence->slot < 0 || sequence->spec.device_drafts == 0) continue;
    Seat& seat = seats_[sequence->slot];
    if (seat.id != out.id) {
      seat.id = out.id;
      seat.losses = 0;
      seat.tree.count = 0;
      seat.acceptance.Start(of_all_);
    }
    Learn(result, out, &seat);
    const int32_t number = rests_ ? -1 : NumberFor(&seat, prospect);
    if (!options_.trees) ++totals_.lengths[number > 0 ? number : 0];
    scheduler->LimitDrafts(out.id, number);
    if (!options_.trees || number <= 0) continue;
    // Both lists are in the order of the plan.
    entry = std::find_if(entry, result.entries.end(),
                         [&](const batch::ResultEntry& e) { return e.sequence == out.id; });
    if (entry == result.entries.end()) break;
    AttachTree(std::span(result.guesses).subspan(entry->guess_begin, entry->guess_count),
               options_.adapt ? &costs : nullptr, scheduler, &seat);
  }
}

}  // namespace sluice::engine
