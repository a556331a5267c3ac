#include "text/name_classes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/str_cat.h"
#include "base/utf8.h"
#include "text/character_set.h"

namespace sluice::text {
namespace {

constexpr size_t kNfaStatesMax = 1024;
constexpr size_t kStatesMax = 256;
constexpr size_t kRegexBytesMax = 8192;
// Of work for one call: states that are followed, and bytes of regexes that are put together.
constexpr size_t kClassStepsMax = 1u << 20, kJoinedBytesMax = 4u << 20;
// Of a state that a listed name leads to.
constexpr uint32_t kListed = 1u << kNamePatternsMax;

// An automaton that may be in several states at once. State 0 is where all patterns begin.
struct Nfa {
  struct State {
    std::vector<int> free;  // states that are reached without a character
    int set = -1;           // of `sets`: a character of it leads to the next state
    uint32_t ends = 0;      // the patterns, or kListed, that end here
  };
  std::vector<State> states{1};
  std::vector<CharacterSet> sets;

  int Add() {
    states.emplace_back();
    return static_cast<int>(states.size()) - 1;
  }
  void Link(int from, int to) { states[from].free.push_back(to); }
  // A state behind `from` and a character of the set, which is the next one by its number.
  int Step(int from, CharacterSet set) {
    const int at = Add();
    Link(from, at);
    states[at].set = static_cast<int>(sets.size());
    sets.push_back(std::move(set));
    return Add();
  }
};

// Reads what RegexRewriter writes into an automaton.
class NfaReader {
 public:
  NfaReader(std::string_view regex, Nfa* nfa) : regex_(regex), nfa_(*nfa) {}
  // The state behind all of it, from state 0; below 0: it is too large.
  int Read() {
    const int end = Alternatives(0);
    return ok_ ? end : -1;
  }

 private:
  char next() const { return at_ < regex_.size() ? regex_[at_] : '\0'; }
  bool Enough() {
    ok_ = ok_ && nfa_.states.size() <= kNfaStatesMax;
    return ok_;
  }

  int Alternatives(int from) {
    const int end = nfa_.Add();
    for (;;) {
      const int begin = nfa_.Add();
      nfa_.Link(from, begin);
      nfa_.Link(Sequence(begin), end);
      if (next() != '|' || at_ >= regex_.size()) return end;
      ++at_;
    }
  }

  int Sequence(int from) {
    while (at_ < regex_.size() && next() != '|' && next() != ')' && Enough()) {
      const size_t begin = at_;
      int end = Atom(from);
      const auto [least, most] = Counts();
      if (least == 1 && most == 1) {
        from = end;
        continue;
      }
      // Again from the text, as often as it may come.
      const size_t behind = at_;
      const auto again = [&](int at) {
        at_ = begin;
        return Atom(at);
      };
      const int done = nfa_.Add();
      int at = nfa_.Add();
      nfa_.Link(from, at);
      for (int i = 0; i < least && Enough(); ++i) at = again(at);
      nfa_.Link(at, done);
      if (most < 0) {
        const int loop = nfa_.Add();
        nfa_.Link(at, loop);
        const int once = again(loop);
        nfa_.Link(once, loop);
        nfa_.Link(once, done);
      }
      for (int i = least; i < most && Enough(); ++i) {
        at = again(at);
        nfa_.Link(at, done);
      }
      at_ = behind;
      from = done;
    }
    return from;
  }

  int Atom(int from) {
    if (next() != '(') return nfa_.Step(from, Set());
    ++at_;
    const int end = Alternatives(from);
    ++at_;  // the ) that closes it
    return end;
  }

  CharacterSet Set() {
    CharacterSet set;
    if (next() != '[') {
      const uint32_t only = Character();
      set.Add(only, only);
      return set;
    }
    for (++at_; at_ < regex_.size() && next() != ']';) {
      const uint32_t first = Character();
      uint32_t last = first;
      if (next() == '-') {
        ++at_;
        last = Character();
      }
      set.Add(first, std::max(first, last));
    }
    ++at_;
    return set;
  }

  uint32_t Character() {
    if (next() == '\\' && at_ + 1 < regex_.size()) {
      ++at_;
      if (regex_.substr(at_).starts_with("u{")) {
        const size_t end = regex_.find('}', at_);
        CHECK(end != std::string_view::npos);
        uint32_t character = 0;
        std::from_chars(regex_.data() + at_ + 2, regex_.data() + end, character, 16);
        at_ = end + 1;
        return character;
      }
    }
    return at_ < regex_.size() ? DecodeUtf8(regex_, &at_) : 0;
  }

  // How often; a most below 0: any number of times.
  std::pair<int, int> Counts() {
    const char c = next();
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      return {c == '+' ? 1 : 0, c == '?' ? 1 : -1};
    }
    if (c != '{') return {1, 1};
    const size_t end = regex_.find('}', at_);
    CHECK(end != std::string_view::npos);
    const std::string_view counts = regex_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    int least = 0, most = -1;
    std::from_chars(counts.data(), counts.data() + counts.size(), least);
    const size_t comma = counts.find(',');
    if (comma == std::string_view::npos) {
      most = least;
    } else if (comma + 1 < counts.size()) {
      std::from_chars(counts.data() + comma + 1, counts.data() + counts.size(), most);
    }
    return {least, most};
  }

