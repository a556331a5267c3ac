// Ctrl-C while a request runs: the request is cancelled, the program decides what follows.
#pragma once

namespace sluice::cli {

// While one lives, SIGINT sets a flag instead of ending the program. At most one at a time; main
// thread.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Whether SIGINT came since construction or the last Clear. Any thread.
  bool raised() const;
  void Clear();
};

// Whether a guard is in place and was raised.
bool InterruptRaised();

}  // namespace sluice::cli
