// Finding the texts that mark parts of an answer, in a text that arrives in pieces. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice::text {

// Of one place in a text, and of the marker that might stand there.
enum class Match {
  kNo,
  kYes,
  kPerhaps,  // the text ends within it
};
Match MatchFront(std::string_view text, std::string_view marker);

struct MarkerHit {
  size_t at = 0;    // bytes of text before the marker, or before what may become one
  int marker = -1;  // its place in the list; -1: none so far
};
// The first of `markers` (none of them empty) in `text`. Where two begin at one place, the first of
// the list counts.
MarkerHit FindMarker(std::string_view text, std::span<const std::string_view> markers);

// What has come and has not been taken.
class PendingText {
 public:
  void Add(std::string_view piece) {
    text_.erase(0, at_);
    at_ = 0;
    text_ += piece;
  }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  void Drop(size_t bytes) { at_ += bytes; }

 private:
  std::string text_;
  size_t at_ = 0;
};

}  // namespace sluice::text
