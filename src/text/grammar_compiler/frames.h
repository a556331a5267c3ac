// What an engine and the program that compiles its grammars tell each other over a socket: frames
// of a kind and bytes. The engine sends the vocabulary once, then grammars one by one; each is
// answered by one frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::text {

enum class FrameKind : uint32_t {
  kVocabulary,      // WriteVocabulary
  kReady,           // the vocabulary was taken
  kJsonSchema,      // a schema as RewriteSchema gives it
  kRegex,           // a pattern
  kEbnf,            // rules, the first of which is called root
  kStructuralTag,   // its JSON
  kCompiled,        // WriteCompiled
  kRefused,         // why it is no grammar, in the library's words
  kMemoryExceeded,  // the program ends behind it
};

// A text within the JSON of a schema or structural tag that begins so, with U+FDD0, which is no
// character, stands for the number behind it, to be written so. The library itself would write it
// with all digits of its binary form, or as another where it has no type for it.
inline constexpr std::string_view kNumberMark = "\xEF\xB7\x90";

struct Frame {
  FrameKind kind;
  std::string bytes;
};

inline constexpr size_t kFrameBytesMax = 256u << 20;

// False where the other end is gone.
bool SendFrame(int socket, FrameKind kind, std::string_view bytes);
// Nothing where the other end is gone, or sends what is no frame. `wait_ms_max`: for the first byte
// and between bytes; -1: for ever.
std::optional<Frame> ReceiveFrame(int socket, int wait_ms_max);

}  // namespace sluice::text
