// Divides a few large segments of memory among many allocations and keeps what is freed for the
// next. For drivers whose own allocation is slow and waits for the device: CUDA's. OpenCL's backend
// does without: it takes a few large pieces while an engine opens and none in a step, and on the
// host's processor (PoCL) memory fresh from the system is zero and takes none until it is touched.
// Pure bookkeeping: it never reads or writes the memory. Not thread-safe; its owner locks.
//
// A request of at least Options::large_bytes gets a segment of its own, which is kept when freed
// and serves a later request that wastes at most a quarter of it. Smaller ones share segments: the
// smallest free piece that fits is taken, its rest stays free, and freed neighbours become one.
//
// Invariants (CheckInvariants):
//  1. The pieces of a segment follow one another without gap or overlap and cover it exactly.
//  2. No two neighbouring pieces are both free.
//  3. Every piece begins at a multiple of the alignment, and its size is one.
//  4. The free pieces are exactly those listed for best fit, and the sums of stats() are right.
//  5. A large segment is one piece.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice::device {

// Where segments come from: a driver's allocation call. An interface, since the tests stand in for
// the driver, which most machines that run them don't have.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  // kOutOfMemory when there is not enough. The address is a multiple of the alignment.
  virtual Result<std::byte*> Obtain(size_t bytes) = 0;
  virtual void Release(std::byte* data, size_t bytes) = 0;
};

class CachingAllocator {
 public:
  struct Options {
    size_t alignment = 256;                   // a power of two
    size_t segment_bytes = size_t{64} << 20;  // shared segments
    size_t large_bytes = size_t{16} << 20;    // from here on a segment of its own
    size_t large_step = size_t{2} << 20;      // which is a multiple of this
  };
  struct Range {
    std::byte* data = nullptr;
    std::byte* segment = nullptr;  // as the source gave it; data - segment is the offset in it
    bool reused = false;           // its memory may have been given out before
  };
  struct Stats {
    size_t segments = 0, segment_bytes = 0;  // obtained from the source
    size_t used_bytes = 0;                   // given out, after rounding
    size_t free_bytes() const { return segment_bytes - used_bytes; }
  };

  // `source` outlives the allocator.
  CachingAllocator(SegmentSource* source, const Options& options);
  explicit CachingAllocator(SegmentSource* source) : CachingAllocator(source, Options()) {}
  // Releases all segments, also those in use.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // At least `bytes` bytes (0 counts as 1). When the source has no more, segments that nobody uses
  // are released and it is asked once more; then its error is returned.
  Result<Range> Allocate(size_t bytes);
  // REQUIRES: `data` came from Allocate and was not freed since.
  void Free(std::byte* data);
  // Releases the segments that nobody uses; the bytes that this gave back.
  size_t ReleaseUnused();

  const Stats& stats() const { return stats_; }
  // The first invariant that does not hold, or empty.
  std::string CheckInvariants() const;

 private:
  struct Segment {
    std::byte* data = nullptr;
    size_t bytes = 0;
    bool large = false;
    bool given_out = false;  // some piece was, since the source gave the segment
  };
  struct Piece {
    Segment* segment = nullptr;
    size_t bytes = 0;
    bool used = false;
  };
  using Pieces = std::map<std::byte*, Piece>;
  struct FreePiece {
    bool large;
    size_t bytes;
    std::byte* data;
    auto operator<=>(const FreePiece&) const = default;
  };

  size_t RoundUp(size_t bytes, size_t step) const { return (bytes + step - 1) / step * step; }
  Result<Segment*> NewSegment(size_t bytes, bool large);
  Range Take(const FreePiece& piece, size_t bytes);
  void AddFree(Pieces::iterator at);
  void RemoveFree(Pieces::iterator at);
  std::string CheckPiece(Pieces::const_iterator at) const;

  SegmentSource* const source_;
  const Options options_;
  std::map<std::byte*, std::unique_ptr<Segment>> segments_;  // by address
  Pieces pieces_;                                            // by address, of all segments
  std::set<FreePiece> free_;                                 // by size, then address
  Stats stats_;
};

}  // namespace sluice::device
