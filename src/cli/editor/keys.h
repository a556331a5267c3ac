// What a terminal's bytes mean: characters, keys and pasted texts. A value of one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

enum class KeyKind {
  kText,   // one character or several
  kPaste,  // a bracketed paste, whole
  kEnter,
  kNewline,  // Alt-Enter: a line within the text
  kLeft,
  kRight,
  kWordLeft,
  kWordRight,
  kHome,
  kEnd,
  kUp,
  kDown,
  kBackspace,
  kDelete,     // at the cursor; Ctrl-D, which ends the input where there is no text
  kEndOfFile,  // Ctrl-D or a terminal that is gone
  kKillEnd,
  kKillStart,
  kKillWord,
  kTab,
  kSearch,
  kClear,
  kInterrupt,
  kSuspend,
  kEscape,
};

struct Key {
  KeyKind kind = KeyKind::kText;
  std::string text;  // of kText and kPaste; line ends are \n, and no other control but a tab
};

class KeyReader {
 public:
  void Add(std::string_view bytes) { waiting_ += bytes; }
  // The next key, or nothing while its bytes are not all there. `quiet`: nothing came for a while,
  // so an escape that waits is the key of that name.
  std::optional<Key> Next(bool quiet);
  // Nothing waits.
  bool empty() const { return waiting_.empty(); }

 private:
  // What the bytes at the beginning are, and how many of them; 0: more has to come.
  struct Found {
    std::optional<Key> key;
    size_t bytes = 0;
  };
  Found Look(bool quiet) const;
  Found LookEscape(bool quiet) const;
  Found LookPaste() const;

  std::string waiting_;
};

}  // namespace sluice::cli
