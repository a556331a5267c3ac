#include "text/empty_alternatives.h"

namespace sluice::text {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsOfName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// Copies rules, piece by piece. What is no grammar is copied as it is, for the library to refuse.
class Copier {
 public:
  explicit Copier(std::string_view rules) : rules_(rules) {}

  std::string Copy() {
    while (at_ < rules_.size()) {
      if (IsSpace(rules_[at_])) {
        Take(1);
      } else if (rules_[at_] == '#') {
        Take(rules_.substr(at_).find('\n'));
      } else {
        TakeElement();
      }
    }
    if (wants_) copy_ += " \"\"";
    return std::move(copy_);
  }

 private:
  void Take(size_t bytes) {
    copy_ += rules_.substr(at_, bytes);
    at_ = bytes < rules_.size() - at_ ? at_ + bytes : rules_.size();
  }
  // How many bytes what begins here has, up to `close`; `\` takes the next byte along.
  size_t UpTo(char close) const {
    size_t end = at_ + 1;
    while (end < rules_.size() && rules_[end] != close) end += rules_[end] == '\\' ? 2 : 1;
    return end + 1 - at_;
  }
  size_t NameBytes() const {
    size_t end = at_;
    while (end < rules_.size() && IsOfName(rules_[end])) ++end;
    return end - at_;
  }
  // Whether what begins here is the name of the next rule.
  bool BeginsRule() const {
    size_t end = at_ + NameBytes();
    if (end == at_) return false;
    while (end < rules_.size() && IsSpace(rules_[end])) ++end;
    return rules_.substr(end).starts_with("::=");
  }

  void TakeElement() {
    const char c = rules_[at_];
    if (wants_ && (c == '|' || c == ')' || BeginsRule())) copy_ += "\"\" ";
    if (rules_.substr(at_).starts_with("::=")) {
      Take(3);
      wants_ = true;
      return;
    }
    // Behind a name a parenthesis opens arguments.
    wants_ = c == '|' || (c == '(' && (at_ == 0 || !IsOfName(rules_[at_ - 1])));
    if (c == '"' || c == '\'') return Take(UpTo(c));
    if (c == '[') return Take(UpTo(']'));
    const size_t name = NameBytes();
    Take(name == 0 ? 1 : name);
  }

  const std::string_view rules_;
  std::string copy_;
  size_t at_ = 0;
  bool wants_ = false;  // an element, or the end of an alternative that has none
};

}  // namespace

std::string WithEmptyAlternatives(std::string_view rules) { return Copier(rules).Copy(); }

}  // namespace sluice::text
