// DraftGain: whether the drafts of a batch pay, all of its sequences together, as measured: what
// steps with drafts drew in their time, against what steps without draw. What a sequence expects of
// its own drafts may be wrong where others share the step, or where not all drafts find room in it;
// this is what was. Where drafts have gained too little they rest, each time longer. Sizes of the
// batch are told apart by powers of two. For one thread.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::engine {

class DraftGain {
 public:
  // A step took `seconds`, in which `sequences` decoded and drew `tokens`, and nothing else was
  // computed. `drafted`: it verified or guessed drafts. `plain`: seconds that such a step takes
  // without any; 0: they are not known, and nothing is learned. REQUIRES: sequences > 0, seconds >
  // 0.
  void Observe(int32_t sequences, bool drafted, int64_t tokens, double seconds, double plain);

  // Whether drafts are to be left alone in a batch of so many sequences.
  bool Rests(int32_t sequences) const { return sizes_[IndexOf(sequences)].rest > 0; }

 private:
  static constexpr int kSizes = 14;  // up to 4,096 sequences, and more
  struct Size {
    int32_t steps = 0, draws = 0;     // with drafts since they were judged; and sequences in them
    double tokens = 0, expected = 0;  // drawn in these, and what steps without would have drawn
    int32_t rest = 0;                 // steps that are left of it
    int32_t next_rest = 0;            // how long the next one is; 0: the first
  };
  static int IndexOf(int32_t sequences);

  std::array<Size, kSizes> sizes_;
};

}  // namespace sluice::engine
