// What the program does when a signal comes. Nothing else installs handlers.
//
// SIGPIPE and SIGXFSZ are ignored: a reader that has left and a limit on files are errors of a
// write. SIGBUS that a mapped file raises ends the program with a line that names the file. What
// the other signals do depends on the command: the two classes below.
#pragma once

#include <termios.h>

namespace sluice::cli {

// Before anything else. Main thread.
void SetUpSignals();

// Ends the program as SIGPIPE ends one that does not ignore it, so that a shell sees the usual
// status of a command whose reader has left.
[[noreturn]] void EndBySigpipe();

// While one lives, the first SIGINT sets a flag instead of ending the program; the second ends it
// with 130, whatever its threads do. At most one at a time; main thread.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Whether SIGINT came since construction. Any thread.
  bool raised() const;
};

// How the terminal of standard input and output is to be when a signal ends the program: a second
// SIGINT, and SIGTERM, SIGHUP, SIGQUIT or a SIGINT without a guard, of which it still dies, but for
// those that were ignored. Null: as it is, and these signals do what they did. Main thread.
void RestoreAtForcedEnd(const termios* terminal);

// Whether a guard is in place and was raised.
bool InterruptRaised();

// The signals that ask a server to stop: SIGTERM, SIGINT, and SIGHUP, which comes when its terminal
// closes (unless the program was started to ignore that, as by nohup). `hangup_reloads`: SIGHUP
// asks it to read its keys again instead. The first one gives it `drain_seconds` and what an
// orderly end takes, the second kForcedEndSeconds; then the program ends with 1, whatever its
// threads do. The third ends it with 130 at once.
void HandleServerSignals(int drain_seconds, bool hangup_reloads);

// Time for an orderly end after the second signal.
inline constexpr int kForcedEndSeconds = 4;

enum class ServerSignal { kStop, kReload };
// Returns once for each signal, and for each call of WakeSignalWaiter. Any thread.
ServerSignal WaitForServerSignal();
void WakeSignalWaiter();

}  // namespace sluice::cli