  const std::string_view regex_;
  Nfa& nfa_;
  size_t at_ = 0;
  bool ok_ = true;
};

// An automaton that is in one state at a time, over classes of characters.
struct Dfa {
  struct State {
    std::vector<int> next;  // by class
    uint32_t ends = 0;
  };
  std::vector<CharacterSet> classes;  // that no pattern tells apart within
  std::vector<State> states;          // the first is where it begins
};

// Classes of the characters that JSON does not escape, each with the sets that it is within.
std::vector<std::pair<CharacterSet, std::vector<int>>> ClassesOf(const Nfa& nfa) {
  std::set<uint32_t> cuts;
  const CharacterSet all = JsonEscapedSet().Others();
  const auto add = [&](const CharacterSet& set) {
    for (const auto& [first, last] : set.ranges()) cuts.insert({first, last + 1});
  };
  add(all);
  for (const CharacterSet& set : nfa.sets) add(set);
  std::map<std::vector<int>, CharacterSet> by_sets;
  for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
    if (!all.Has(*cut)) continue;
    std::vector<int> within;
    for (size_t i = 0; i < nfa.sets.size(); ++i) {
      if (nfa.sets[i].Has(*cut)) within.push_back(static_cast<int>(i));
    }
    by_sets[std::move(within)].Add(*cut, *std::next(cut) - 1);
  }
  std::vector<std::pair<CharacterSet, std::vector<int>>> classes;
  for (auto& [within, set] : by_sets) classes.emplace_back(std::move(set), within);
  return classes;
}

std::optional<Dfa> Determined(const Nfa& nfa) {
  Dfa dfa;
  const auto classes = ClassesOf(nfa);
  for (const auto& [set, within] : classes) dfa.classes.push_back(set);
  std::map<std::vector<int>, int> known;
  std::vector<std::vector<int>> sets;
  std::vector<size_t> seen(nfa.states.size());  // in the set of that number
  size_t made = 0, steps = 0;
  const auto state_of = [&](const std::vector<int>& from) {
    ++made;
    std::vector<int> of;
    const auto reach = [&](int state) {
      if (std::exchange(seen[state], made) != made) of.push_back(state);
    };
    for (const int state : from) reach(state);
    for (size_t i = 0; i < of.size(); ++i) {
      for (const int free : nfa.states[of[i]].free) reach(free);
    }
    steps += of.size() + 1;
    std::sort(of.begin(), of.end());
    const auto [found, is_new] = known.try_emplace(of, static_cast<int>(sets.size()));
    if (is_new) {
      dfa.states.emplace_back();
      for (const int state : of) dfa.states.back().ends |= nfa.states[state].ends;
      sets.push_back(std::move(of));
    }
    return found->second;
  };
  state_of({0});
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets.size() > kStatesMax) return std::nullopt;
    for (const auto& [set, within] : classes) {
      if ((steps += sets[i].size()) > kClassStepsMax) return std::nullopt;
      std::vector<int> to;
      for (const int state : sets[i]) {
        const int character = nfa.states[state].set;
        if (std::binary_search(within.begin(), within.end(), character)) to.push_back(state + 1);
      }
      const int next = state_of(to);
      dfa.states[i].next.push_back(next);
    }
  }
  return dfa;
}

// The automaton with as few states as tell the same apart.
Dfa Smallest(const Dfa& dfa) {
  std::vector<int> group(dfa.states.size());
  size_t groups = 0;
  for (;;) {
    std::map<std::vector<int>, int> known;
    std::vector<int> next(dfa.states.size());
    for (size_t i = 0; i < dfa.states.size(); ++i) {
      std::vector<int> key = {static_cast<int>(dfa.states[i].ends), group[i]};
      for (const int to : dfa.states[i].next) key.push_back(group[to]);
      next[i] = known.try_emplace(std::move(key), static_cast<int>(known.size())).first->second;
    }
    group = std::move(next);
    if (known.size() == groups) break;
    groups = known.size();
  }
  Dfa smallest;
  smallest.classes = dfa.classes;
  smallest.states.resize(groups);
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    Dfa::State& state = smallest.states[group[i]];
    if (!state.next.empty()) continue;
    state.ends = dfa.states[i].ends;
    for (const int to : dfa.states[i].next) state.next.push_back(group[to]);
  }
  return smallest;
}

// A regex, or none at all; what is more than one character or group stands in parentheses where it
// has alternatives.
using Regex = std::optional<std::string>;

Regex Either(const Regex& a, const Regex& b) {
  if (!a || !b || a == b) return a ? a : b;
  if (a->empty()) return StrCat("(", *b, "|)");
  return StrCat("(", *a, "|", *b, ")");
}

