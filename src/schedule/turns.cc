// Scheduler: which clients sit out a step under a policy that shares by client.
//
// Tokens say who had most, but not who is held up: a client with one sequence has a token of each
// step, and where a step of all sequences takes ten times as long as its own would, it answers ten
// times as slowly as alone. So each client is due what it would get with its share of the device to
// itself: of every microsecond its share, and a step counts for it as long as it would have taken
// for the client's tokens alone. Who is ahead of that sits out while another is behind. Where steps
// of many cost little more than those of few, nobody is ever behind and all step together.
#include <algorithm>
#include <utility>

#include "schedule/scheduler.h"

namespace sluice::schedule {
namespace {

// What a client may be ahead or behind, in steps as long as the longest of late: more is neither
// owed nor saved up.
constexpr double kBalanceStepsMax = 2.0;
// The share of who had fewest tokens is so much larger, so that it has room for what is no step of
// its own: the one that was in flight when its request came, and the way to the client.
constexpr double kLeastServedBonus = 1.25;
// Tokens of a step beside those of sequences that decode, at least.
constexpr int32_t kPromptTokensMin = 32;

}  // namespace

// Who has something to compute or waits to be admitted.
void Scheduler::FindContenders() {
  contenders_.clear();
  whole_prompts_ = false;
  const auto add = [this](const RankList& sequences) {
    for (const Sequence* sequence : sequences.items()) {
      FairShare::Client* const client = sequence->client;
      whole_prompts_ |= sequence->spec.whole_prompt;
      if (sequence->state == SequenceState::kAwaitingKv || client->contends) continue;
      client->contends = true;
      client->step_tokens = 0;
      contenders_.push_back(client);
    }
  };
  add(running_);
  add(waiting_);
  for (FairShare::Client* client : contenders_) client->contends = false;
}

void Scheduler::Took(int64_t step_us) {
  if (!policy_->SharesByClient()) return;
  int32_t tokens = 0;
  for (const StepPart& part : committed_parts_) tokens += part.tokens;
  if (tokens == 0 || step_us <= 0) return;
  const auto took = static_cast<double>(step_us);
  step_times_.Observe(tokens, took);
  fair_share_.Pass(took);
  FindContenders();
  if (contenders_.size() == 1) return fair_share_.StepOfOne(took, contenders_[0]);
  if (contenders_.empty()) return;
  fair_share_.NoteContention();
  double weights = 0.0;
  const FairShare::Client* const least = LeastServed();
  const auto weight = [least](const FairShare::Client* client) {
    return client == least ? kLeastServedBonus * client->weight : client->weight;
  };
  for (const FairShare::Client* client : contenders_) weights += weight(client);
  for (const StepPart& part : committed_parts_) {
    if (FairShare::Client* client = fair_share_.Find(part.client))
      client->step_tokens += part.tokens;
  }
  const double most = kBalanceStepsMax * step_times_.longest();
  for (FairShare::Client* client : contenders_) {
    const int32_t own = client->step_tokens;
    const double alone = own == 0 || own == tokens ? took : std::min(took, step_times_.Of(own));
    client->behind_us += took * weight(client) / weights - (own == 0 ? 0.0 : alone);
    client->behind_us = std::clamp(client->behind_us, -most, most);
  }
}

FairShare::Client* Scheduler::LeastServed() const {
  return *std::min_element(contenders_.begin(), contenders_.end(),
                           [](const auto* a, const auto* b) { return a->served < b->served; });
}

// Returns how many tokens the step may have.
int32_t Scheduler::ChooseTurns() {
  some_sit_out_ = false;
  const int32_t most = options_.max_batch_tokens;
  if (!policy_->SharesByClient()) return most;
  if (fair_share_.clients() < 2 && !fair_share_.ContendedOfLate()) return most;
  FindContenders();
  const auto is_due = [](const FairShare::Client* client) { return client->behind_us >= 0.0; };
  const auto due = std::count_if(contenders_.begin(), contenders_.end(), is_due);
  const bool contended = contenders_.size() > 1;
  for (FairShare::Client* client : contenders_) {
    client->sits_out = contended && due > 0 && !is_due(client);
    some_sit_out_ |= client->sits_out;
  }
  // More tokens of prompts and drafts than keep the device busy make the step longer for those who
  // wait for it, or come meanwhile. A step of the least served client alone is what the others are
  // ready to wait for.
  if (whole_prompts_ || (contended && due == 1 && is_due(LeastServed()))) return most;
  int32_t decoding = 0;
  for (const Sequence* sequence : running_.items()) decoding += Decodes(*sequence) ? 1 : 0;
  return std::min(most, std::max(step_times_.Efficient(most), decoding + kPromptTokensMin));
}

void Scheduler::EndTurns() {
  if (!std::exchange(some_sit_out_, false)) return;
  for (FairShare::Client* client : contenders_) client->sits_out = false;
}

}  // namespace sluice::schedule
