// MaskBoard: where text workers put the masks of constrained answers, and where the step thread
// finds them; and where the two hand each other the logits that a processor changes. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace sluice::engine {

class MaskBoard {
 public:
  // One answer's, whose request owns it; all of it is guarded by the board.
  struct Place {
    int32_t drawn = -1;           // tokens that the masks stand behind; -1: there are none
    std::vector<int32_t> drafts;  // behind those
    bool forced = false;          // nothing but what these drafts say may follow
    std::vector<uint32_t> words;  // [drafts + 1, words]: of the next token, and behind each draft
  };

  // The logits of one answer's next token, which the step thread lends to the text worker. Who has
  // them may read and write them; its request owns them.
  struct Logits {
    int32_t drawn = -1;         // tokens that they stand behind; -1: none yet; the step thread's
    std::vector<float> values;  // [vocab]
    bool lent = false;          // guarded by the board
  };

  // Replaces what the place has. *words gets other memory, to be used again.
  void Put(Place* place, int32_t drawn, std::span<const int32_t> drafts, bool forced,
           std::vector<uint32_t>* words);
  // Copies the drafts that are forced behind `drawn` tokens; they may be none. False: it is not
  // known yet.
  bool Forced(const Place& place, int32_t drawn, std::vector<int32_t>* drafts) const;
  // Whether Take would find these.
  bool Has(const Place& place, int32_t drawn, std::span<const int32_t> drafts) const;
  // Copies the masks behind `drawn` tokens and each of `drafts`. False: they are not there.
  bool Take(const Place& place, int32_t drawn, std::span<const int32_t> drafts,
            std::span<uint32_t> to) const;
  // Of the step thread. REQUIRES: they are not lent.
  void Lend(Logits* logits, int32_t drawn, std::span<const float> values);
  // Of the text worker, to which they were lent.
  void Return(Logits* logits);
  // Whether the step thread has the logits behind `drawn` tokens back.
  bool IsBack(const Logits& logits, int32_t drawn) const;
  // How often something was put or returned.
  uint64_t puts() const;
  // Waits until that is more than `seen`, or the time is over.
  void WaitForMore(uint64_t seen, int64_t us_max) const;

 private:
  static bool Holds(const Place& place, int32_t drawn, std::span<const int32_t> drafts);

  mutable std::mutex mutex_;
  mutable std::condition_variable put_;
  uint64_t puts_ = 0;  // guarded by mutex_
};

}  // namespace sluice::engine
