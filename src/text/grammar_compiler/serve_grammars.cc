#include "text/grammar_compiler/serve_grammars.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/grammar_compiler/frames.h"
#include "text/grammar_compiler/library.h"
#include "text/grammar_compiler/library_compiler.h"

namespace sluice::text {
namespace {

constexpr int kTriedTokens = 8;
constexpr int64_t kTriedMillisecondsMax = 250;  // of CPU time
constexpr size_t kEmptyRulesMax = 200;          // of rules that a request sends

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
void LimitTime(int milliseconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = milliseconds / 1000;
  timer.it_value.tv_usec = milliseconds % 1000 * 1000;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

int64_t MillisecondsOfCpu() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

// The first of the allowed ids, or the last; -1: there is none.
int32_t OneOf(std::span<const uint32_t> words, bool first) {
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t at = first ? i : words.size() - 1 - i;
    if (words[at] == 0) continue;
    const int bit = first ? std::countr_zero(words[at]) : 31 - std::countl_zero(words[at]);
    return static_cast<int32_t>(at) * 32 + bit;
  }
  return -1;
}

// Follows an answer for some tokens. What an engine does for a token cannot be stopped either, so a
// grammar that takes long for one is refused here.
void TryOut(const xgrammar::CompiledGrammar& compiled, int vocab) {
  const int64_t before = MillisecondsOfCpu();
  xgrammar::GrammarMatcher matcher(compiled);
  std::vector<uint32_t> words((static_cast<size_t>(vocab) + 31) / 32);
  for (int token = 0; token < kTriedTokens && !matcher.IsTerminated(); ++token) {
    FillMask(words, &matcher);
    const int32_t id = OneOf(words, token % 2 == 0);
    if (id < 0 || !matcher.AcceptToken(id)) break;
  }
  const int64_t took = MillisecondsOfCpu() - before;
  if (took > kTriedMillisecondsMax) {
    throw std::runtime_error("the first tokens of an answer take " + std::to_string(took) +
                             " ms to follow, and " + std::to_string(kTriedMillisecondsMax) +
                             " is the most");
  }
}

// With the square of these grows the time that each token takes.
void CheckEmptyRules(const xgrammar::CompiledGrammar& compiled) {
  const size_t rules = EmptyRules(compiled);
  if (rules <= kEmptyRulesMax) return;
  throw std::runtime_error("it has " + std::to_string(rules) + " rules that may be empty, and " +
                           std::to_string(kEmptyRulesMax) + " is the most");
}

Frame AnswerTo(LibraryCompiler* compiler, int vocab, const Frame& frame) {
  try {
    const xgrammar::CompiledGrammar compiled = compiler->Compile(frame);
    if (frame.kind == FrameKind::kEbnf) CheckEmptyRules(compiled);
    TryOut(compiled, vocab);
    return {FrameKind::kCompiled, WriteCompiled(compiled)};
  } catch (const std::bad_alloc&) {
    return {FrameKind::kMemoryExceeded, {}};
  } catch (const std::exception& error) {
    return {FrameKind::kRefused, error.what()};
  }
}

}  // namespace

int ServeGrammars(int socket, int milliseconds) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::optional<xgrammar::TokenizerInfo> vocabulary;
  {
    const std::optional<Frame> frame = ReceiveFrame(socket, -1);
    if (!frame || frame->kind != FrameKind::kVocabulary) return 1;
    vocabulary = ReadVocabulary(frame->bytes);
  }
  if (!vocabulary) return 1;
  LibraryCompiler compiler(*vocabulary);
  LimitMemory(rlim_t{kCompileMebibytesMax} << 20);
  if (!SendFrame(socket, FrameKind::kReady, {})) return 0;
  while (const std::optional<Frame> frame = ReceiveFrame(socket, -1)) {
    LimitTime(milliseconds);
    const Frame answer = AnswerTo(&compiler, vocabulary->GetVocabSize(), *frame);
    LimitTime(0);
    if (!SendFrame(socket, answer.kind, answer.bytes)) return 0;
    if (answer.kind == FrameKind::kMemoryExceeded) return 0;
  }
  return 0;
}

}  // namespace sluice::text
