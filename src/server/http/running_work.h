// What the workers of the HTTP server are at, so that health can tell of work that does not end.
// Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>

namespace sluice::server {

class RunningWork {
 public:
  // One piece of work, from its beginning to the end of this object. The RunningWork must outlive
  // it.
  class Piece {
   public:
    // `now_us`: NowMicros
    Piece(RunningWork* owner, int64_t now_us);
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    RunningWork* const owner_;
    std::list<int64_t>::iterator entry_;
  };

  // How long ago the oldest piece that has not ended began, in milliseconds; 0 where all have.
  int64_t OldestMs(int64_t now_us) const;

 private:
  mutable std::mutex mutex_;
  std::list<int64_t> since_us_;  // of each piece, in no order; guarded by mutex_
};

}  // namespace sluice::server
