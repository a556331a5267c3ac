#include "cli/signals.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "files/mapped_file.h"

namespace sluice::cli {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

TEST(SignalsDeathTest, AFileThatIsCutWhileItIsReadEndsTheProgramWithItsName) {
  const std::string path = testing::TempDir() + "sluice_cut_" + std::to_string(getpid());
  std::ofstream(path) << std::string(1 << 20, 'x');
  const auto read_cut_file = [&] {
    SetUpSignals();
    const auto file = files::MappedFile::Open(path).value();
    if (truncate(path.c_str(), 10) != 0) std::exit(7);
    const volatile std::byte* const last = &file->bytes().back();
    std::exit(*last == std::byte{'x'} ? 8 : 9);
  };
  EXPECT_EXIT(read_cut_file(), ExitedWithCode(1), "^sluice: .*sluice_cut_.* was shortened .*\n$");
  std::remove(path.c_str());
}

TEST(SignalsDeathTest, AnyOtherBusErrorIsWhatItIsElsewhere) {
  const auto raise_bus_error = [] {
    SetUpSignals();
    std::raise(SIGBUS);
    std::exit(7);
  };
  EXPECT_EXIT(raise_bus_error(), KilledBySignal(SIGBUS), "^$");
}

TEST(SignalsDeathTest, AReaderThatHasLeftIsAnErrorOfTheWrite) {
  const auto write_to_nobody = [] {
    SetUpSignals();
    int ends[2];
    if (pipe(ends) != 0 || close(ends[0]) != 0) std::exit(7);
    if (write(ends[1], "x", 1) >= 0 || errno != EPIPE) std::exit(8);
    EndBySigpipe();
  };
  EXPECT_EXIT(write_to_nobody(), KilledBySignal(SIGPIPE), "^$");
}

TEST(SignalsDeathTest, TheFirstInterruptIsTheCommandsAndTheSecondEnds) {
  const auto interrupt_twice = [] {
    const InterruptGuard guard;
    if (guard.raised()) std::exit(7);
    std::raise(SIGINT);
    if (!guard.raised() || !InterruptRaised()) std::exit(8);
    std::raise(SIGINT);
    std::exit(9);
  };
  EXPECT_EXIT(interrupt_twice(), ExitedWithCode(130), "^$");
  const auto interrupt_after_guard = [] {
    { const InterruptGuard guard; }
    std::raise(SIGINT);
    std::exit(9);
  };
  EXPECT_EXIT(interrupt_after_guard(), KilledBySignal(SIGINT), "^$");
}

TEST(SignalsDeathTest, WithATerminalToRestoreTheProgramStillDiesOfTheSignal) {
  const auto die = [](int signal) {
    std::signal(SIGHUP, SIG_IGN);
    RestoreAtForcedEnd(std::make_unique<const termios>().get());
    std::raise(SIGHUP);
    std::raise(signal);
    std::exit(9);
  };
  for (const int signal : {SIGTERM, SIGQUIT, SIGINT}) {
    EXPECT_EXIT(die(signal), KilledBySignal(signal), "^$");
  }
  const auto let_go = [] {
    std::signal(SIGTERM, SIG_IGN);
    RestoreAtForcedEnd(std::make_unique<const termios>().get());
    RestoreAtForcedEnd(nullptr);
    std::raise(SIGTERM);
    std::raise(SIGQUIT);
    std::exit(9);
  };
  EXPECT_EXIT(let_go(), KilledBySignal(SIGQUIT), "^$");
}

TEST(SignalsDeathTest, EveryStopSignalWakesAndTheThirdEnds) {
  const auto stop = [](int third) {
    HandleServerSignals(1000, false);
    std::raise(SIGTERM);
    EXPECT_EQ(WaitForServerSignal(), ServerSignal::kStop);
    std::raise(SIGHUP);
    EXPECT_EQ(WaitForServerSignal(), ServerSignal::kStop);
    WakeSignalWaiter();
    EXPECT_EQ(WaitForServerSignal(), ServerSignal::kStop);
    if (third != 0) std::raise(third);
    std::exit(9);
  };
  EXPECT_EXIT(stop(0), ExitedWithCode(9), "^$");
  EXPECT_EXIT(stop(SIGINT), ExitedWithCode(130), "^$");
}

TEST(SignalsDeathTest, TheSecondStopSignalEndsTheProgramInAFewSeconds) {
  const auto stop = [] {
    HandleServerSignals(1000, false);
    std::raise(SIGTERM);
    const unsigned drain = alarm(1000);
    std::raise(SIGTERM);
    // Time that has passed since then shortens what is left; what is left is rounded up.
    const unsigned left = alarm(1000);
    std::exit(drain > 1000 && left > 0 && left <= kForcedEndSeconds ? 9 : 8);
  };
  EXPECT_EXIT(stop(), ExitedWithCode(9), "^$");
  const auto be_late = [] {
    HandleServerSignals(1000, false);
    std::raise(SIGTERM);
    std::raise(SIGALRM);
    std::exit(9);
  };
  EXPECT_EXIT(be_late(), ExitedWithCode(1), "^sluice: a thread did not end in time.*\n$");
}

TEST(SignalsDeathTest, AHangupThatWasIgnoredFromTheStartIsIgnored) {
  const auto hang_up = [] {
    std::signal(SIGHUP, SIG_IGN);
    HandleServerSignals(1000, false);
    for (int i = 0; i < 3; ++i) std::raise(SIGHUP);
    std::exit(9);
  };
  EXPECT_EXIT(hang_up(), ExitedWithCode(9), "^$");
}

}  // namespace
}  // namespace sluice::cli