// The regex of what leads to the states that end with `ends` exactly; "": none. Nothing: it is too
// long. States are taken out one by one, those with the fewest ways through them first.
std::optional<std::string> RegexOf(const Dfa& dfa, uint32_t ends) {
  const size_t count = dfa.states.size(), begin = count, end = count + 1;
  std::vector<std::map<size_t, std::string>> to(count + 2);
  to[begin][0] = "";
  for (size_t i = 0; i < count; ++i) {
    std::map<size_t, CharacterSet> sets;
    for (size_t c = 0; c < dfa.classes.size(); ++c) {
      sets[static_cast<size_t>(dfa.states[i].next[c])].Add(dfa.classes[c]);
    }
    for (const auto& [next, set] : sets) to[i][next] = set.Regex();
    if (dfa.states[i].ends == ends) to[i][end] = "";
  }
  std::vector<bool> left(count, true);
  size_t joined = 0;
  const auto ways = [&](size_t state) {
    size_t in = 0;
    for (const auto& from : to) in += from.contains(state) ? 1 : 0;
    return in * to[state].size();
  };
  for (size_t round = 0; round < count; ++round) {
    size_t out = count;
    for (size_t i = 0; i < count; ++i) {
      if (left[i] && (out == count || ways(i) < ways(out))) out = i;
    }
    left[out] = false;
    std::string around;
    if (const auto loop = to[out].find(out); loop != to[out].end()) {
      around = StrCat("(", loop->second, ")*");
      to[out].erase(loop);
    }
    for (size_t from = 0; from < to.size(); ++from) {
      const auto way = from == out ? to[from].end() : to[from].find(out);
      if (way == to[from].end()) continue;
      const std::string before = way->second + around;
      to[from].erase(way);
      for (const auto& [next, behind] : to[out]) {
        const auto known = to[from].find(next);
        const Regex old = known == to[from].end() ? Regex() : Regex(known->second);
        std::string both = *Either(old, before + behind);
        joined += both.size();
        if (both.size() > kRegexBytesMax || joined > kJoinedBytesMax) return std::nullopt;
        to[from][next] = std::move(both);
      }
    }
    to[out].clear();
  }
  const auto found = to[begin].find(end);
  if (found == to[begin].end()) return "";
  return found->second.empty() ? "(|)" : StrCat("(", found->second, ")");
}

// Of `patterns`, and of `names` under kListed. Nothing: it is too large.
std::optional<Dfa> AutomatonOf(std::span<const std::string> patterns,
                               std::span<const std::string> names) {
  CHECK(patterns.size() <= kNamePatternsMax);
  Nfa nfa;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const int end = NfaReader(patterns[i], &nfa).Read();
    if (end < 0) return std::nullopt;
    nfa.states[end].ends |= 1u << i;
  }
  for (const std::string& name : names) {
    int at = 0;
    for (size_t offset = 0; offset < name.size();) {
      const uint32_t character = DecodeUtf8(name, &offset);
      at = nfa.Step(at, CharacterSet{{character, character}});
    }
    nfa.states[at].ends |= kListed;
    if (nfa.states.size() > kNfaStatesMax) return std::nullopt;
  }
  auto dfa = Determined(nfa);
  if (!dfa) return std::nullopt;
  return Smallest(*dfa);
}

}  // namespace

std::optional<std::vector<NameClass>> ClassesOfNames(std::span<const std::string> patterns,
                                                     std::span<const std::string> names) {
  const auto dfa = AutomatonOf(patterns, names);
  if (!dfa) return std::nullopt;
  std::set<uint32_t> ends;
  for (const Dfa::State& state : dfa->states) {
    if ((state.ends & kListed) == 0) ends.insert(state.ends);
  }
  std::vector<NameClass> classes;
  for (const uint32_t of : ends) {
    auto regex = RegexOf(*dfa, of);
    if (!regex) return std::nullopt;
    if (!regex->empty()) classes.push_back({of, *std::move(regex)});
  }
  return classes;
}

std::optional<std::vector<uint32_t>> PatternsOf(std::span<const std::string> names,
                                                std::span<const std::string> patterns) {
  const auto dfa = AutomatonOf(patterns, {});
  if (!dfa) return std::nullopt;
  std::vector<uint32_t> fitting;
  for (const std::string& name : names) {
    size_t at = 0;
    for (size_t offset = 0; offset < name.size();) {
      const uint32_t character = DecodeUtf8(name, &offset);
      const auto in = std::find_if(dfa->classes.begin(), dfa->classes.end(),
                                   [&](const CharacterSet& set) { return set.Has(character); });
      if (in == dfa->classes.end()) return std::nullopt;  // one that JSON escapes
      const auto index = static_cast<size_t>(in - dfa->classes.begin());
      at = static_cast<size_t>(dfa->states[at].next[index]);
    }
    fitting.push_back(dfa->states[at].ends);
  }
  return fitting;
}

}  // namespace sluice::text
