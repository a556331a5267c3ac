#include "text/grammar_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "text/grammar_compiler/serve_grammars.h"
#include "text/grammar_program.h"

namespace sluice::text {
namespace {

// Beside other work 2 s of CPU time may take long; after this the program is ended.
constexpr int kWaitMsMax = 30'000;
// Of what the library says about a grammar.
constexpr size_t kReasonBytesMax = 300;

// Where the program finds its files; the rest is closed before it starts.
constexpr int kSocket = STDIN_FILENO;
constexpr int kProgram = 3;

class File {
 public:
  explicit File(int file) : file_(file) {}
  ~File() {
    if (file_ >= 0) close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return file_; }
  int Release() { return std::exchange(file_, -1); }

 private:
  int file_;
};

// `file` under a number that none of the standard files has; -1 stays.
int AboveStandardFiles(int file) {
  if (file < 0 || file > STDERR_FILENO) return file;
  const int above = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(file);
  return above;
}

// The program as a file in memory, open for as long as this program runs; -1: the system gave none.
int ProgramFile() {
  static const int program = [] {
    const std::string_view bytes = GrammarProgram();
    const int file = AboveStandardFiles(memfd_create("sluice_grammar_compiler", MFD_CLOEXEC));
    size_t written = 0;
    while (file >= 0 && written < bytes.size()) {
      const ssize_t count = write(file, bytes.data() + written, bytes.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return -1;
      written += static_cast<size_t>(count);
    }
    return file;
  }();
  return program;
}

// 0, or the error's number.
int Spawn(int program, int socket, int milliseconds, pid_t* process) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, socket, kSocket);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, program, kProgram);
  posix_spawn_file_actions_addclosefrom_np(&files, kProgram + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A group of its own: Ctrl-C on the terminal is for the program that started it.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  char name[] = "sluice-grammar-compiler";
  std::string limit = StrCat(milliseconds);
  char* const arguments[] = {name, limit.data(), nullptr};
  char* const environment[] = {nullptr};
  const int error = posix_spawn(process, StrCat("/proc/self/fd/", kProgram).c_str(), &files,
                                &attributes, arguments, environment);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

Status CannotStart(std::string_view reason) {
  return Status(
      StatusCode::kUnavailable,
      StrCat("grammars cannot be compiled, since the program for it did not start: ", reason),
      "grammar");
}

Status Refused(std::string_view what, std::string_view reason) {
  return InvalidArgument(StrCat(what, " ", reason), "grammar");
}

// The library's words, which begin with a time and a place in its own sources and may have several
// lines.
std::string ReasonOf(std::string_view message) {
  if (const size_t place = message.find(".cc:"); place != std::string_view::npos) {
    const size_t text = message.find(": ", place + 4);
    if (text != std::string_view::npos) message.remove_prefix(text + 2);
  }
  if (message.starts_with("Check failed")) {
    const size_t text = message.find("is false: ");
    if (text != std::string_view::npos) message.remove_prefix(text + 10);
  }
  std::string reason(Utf8Prefix(message, kReasonBytesMax));
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  while (!reason.empty() && (reason.back() == ' ' || reason.back() == '.')) reason.pop_back();
  return reason;
}

}  // namespace

Result<std::unique_ptr<GrammarProcess>> GrammarProcess::Start(std::string_view vocabulary,
                                                              int milliseconds) {
  const int program = ProgramFile();
  if (program < 0) return CannotStart("the system gave no file in memory for it");
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return CannotStart(std::strerror(errno));
  }
  File ours(AboveStandardFiles(sockets[0])), theirs(AboveStandardFiles(sockets[1]));
  pid_t process = 0;
  if (const int error = Spawn(program, theirs.get(), milliseconds, &process); error != 0) {
    return CannotStart(std::strerror(error));
  }
  close(theirs.Release());
  std::unique_ptr<GrammarProcess> started(new GrammarProcess(ours.Release(), process));
  if (!SendFrame(started->socket_, FrameKind::kVocabulary, vocabulary)) {
    return CannotStart("it ended at once");
  }
  const std::optional<Frame> ready = ReceiveFrame(started->socket_, kWaitMsMax);
  if (!ready || ready->kind != FrameKind::kReady)
    return CannotStart("it did not take the vocabulary");
  return started;
}

GrammarProcess::~GrammarProcess() {
  End();
  close(socket_);
}

int GrammarProcess::End() {
  if (process_ <= 0) return -1;
  kill(process_, SIGKILL);
  int status = -1;
  while (waitpid(process_, &status, 0) < 0) {
    if (errno == EINTR) continue;
    status = -1;  // somebody else reaps this program's children
    break;
  }
  process_ = 0;
  return status;
}

Result<std::string> GrammarProcess::Compile(FrameKind kind, std::string_view text,
                                            std::string_view what) {
  if (!SendFrame(socket_, kind, text)) {
    End();
    ended_idle_ = true;
    return CannotStart("it ended while it had nothing to do");
  }
  std::optional<Frame> answer = ReceiveFrame(socket_, kWaitMsMax);
  if (answer && answer->kind == FrameKind::kCompiled) return std::move(answer->bytes);
  if (answer && answer->kind == FrameKind::kRefused) {
    return Refused(what, StrCat("cannot be compiled: ", ReasonOf(answer->bytes)));
  }
  const int status = End();
  if (answer) {
    return Refused(what, StrCat("needs more than ", kCompileMebibytesMax,
                                " MiB to compile; send a smaller or simpler one"));
  }
  // A program that ends by itself does so before End can have an effect on how.
  const int signal = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGPROF) {
    return Status(StatusCode::kDeadlineExceeded,
                  StrCat(what, " takes more CPU time to compile than it may here"), "grammar");
  }
  if (signal == SIGKILL) {
    return Status(StatusCode::kUnavailable,
                  StrCat(what, " was not compiled within ", kWaitMsMax / 1000,
                         " s, beside other work of the machine; try again later"),
                  "grammar");
  }
  return Refused(what, "is too deeply nested to be compiled; send a simpler one");
}

}  // namespace sluice::text
