// GrammarProcess: a running program that compiles grammars for one vocabulary, within limits of
// time and memory. Not thread-safe. The program ends when its GrammarProcess does, and when the
// program that started it ends however: its socket is then closed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "sluice/status.h"
#include "text/grammar_compiler/frames.h"

namespace sluice::text {

class GrammarProcess {
 public:
  // `vocabulary`: what WriteVocabulary gave. Waits until the program has sorted it. `milliseconds`:
  // of CPU time, for one grammar.
  static Result<std::unique_ptr<GrammarProcess>> Start(std::string_view vocabulary,
                                                       int milliseconds);
  ~GrammarProcess();
  GrammarProcess(const GrammarProcess&) = delete;
  GrammarProcess& operator=(const GrammarProcess&) = delete;

  // WriteCompiled of the grammar. kDeadlineExceeded: it takes longer. kInvalidArgument says in one
  // sentence why there is none; it begins with `what`, "the regex". After an error but a refusal
  // the process is not `running`.
  Result<std::string> Compile(FrameKind kind, std::string_view text, std::string_view what);
  bool running() const { return process_ > 0; }
  // The program took no grammar, since it had ended before. REQUIRES: !running()
  bool ended_idle() const { return ended_idle_; }

 private:
  GrammarProcess(int socket, pid_t process) : socket_(socket), process_(process) {}
  // Ends the program; gives what waitpid gives, or -1.
  int End();

  const int socket_;
  pid_t process_;  // 0: it has ended
  bool ended_idle_ = false;
};

}  // namespace sluice::text
