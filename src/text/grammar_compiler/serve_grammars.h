// The program that compiles grammars, for an engine that started it. A compile cannot be stopped
// and may take minutes and gigabytes, so it happens here, where it has limits of its own.
#pragma once

namespace sluice::text {

inline constexpr int kCompileSecondsMax = 2;  // of CPU time, for one grammar
// After which a grammar waits with others of its kind, so that none of those that take a few
// milliseconds waits for it.
inline constexpr int kShortCompileMilliseconds = 100;
inline constexpr int kCompileMebibytesMax = 256;  // beside the vocabulary

// Takes a vocabulary and grammars from `socket` until the other end is closed. A grammar that takes
// more than `milliseconds` of CPU time ends the program with SIGPROF. Gives the exit status.
int ServeGrammars(int socket, int milliseconds);

}  // namespace sluice::text
