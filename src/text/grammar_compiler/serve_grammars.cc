#include "text/grammar_compiler/serve_grammars.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>

#include "text/grammar_compiler/frames.h"
#include "text/grammar_compiler/library.h"

namespace sluice::text {
namespace {

// XGrammar's cache of what rules of several grammars have in common.
constexpr int64_t kRuleCacheBytes = 48 << 20;

// The sanitizers reserve terabytes of addresses, so that only a build without them can be limited.
#ifdef SLUICE_SANITIZED
constexpr bool kLimitMemory = false;
#else
constexpr bool kLimitMemory = true;
#endif

// Addresses in use now, and so many more.
void LimitMemory(rlim_t more) {
  if (!kLimitMemory) return;
  unsigned long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const rlim_t limit = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more;
  const rlimit limits = {limit, limit};
  setrlimit(RLIMIT_AS, &limits);
}

// 0 lifts the limit.
void LimitTime(int seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

// REQUIRES: the frame is of a grammar
xgrammar::CompiledGrammar Compile(xgrammar::GrammarCompiler* compiler, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kJsonSchema:
      // No whitespace between the parts of a JSON text: a model could write it without end. What a
      // schema does not name it permits.
      return compiler->CompileJSONSchema(frame.bytes, /*any_whitespace=*/false,
                                         /*indent=*/std::nullopt, std::pair{",", ":"},
                                         /*strict_mode=*/false);
    case FrameKind::kRegex:
      return compiler->CompileRegex(frame.bytes);
    case FrameKind::kStructuralTag:
      return compiler->CompileStructuralTag(frame.bytes);
    default:
      return compiler->CompileGrammar(frame.bytes);
  }
}

Frame AnswerTo(xgrammar::GrammarCompiler* compiler, const Frame& frame) {
  try {
    return {FrameKind::kCompiled, WriteCompiled(Compile(compiler, frame))};
  } catch (const std::bad_alloc&) {
    return {FrameKind::kMemoryExceeded, {}};
  } catch (const std::exception& error) {
    return {FrameKind::kRefused, error.what()};
  }
}

}  // namespace

int ServeGrammars(int socket) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::optional<xgrammar::TokenizerInfo> vocabulary;
  {
    const std::optional<Frame> frame = ReceiveFrame(socket, -1);
    if (!frame || frame->kind != FrameKind::kVocabulary) return 1;
    vocabulary = ReadVocabulary(frame->bytes);
  }
  if (!vocabulary) return 1;
  xgrammar::GrammarCompiler compiler(*vocabulary, /*max_threads=*/1, /*cache_enabled=*/true,
                                     kRuleCacheBytes);
  LimitMemory(rlim_t{kCompileMebibytesMax} << 20);
  if (!SendFrame(socket, FrameKind::kReady, {})) return 0;
  while (const std::optional<Frame> frame = ReceiveFrame(socket, -1)) {
    LimitTime(kCompileSecondsMax);
    const Frame answer = AnswerTo(&compiler, *frame);
    LimitTime(0);
    if (!SendFrame(socket, answer.kind, answer.bytes)) return 0;
    if (answer.kind == FrameKind::kMemoryExceeded) return 0;
  }
  return 0;
}

}  // namespace sluice::text
