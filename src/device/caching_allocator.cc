#include "device/caching_allocator.h"

#include <limits>

#include "base/check.h"

namespace sluice::device {

CachingAllocator::CachingAllocator(SegmentSource* source, const Options& options)
    : source_(source), options_(options) {
  CHECK(options.alignment > 0 && (options.alignment & (options.alignment - 1)) == 0,
        options.alignment);
  CHECK(options.segment_bytes % options.alignment == 0 &&
            options.large_step % options.alignment == 0 &&
            options.large_bytes <= options.segment_bytes,
        "segments of ", options.segment_bytes, ", large from ", options.large_bytes,
        " in steps of ", options.large_step);
}

CachingAllocator::~CachingAllocator() {
  for (const auto& [data, segment] : segments_) source_->Release(data, segment->bytes);
}

Result<CachingAllocator::Segment*> CachingAllocator::NewSegment(size_t bytes, bool large) {
  Result<std::byte*> data = source_->Obtain(bytes);
  if (!data.ok() && data.status().code() == StatusCode::kOutOfMemory && ReleaseUnused() > 0)
    data = source_->Obtain(bytes);
  if (!data.ok()) return data.status();
  auto segment = std::make_unique<Segment>(Segment{*data, bytes, large, false});
  Segment* const made = segment.get();
  segments_[*data] = std::move(segment);
  ++stats_.segments;
  stats_.segment_bytes += bytes;
  AddFree(pieces_.emplace(*data, Piece{made, bytes, false}).first);
  return made;
}

Result<CachingAllocator::Range> CachingAllocator::Allocate(size_t bytes) {
  const bool large = bytes >= options_.large_bytes;
  const size_t step = large ? options_.large_step : options_.alignment;
  if (bytes > std::numeric_limits<size_t>::max() - step) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("an allocation of ", bytes, " bytes is more than memory can be"));
  }
  bytes = RoundUp(bytes == 0 ? 1 : bytes, step);
  const auto found = free_.lower_bound({large, bytes, nullptr});
  const bool fits = found != free_.end() && found->large == large &&
                    (!large || found->bytes - bytes <= found->bytes / 4);
  if (fits) return Take(*found, bytes);
  SLUICE_ASSIGN_OR_RETURN(Segment* const segment,
                          NewSegment(large ? bytes : options_.segment_bytes, large));
  return Take({large, segment->bytes, segment->data}, bytes);
}

CachingAllocator::Range CachingAllocator::Take(const FreePiece& piece, size_t bytes) {
  const auto at = pieces_.find(piece.data);
  Segment* const segment = at->second.segment;
  RemoveFree(at);
  at->second.used = true;
  if (!segment->large && at->second.bytes > bytes) {
    const Piece rest = {segment, at->second.bytes - bytes, false};
    at->second.bytes = bytes;
    AddFree(pieces_.emplace(at->first + bytes, rest).first);
  }
  stats_.used_bytes += at->second.bytes;
  const Range range = {at->first, segment->data, segment->given_out};
  segment->given_out = true;
  return range;
}

void CachingAllocator::Free(std::byte* data) {
  auto at = pieces_.find(data);
  CHECK(at != pieces_.end() && at->second.used, "memory is freed that is not in use");
  at->second.used = false;
  stats_.used_bytes -= at->second.bytes;
  const Segment* const segment = at->second.segment;
  const auto next = std::next(at);
  if (next != pieces_.end() && next->second.segment == segment && !next->second.used) {
    RemoveFree(next);
    at->second.bytes += next->second.bytes;
    pieces_.erase(next);
  }
  if (at != pieces_.begin()) {
    const auto before = std::prev(at);
    if (before->second.segment == segment && !before->second.used) {
      RemoveFree(before);
      before->second.bytes += at->second.bytes;
      pieces_.erase(at);
      at = before;
    }
  }
  AddFree(at);
}

size_t CachingAllocator::ReleaseUnused() {
  size_t released = 0;
  for (auto it = segments_.begin(); it != segments_.end();) {
    const auto at = pieces_.find(it->first);
    const size_t bytes = it->second->bytes;
    if (at->second.used || at->second.bytes != bytes) {
      ++it;
      continue;
    }
    RemoveFree(at);
    pieces_.erase(at);
    source_->Release(it->first, bytes);
    --stats_.segments;
    stats_.segment_bytes -= bytes;
    released += bytes;
    it = segments_.erase(it);
  }
  return released;
}

void CachingAllocator::AddFree(Pieces::iterator at) {
  free_.insert({at->second.segment->large, at->second.bytes, at->first});
}

void CachingAllocator::RemoveFree(Pieces::iterator at) {
  free_.erase({at->second.segment->large, at->second.bytes, at->first});
}

std::string CachingAllocator::CheckPiece(Pieces::const_iterator at) const {
  const auto& [data, piece] = *at;
  const size_t offset = static_cast<size_t>(data - piece.segment->data);
  if (offset % options_.alignment != 0 || piece.bytes % options_.alignment != 0 ||
      piece.bytes == 0) {
    return StrCat("3: a piece of ", piece.bytes, " bytes at ", offset);
  }
  const bool listed = free_.count({piece.segment->large, piece.bytes, data}) == 1;
  if (listed == piece.used) return StrCat("4: the piece at ", offset, " is listed wrongly");
  if (piece.segment->large && piece.bytes != piece.segment->bytes)
    return StrCat("5: a large segment of ", piece.segment->bytes, " holds ", piece.bytes);
  const auto next = std::next(at);
  const bool last = offset + piece.bytes == piece.segment->bytes;
  if (last) return "";
  if (next == pieces_.end() || next->first != data + piece.bytes ||
      next->second.segment != piece.segment) {
    return StrCat("1: nothing follows the piece at ", offset);
  }
  if (!piece.used && !next->second.used) return StrCat("2: two free pieces meet after ", offset);
  return "";
}

std::string CachingAllocator::CheckInvariants() const {
  size_t used = 0, free_count = 0, bytes = 0;
  for (auto at = pieces_.begin(); at != pieces_.end(); ++at) {
    std::string wrong = CheckPiece(at);
    if (!wrong.empty()) return wrong;
    used += at->second.used ? at->second.bytes : 0;
    free_count += at->second.used ? 0 : 1;
  }
  for (const auto& [data, segment] : segments_) {
    if (pieces_.count(data) == 0) return "1: a segment has no first piece";
    bytes += segment->bytes;
  }
  if (free_count != free_.size() || used != stats_.used_bytes || bytes != stats_.segment_bytes ||
      segments_.size() != stats_.segments) {
    return "4: the sums are wrong";
  }
  return "";
}

}  // namespace sluice::device
