#include "cli/signals.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "files/mapped_range.h"

namespace sluice::cli {
namespace {

// What an engine that drains may take beyond the time of its requests: to end cancelled ones (30 s)
// and to flush their answers (2 s).
constexpr int kOrderlyEndSeconds = 40;

volatile std::sig_atomic_t interrupt_raised = 0;
struct sigaction before_guard;
// The second is written before the first points at it.
std::atomic<const termios*> at_forced_end = nullptr;
termios terminal_before;

// Those that end the program by themselves.
constexpr int kEndSignals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT};
struct sigaction before_terminal[std::size(kEndSignals)];

sem_t signal_came;
std::atomic<int> stop_signals = 0;
std::atomic<bool> reload_asked = false;
int drain_end_seconds = 0;

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

// The handlers may come at any instruction, so they make only calls that are safe there.
void Say(const char* before, const char* name, const char* after) {
  const auto piece = [](const char* text) -> iovec {
    return {const_cast<char*>(text), std::strlen(text)};
  };
  const iovec pieces[] = {piece("sluice: "), piece(before), piece(name), piece(after), piece("\n")};
  // There is nobody to tell of a failure.
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, pieces, std::size(pieces));
}

// Leaves the terminal alone where another program has it, as while this one is stopped: setting it
// would stop this one again, and take it from the other.
void RestoreTerminal() {
  const termios* terminal = at_forced_end;
  if (terminal == nullptr || tcgetpgrp(STDIN_FILENO) != getpgrp()) return;
  tcsetattr(STDIN_FILENO, TCSANOW, terminal);
  // What editing a text switches on. A terminal that takes nothing must not hold up the end.
  constexpr char kPasteOff[] = "\x1b[?2004l";
  pollfd writable{STDOUT_FILENO, POLLOUT, 0};
  if (poll(&writable, 1, 0) != 1) return;
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kPasteOff, sizeof kPasteOff - 1);
}

extern "C" void OnInterrupt(int) {
  if (interrupt_raised != 0) {
    RestoreTerminal();
    _exit(130);
  }
  interrupt_raised = 1;
}

// Its action is the default one again (SA_RESETHAND), and the signal comes when this returns.
extern "C" void OnEndSignal(int signal) {
  RestoreTerminal();
  raise(signal);
}

extern "C" void OnStopSignal(int) {
  const int error = errno;
  const int count = ++stop_signals;
  if (count > 2) _exit(130);
  alarm(static_cast<unsigned>(count == 1 ? drain_end_seconds : kForcedEndSeconds));
  sem_post(&signal_came);
  errno = error;
}

extern "C" void OnReloadSignal(int) {
  const int error = errno;
  reload_asked = true;
  sem_post(&signal_came);
  errno = error;
}

extern "C" void OnStopAlarm(int) {
  Say("a thread did not end in time; the program ends without it", "", "");
  _exit(1);
}

extern "C" void OnBusError(int signal, siginfo_t* info, void*) {
  const bool fault = info->si_code > 0;  // and not sent by a process
  const char* file = fault ? files::MappedRange::FileAt(info->si_addr) : nullptr;
  if (file == nullptr) {
    Handle(signal, SIG_DFL);
    raise(signal);  // comes when this handler returns
    return;
  }
  Say("", file,
      " was shortened while it was in use, or its disk failed, so the program cannot go on; "
      "replace "
      "a model's file by renaming another one to its name, never in place");
  _exit(1);
}

}  // namespace

void SetUpSignals() {
  Handle(SIGPIPE, SIG_IGN);
  Handle(SIGXFSZ, SIG_IGN);
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void EndBySigpipe() {
  Handle(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
  std::abort();  // only if whoever started the program has blocked the signal
}

InterruptGuard::InterruptGuard() {
  interrupt_raised = 0;
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, &before_guard);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_guard, nullptr); }

bool InterruptGuard::raised() const { return interrupt_raised != 0; }

void RestoreAtForcedEnd(const termios* terminal) {
  const bool had_one = at_forced_end != nullptr;
  if (terminal == nullptr) {
    for (size_t i = 0; had_one && i < std::size(kEndSignals); ++i) {
      sigaction(kEndSignals[i], &before_terminal[i], nullptr);
    }
    at_forced_end = nullptr;
    return;
  }
  CHECK(!had_one, "one terminal at a time");
  terminal_before = *terminal;
  at_forced_end = &terminal_before;
  struct sigaction action {};
  action.sa_handler = OnEndSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : kEndSignals) sigaddset(&action.sa_mask, signal);
  for (size_t i = 0; i < std::size(kEndSignals); ++i) {
    sigaction(kEndSignals[i], nullptr, &before_terminal[i]);
    if (before_terminal[i].sa_handler != SIG_IGN) sigaction(kEndSignals[i], &action, nullptr);
  }
}

bool InterruptRaised() { return interrupt_raised != 0; }

void HandleServerSignals(int drain_seconds, bool hangup_reloads) {
  sem_init(&signal_came, 0, 0);
  drain_end_seconds = drain_seconds + kOrderlyEndSeconds;
  Handle(SIGALRM, OnStopAlarm);
  Handle(SIGINT, OnStopSignal);
  Handle(SIGTERM, OnStopSignal);
  if (hangup_reloads) return Handle(SIGHUP, OnReloadSignal);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) Handle(SIGHUP, OnStopSignal);
}

ServerSignal WaitForServerSignal() {
  while (sem_wait(&signal_came) != 0 && errno == EINTR) {
  }
  return reload_asked.exchange(false) ? ServerSignal::kReload : ServerSignal::kStop;
}

void WakeSignalWaiter() { sem_post(&signal_came); }

}  // namespace sluice::cli
