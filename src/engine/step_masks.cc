// StepLoop: masks, and the logits of processors, between the text workers and the newest step.
#include <algorithm>

#include "base/clock.h"
#include "engine/step.h"
#include "engine/timeline_notes.h"

namespace sluice::engine {
namespace {

// How long a mask may come after the end of the model, before its row draws nothing.
constexpr int64_t kMaskGraceUs = 500;
// How often the device is asked for that end.
constexpr int64_t kMaskPollUs = 50;
// Tokens that a constrained answer is bound to draw, beginning with that of a step in flight, which
// make it worthwhile to sit out until its end and verify the others at once.
constexpr size_t kForcedWorthWaiting = 3;

}  // namespace

void StepLoop::NoteForced() {
  if (workers_->forced_drafts() == 0) return;
  for (const schedule::SequenceOutcome& out : outcome_.sequences) {
    const schedule::Sequence* const sequence = scheduler_->Find(out.id);
    if (sequence == nullptr || !sequence->spec.masked || out.token_count == 0) continue;
    if (sequence->spec.no_drafts) continue;
    if (std::find(forced_for_.begin(), forced_for_.end(), out.id) == forced_for_.end()) {
      forced_for_.push_back(out.id);
    }
  }
}

bool StepLoop::FindForced(const schedule::Sequence& sequence, int64_t* deadline) {
  for (;;) {
    const uint64_t seen = board_.puts();
    if (board_.Forced(PlaceOf(sequence), sequence.drawn(), &forced_)) return true;
    if (sequence.in_flight > 0) return false;
    const int64_t now = NowMicros();
    if (*deadline < 0) *deadline = now + draft_wait_us_;
    if (now >= *deadline) return false;
    board_.WaitForMore(seen, *deadline - now);
  }
}

void StepLoop::AttachForced() {
  int64_t deadline = -1;
  for (const schedule::SequenceId id : forced_for_) {
    const schedule::Sequence* const sequence = scheduler_->Find(id);
    if (sequence == nullptr || sequence->slot < 0) continue;
    if (!FindForced(*sequence, &deadline) || forced_.empty()) continue;
    if (scheduler_->AttachDrafts(id, forced_, /*forced=*/true)) continue;
    // Where a step was launched behind this one, it draws the first of them.
    if (forced_.size() >= kForcedWorthWaiting) scheduler_->AwaitCommit(id);
  }
  forced_for_.clear();
}

const MaskBoard::Place& StepLoop::PlaceOf(const schedule::Sequence& sequence) const {
  const RequestState& request = *requests_[sequence.spec.handle].state;
  return request.constraints[sequence.spec.sampling.choice]->place;
}

MaskBoard::Logits* StepLoop::LogitsOf(const schedule::Sequence& sequence) const {
  const RequestState& request = *requests_[sequence.spec.handle].state;
  return request.logits.empty() ? nullptr : request.logits[sequence.spec.sampling.choice].get();
}

bool StepLoop::IsFree(const schedule::Sequence& sequence) const {
  return requests_[sequence.spec.handle].state->constraints.empty();
}

void StepLoop::NoteMasked() {
  batch::WaitingRows(plan_, &masks_.rows);
  masked_.clear();
  masked_drafts_.clear();
  processed_rows_.clear();
  if (masks_.rows.empty()) return;
  int32_t first = 0;
  for (const batch::PlanEntry& entry : plan_.entries) {
    if (!entry.masked) continue;
    Masked masked{.id = entry.sequence,
                  .draft_begin = static_cast<int32_t>(masked_drafts_.size()),
                  .first = first};
    for (int32_t row = entry.logits_begin; row < entry.logits_begin + entry.logits_count; ++row) {
      const batch::LogitsRow& logits = plan_.logits_rows[row];
      first += logits.purpose != batch::RowPurpose::kScore ? 1 : 0;
      if (logits.purpose != batch::RowPurpose::kVerify || logits.target < 0) continue;
      masked_drafts_.push_back(logits.target);
      ++masked.draft_count;
    }
    masked.processed = LogitsOf(*scheduler_->Find(masked.id)) != nullptr;
    if (masked.processed) processed_rows_.push_back(masks_.rows[masked.first]);
    if (masked.draft_count > 0) AskForMasks(masked);
    masked_.push_back(masked);
  }
  if (!masked_drafts_.empty()) workers_->Post(outgoing_);
}

// Those of drafts that are forced were made when these were found.
void StepLoop::AskForMasks(const Masked& masked) {
  const schedule::Sequence& sequence = *scheduler_->Find(masked.id);
  const auto drafts = std::span(masked_drafts_).subspan(masked.draft_begin, masked.draft_count);
  if (board_.Has(PlaceOf(sequence), sequence.drawn(), drafts)) return;
  const OpenRequest& request = requests_[sequence.spec.handle];
  request.batch->AddDrafts(request.state.get(), sequence.spec.sampling.choice, drafts);
}

void StepLoop::SampleNewest() {
  Flight& flight = flights_.back();
  const int64_t start = NowMicros();
  GatherMasks(&flight);
  // What it meets is told by Finish again.
  (void)flight.step.Sample(masks_);
  flight.execute_us += NowMicros() - start;
}

// True when there is nothing more to wait for: for a sequence that has ended meanwhile, too.
bool StepLoop::FindMasks(Masked* masked) {
  const schedule::Sequence* sequence = scheduler_->Find(masked->id);
  if (sequence == nullptr) return true;
  const size_t rows = static_cast<size_t>(masked->draft_count) + 1;
  const size_t words = batch::MaskWords(runner_.Info().vocab_size);
  if (masked->processed && !board_.IsBack(*LogitsOf(*sequence), sequence->drawn())) return false;
  const auto to = std::span(masks_.words).subspan(masked->first * words, rows * words);
  if (IsFree(*sequence)) {
    std::fill(to.begin(), to.end(), ~uint32_t{0});
    return masked->found = true;
  }
  masked->found =
      board_.Take(PlaceOf(*sequence), sequence->drawn(),
                  std::span(masked_drafts_).subspan(masked->draft_begin, masked->draft_count), to);
  if (masked->found && sequence->beams != nullptr) DropIfStuck(masked->id, to);
  return masked->found;
}

// A beam that nothing may follow has an empty mask, with which no row can be drawn.
void StepLoop::DropIfStuck(schedule::SequenceId beam, std::span<uint32_t> mask) {
  if (std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; })) return;
  scheduler_->DropBeam(beam);
  std::fill(mask.begin(), mask.end(), ~uint32_t{0});
}

