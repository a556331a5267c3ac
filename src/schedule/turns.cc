// Scheduler: who sits out a step under a policy that shares by client, and how long steps are.
//
// Tokens say who had most, but not who is held up: a client with one sequence has a token of each
// step, and where a step of all sequences takes ten times as long as its own would, it answers ten
// times as slowly as alone. So each client is due what it would get with its share of the device to
// itself: of every microsecond its share, and a step counts for it as long as it would have taken
// for the client's tokens alone. Who is ahead of that sits out while another is behind. Where steps
// of many cost little more than those of few, nobody is ever behind and all step together.
//
// A step under way cannot be broken off, so whoever comes waits for its end, which for a short
// request is most of what it waits. While clients contend, or did within a minute, steps are
// therefore no longer than a part of what the shortest visits of late would have taken alone, but
// long enough for half of the best rate; sequences that decode take turns where all of them would
// take longer. With each further minute steps may be longer by such a visit.
#include <algorithm>
#include <tuple>
#include <utility>

#include "schedule/scheduler.h"

namespace sluice::schedule {
namespace {

// What a client may be ahead or behind, in steps as long as the longest of late: more is neither
// owed nor saved up.
constexpr double kBalanceStepsMax = 2.0;
// The share of who wants least is so much larger, so that it has room for what is no step of its
// own: the one that was in flight when its request came, and the way to the client.
constexpr double kLightestBonus = 1.5;
// How long steps are, as a part of a short visit: what is waited for is little beside it.
constexpr double kVisitPart = 0.25;
// But up to so many of one token they may take a larger part, which is all that such a visit waits
// for: it ends before the others have a step again. Where a step takes a fixed time and some more
// for each token, four of one token are three quarters of the best rate.
constexpr double kVisitPartMax = 0.6;
constexpr double kStepsOfOneMax = 4.0;
// What a visit waits for after a quiet minute, as a part of its own time, and again that with each
// further one.
constexpr double kQuietVisitPart = 0.75;
// For so long it is known that others may come.
constexpr double kQuietMinutesMax = 60.0;
// What the step of some takes longer with others in it that could be left out.
constexpr double kNextToNothing = 1.1;

}  // namespace

// Who has something to compute or waits to be admitted, or had one of these parts of a step, with
// which its last sequence may have ended.
void Scheduler::FindContenders(std::span<const StepPart> parts) {
  contenders_.clear();
  whole_prompts_ = false;
  const auto add = [this](FairShare::Client* client) {
    if (client == nullptr || client->contends) return;
    client->contends = true;
    client->step_tokens = 0;
    client->step_has_prompt = false;
    contenders_.push_back(client);
  };
  for (const RankList* sequences : {&running_, &waiting_}) {
    for (const Sequence* sequence : sequences->items()) {
      whole_prompts_ |= sequence->spec.whole_prompt;
      add(sequence->client);
    }
  }
  for (const StepPart& part : parts) add(fair_share_.Find(part.client));
  for (FairShare::Client* client : contenders_) client->contends = false;
}

void Scheduler::Took(int64_t step_us) {
  if (!policy_->SharesByClient()) return;
  int32_t tokens = 0;
  bool prompts = false;
  for (const StepPart& part : committed_parts_) {
    tokens += part.tokens;
    prompts |= part.prompt;
  }
  if (tokens == 0 || step_us <= 0) return;
  const auto took = static_cast<double>(step_us);
  (prompts ? prompt_times_ : decode_times_).Observe(tokens, took);
  fair_share_.Pass(took);
  FindContenders(committed_parts_);
  if (contenders_.size() == 1) fair_share_.StepOfOne(took, contenders_[0]);
  if (contenders_.size() > 1) ShareStep(took, tokens);
  fair_share_.EndVisits();
}

// Books a step of so many tokens while which several clients contended.
void Scheduler::ShareStep(double took, int32_t tokens) {
  fair_share_.NoteContention();
  double weights = 0.0;
  const FairShare::Client* const lightest = Lightest();
  const auto weight = [lightest](const FairShare::Client* client) {
    return client == lightest ? kLightestBonus * client->weight : client->weight;
  };
  for (const FairShare::Client* client : contenders_) weights += weight(client);
  for (const StepPart& part : committed_parts_) {
    FairShare::Client* const client = fair_share_.Find(part.client);
    if (client == nullptr) continue;
    client->step_tokens += part.tokens;
    client->step_has_prompt |= part.prompt;
  }
  const double most = kBalanceStepsMax * std::max(decode_times_.longest(), prompt_times_.longest());
  for (FairShare::Client* client : contenders_) {
    const double alone = client->step_tokens == tokens ? took : AloneTime(*client, took);
    client->visit_us += alone;
    client->behind_us += took * weight(client) / weights - alone;
    client->behind_us = std::clamp(client->behind_us, -most, most);
  }
}

// What the client's part of a step would have taken without the others, which is no longer than the
// step took. A client with more sequences than had room would have had these in its step, too, so
// that the part counts at the rate of that.
double Scheduler::AloneTime(const FairShare::Client& client, double took) const {
  const int32_t own = client.step_tokens;
  if (own == 0) return 0.0;
  const StepTimes& times = client.step_has_prompt ? prompt_times_ : DecodeTimes();
  int32_t width = own;
  if (!client.step_has_prompt && client.running > own)
    width = std::max(own, RowsOf(times, client.running, client.running));
  return std::min(took, times.Of(width) * own / width);
}

// Microseconds.
double Scheduler::LongestStep() const {
  const double visit = fair_share_.ShortVisit(), few = kStepsOfOneMax * DecodeTimes().Of(1);
  if (visit == 0.0) return few;
  const double most = std::max(kVisitPart * visit, std::min(kVisitPartMax * visit, few));
  const double minutes = fair_share_.QuietMinutes();
  return minutes < 1.0 ? most : std::max(most, kQuietVisitPart * minutes * visit);
}

// Until there was a step without a prompt, what is known of others.
const StepTimes& Scheduler::DecodeTimes() const {
  return decode_times_.longest() > 0.0 ? decode_times_ : prompt_times_;
}

// Tokens of a step, up to `most`. What rate it is to come near is told by steps of up to `usual`.
int32_t Scheduler::RowsOf(const StepTimes& times, int32_t most, int32_t usual) const {
  const int32_t rows = times.WorthIt(times.Within(LongestStep(), most), std::min(usual, most));
  return std::max(rows, times.Within(kNextToNothing * times.Of(rows), std::min(usual, most)));
}

// Of the fewest sequences; of as many, who was served least.
FairShare::Client* Scheduler::Lightest() const {
  return *std::min_element(
      contenders_.begin(), contenders_.end(), [](const auto* a, const auto* b) {
        return a->sequences != b->sequences ? a->sequences < b->sequences : a->served < b->served;
      });
}

// Returns how many tokens the step may have.
int32_t Scheduler::ChooseTurns() {
  some_sit_out_ = false;
  const int32_t most = options_.max_batch_tokens;
  if (!policy_->SharesByClient()) return most;
  if (fair_share_.clients() < 2 && fair_share_.QuietMinutes() > kQuietMinutesMax) return most;
  FindContenders({});
  const auto is_due = [](const FairShare::Client* client) { return client->behind_us >= 0.0; };
  const auto due = std::count_if(contenders_.begin(), contenders_.end(), is_due);
  const bool contended = contenders_.size() > 1;
  for (FairShare::Client* client : contenders_) {
    client->sits_out = contended && due > 0 && !is_due(client);
    some_sit_out_ |= client->sits_out;
  }
  if (whole_prompts_) return most;
  decoders_.clear();
  decoders_.reserve(options_.max_num_seqs);
  bool prompts = !waiting_.items().empty() && !free_slots_.empty();
  for (Sequence* sequence : running_.items()) {
    if (Decodes(*sequence)) {
      decoders_.push_back(sequence);
    } else {
      prompts |= Plannable(*sequence);
    }
  }
  const auto usual = std::max(1, static_cast<int32_t>(decoders_.size()));
  const int32_t rows = RowsOf(DecodeTimes(), most, usual);
  const int32_t tokens = std::max({rows, RowsOf(prompt_times_, most, most), prompts ? 2 : 1});
  // Prompts go on in each step, and it is no longer for that.
  const int32_t kept = prompts ? std::min(kPromptTokensMin, tokens / 2) : 0;
  ChooseDecoders(std::min(rows, tokens - kept));
  // A step of the lightest client alone is what the only other is ready to wait for.
  if (contenders_.size() == 2 && due == 1 && is_due(Lightest())) return most;
  return tokens;
}

// Lets sequences that decode into the step until it has so many rows: first those of the lightest
// client with their drafts, then those of others whose last step is the longest ago, and with what
// is left the drafts of these: a row of a sequence draws a token, and one of a draft only may. Of
// clients that sit out come as many as cost the others next to nothing.
void Scheduler::ChooseDecoders(int32_t rows) {
  const FairShare::Client* const lightest = contenders_.size() > 1 ? Lightest() : nullptr;
  const auto place = [lightest](const Sequence* one) {
    return one->client->sits_out ? 2 : one->client == lightest ? 0 : 1;
  };
  // A total order, so that equal calls give equal plans.
  std::sort(decoders_.begin(), decoders_.end(), [&](const Sequence* a, const Sequence* b) {
    return std::tuple(place(a), a->last_step, a->spec.id) <
           std::tuple(place(b), b->last_step, b->spec.id);
  });
  const auto begin_of = [&](int at) {
    return std::find_if(decoders_.begin(), decoders_.end(),
                        [&](const Sequence* one) { return place(one) >= at; });
  };
  const auto others = begin_of(1), sitting = begin_of(2);
  int32_t taken = AllowRows({decoders_.begin(), others}, rows, 0);
  taken = AllowRows({others, sitting}, rows, taken);
  int32_t beside = 0;
  if (taken > 0) beside = DecodeTimes().Within(kNextToNothing * DecodeTimes().Of(taken), rows);
  AllowRows({sitting, decoders_.end()}, beside, taken);
}

// Of the sequences, what fits behind the rows that are taken; the beams of a search go on together.
// Drafts that are forced are sure to be drawn. Returns what is taken then.
int32_t Scheduler::AllowRows(std::span<Sequence* const> sequences, int32_t rows, int32_t taken) {
  for (Sequence* sequence : sequences) {
    const bool due = !sequence->client->sits_out;
    const size_t sure = sequence->forced ? sequence->drafts.size() : 0;
    const int32_t wanted = 1 + sequence->aside + static_cast<int32_t>(sure);
    const bool goes = due && (taken == 0 || sequence->beams != nullptr);
    sequence->waits_turn = !goes && (taken + wanted > rows || sequence->beams != nullptr);
    some_sit_out_ |= sequence->waits_turn;
    if (!sequence->waits_turn) taken += wanted;
  }
  for (Sequence* sequence : sequences) {
    if (sequence->waits_turn || sequence->forced) continue;
    const auto fit =
        std::min(static_cast<int32_t>(sequence->drafts.size()), std::max(0, rows - taken));
    sequence->drafts.resize(fit);
    sequence->parents.resize(std::min(sequence->parents.size(), sequence->drafts.size()));
    taken += fit;
  }
  return taken;
}

void Scheduler::EndTurns() {
  if (!std::exchange(some_sit_out_, false)) return;
  for (FairShare::Client* client : contenders_) client->sits_out = false;
  for (Sequence* sequence : decoders_) sequence->waits_turn = false;
}

}  // namespace sluice::schedule
