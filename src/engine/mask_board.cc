#include "engine/mask_board.h"

#include <algorithm>
#include <chrono>

namespace sluice::engine {

void MaskBoard::Put(Place* place, int32_t drawn, std::span<const int32_t> drafts, bool forced,
                    std::vector<uint32_t>* words) {
  {
    std::lock_guard lock(mutex_);
    place->drawn = drawn;
    place->drafts.assign(drafts.begin(), drafts.end());
    place->forced = forced;
    place->words.swap(*words);
    ++puts_;
  }
  put_.notify_one();
}

bool MaskBoard::Holds(const Place& place, int32_t drawn, std::span<const int32_t> drafts) {
  return place.drawn == drawn && place.drafts.size() >= drafts.size() &&
         std::equal(drafts.begin(), drafts.end(), place.drafts.begin());
}

bool MaskBoard::Has(const Place& place, int32_t drawn, std::span<const int32_t> drafts) const {
  std::lock_guard lock(mutex_);
  return Holds(place, drawn, drafts);
}

bool MaskBoard::Forced(const Place& place, int32_t drawn, std::vector<int32_t>* drafts) const {
  std::lock_guard lock(mutex_);
  if (place.drawn != drawn) return false;
  drafts->clear();
  if (place.forced) drafts->assign(place.drafts.begin(), place.drafts.end());
  return true;
}

bool MaskBoard::Take(const Place& place, int32_t drawn, std::span<const int32_t> drafts,
                     std::span<uint32_t> to) const {
  std::lock_guard lock(mutex_);
  if (!Holds(place, drawn, drafts)) return false;
  std::copy_n(place.words.begin(), to.size(), to.begin());
  return true;
}

void MaskBoard::Lend(Logits* logits, int32_t drawn, std::span<const float> values) {
  logits->drawn = drawn;
  logits->values.assign(values.begin(), values.end());
  std::lock_guard lock(mutex_);
  logits->lent = true;
}

void MaskBoard::Return(Logits* logits) {
  {
    std::lock_guard lock(mutex_);
    logits->lent = false;
    ++puts_;
  }
  put_.notify_one();
}

bool MaskBoard::IsBack(const Logits& logits, int32_t drawn) const {
  std::lock_guard lock(mutex_);
  return logits.drawn == drawn && !logits.lent;
}

uint64_t MaskBoard::puts() const {
  std::lock_guard lock(mutex_);
  return puts_;
}

void MaskBoard::WaitForMore(uint64_t seen, int64_t us_max) const {
  std::unique_lock lock(mutex_);
  put_.wait_for(lock, std::chrono::microseconds(us_max), [&] { return puts_ != seen; });
}

}  // namespace sluice::engine