void StepLoop::LendLogits(const exec::Step& step) {
  size_t fetched = 0;
  for (const Masked& masked : masked_) {
    if (!masked.processed) continue;
    const size_t at = fetched++;
    const schedule::Sequence* const sequence = scheduler_->Find(masked.id);
    if (sequence == nullptr) continue;
    MaskBoard::Logits* const logits = LogitsOf(*sequence);
    // They are on their way, or back, since a step that computed the same row came to nothing.
    if (logits->drawn == sequence->drawn()) continue;
    board_.Lend(logits, sequence->drawn(), step.Logits(at));
    const OpenRequest& request = requests_[sequence->spec.handle];
    request.batch->AddLogits(request.state.get(), sequence->spec.sampling.choice);
  }
  workers_->Post(outgoing_);
}

void StepLoop::TakeLogits() {
  masks_.replaced.clear();
  masks_.logits.clear();
  for (const Masked& masked : masked_) {
    const schedule::Sequence* const sequence = scheduler_->Find(masked.id);
    if (!masked.processed || !masked.found || sequence == nullptr) continue;
    const std::vector<float>& values = LogitsOf(*sequence)->values;
    masks_.replaced.push_back(masks_.rows[masked.first]);
    masks_.logits.insert(masks_.logits.end(), values.begin(), values.end());
  }
}

void StepLoop::GatherMasks(Flight* flight) {
  exec::Step& step = flight->step;
  masks_.words.resize(masks_.rows.size() * batch::MaskWords(runner_.Info().vocab_size));
  for (int64_t deadline = -1;;) {
    const uint64_t seen = board_.puts();
    int64_t now = NowMicros();
    if (deadline < 0 && step.ModelIsDone()) {
      // A processor may take as long as the model, since what waits for it less is computed again.
      const int64_t model_us = processed_rows_.empty() ? 0 : now - flight->launched_us;
      if (!processed_rows_.empty()) LendLogits(step);
      deadline = now + std::max(kMaskGraceUs, model_us);
    }
    bool all = true;
    for (Masked& masked : masked_) all &= masked.found || FindMasks(&masked);
    if (all) break;
    now = NowMicros();
    if (deadline >= 0 && now >= deadline) break;
    board_.WaitForMore(seen, deadline < 0 ? kMaskPollUs : deadline - now);
  }
  PostponeLate();
  TakeLogits();
}

void StepLoop::PostponeLate() {
  masks_.late.clear();
  int64_t late = 0;
  for (const Masked& masked : masked_) {
    if (masked.found) continue;
    const bool lives = scheduler_->Postpone(masked.id);
    if (lives) NoteLate(masked.id);
    for (int32_t i = 0; i <= masked.draft_count; ++i) {
      masks_.late.push_back(masks_.rows[masked.first + i]);
      late += lives ? 1 : 0;
    }
  }
  if (late > 0) metrics_.CountLateMasks(late);
}

void StepLoop::NoteLate(schedule::SequenceId id) {
  const schedule::SequenceSpec& spec = scheduler_->Find(id)->spec;
  Timeline* const timeline = requests_[spec.handle].timeline();
  if (timeline == nullptr) return;
  NoteLateMask(flights_.back().id, NowMicros(), spec.sampling.choice, timeline);
}

}  // namespace sluice::engine
