#include "cli/interrupt.h"

#include <csignal>

namespace sluice::cli {
namespace {

volatile std::sig_atomic_t raised_flag = 0;
struct sigaction previous_action;

void OnInterrupt(int) { raised_flag = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  raised_flag = 0;
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, &previous_action);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &previous_action, nullptr); }

bool InterruptGuard::raised() const { return raised_flag != 0; }
void InterruptGuard::Clear() { raised_flag = 0; }

bool InterruptRaised() { return raised_flag != 0; }

}  // namespace sluice::cli
