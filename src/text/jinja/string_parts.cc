// Taking strings apart and replacing parts of them.

#include <algorithm>
#include <cstring>
#include <set>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/unicode/python_str.h"

namespace sluice::text::jinja {
namespace {

void AddPart(Runtime& runtime, std::string_view part, std::vector<std::string_view>* parts) {
  runtime.Step();
  runtime.CheckCount(parts->size() + 1);
  parts->push_back(part);
}

}  // namespace

size_t FindIn(std::string_view text, std::string_view wanted, size_t start) {
  if (start > text.size()) return std::string_view::npos;
  if (wanted.empty()) return start;
  const void* found =
      memmem(text.data() + start, text.size() - start, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::vector<std::string_view> SplitSpace(Runtime& runtime, std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  for (text = StripLeft(text); !text.empty(); text = StripLeft(text)) {
    const bool is_last = limit >= 0 && static_cast<int64_t>(parts.size()) == limit;
    const std::string_view rest =
        is_last ? "" : StripLeft(text, [](char32_t c) { return !IsSpace(c); });
    AddPart(runtime, text.substr(0, text.size() - rest.size()), &parts);
    text = rest;
  }
  return parts;
}

std::vector<std::string_view> SplitText(Runtime& runtime, std::string_view text,
                                        std::string_view separator, int64_t limit) {
  std::vector<std::string_view> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = FindIn(text, separator);
    if (at == std::string_view::npos) break;
    AddPart(runtime, text.substr(0, at), &parts);
    text.remove_prefix(at + separator.size());
  }
  AddPart(runtime, text, &parts);
  return parts;
}

std::vector<std::string_view> SplitTextFromRight(Runtime& runtime, std::string_view text,
                                                 std::string_view separator, int64_t limit) {
  // Backwards, the last occurrence is the first, and all searches together pass over the text once.
  const std::string backwards(text.rbegin(), text.rend());
  const std::string wanted(separator.rbegin(), separator.rend());
  auto parts = SplitText(runtime, backwards, wanted, limit);
  for (std::string_view& part : parts) {
    const size_t end = text.size() - static_cast<size_t>(part.data() - backwards.data());
    part = text.substr(end - part.size(), part.size());
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitLines(Runtime& runtime, std::string_view text, bool keep_ends) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (size_t place = 0; place < text.size();) {
    const size_t end = place;
    const char32_t c = DecodeUtf8(text, &place);
    if (!IsLineBreak(c)) continue;
    if (c == '\r' && place < text.size() && text[place] == '\n') ++place;
    AddPart(runtime, text.substr(start, (keep_ends ? place : end) - start), &parts);
    start = place;
  }
  if (start < text.size()) AddPart(runtime, text.substr(start), &parts);
  return parts;
}

Value PartsToList(Runtime& runtime, const std::vector<std::string_view>& parts, bool markup) {
  runtime.CheckCount(parts.size());
  std::vector<Value> out;
  out.reserve(parts.size());
  for (std::string_view part : parts) out.push_back(runtime.String(std::string(part), markup));
  return runtime.List(std::move(out));
}

std::string ReplaceText(Runtime& runtime, std::string_view text, std::string_view old,
                        std::string_view with, int64_t limit) {
  TextBuilder out(runtime);
  runtime.Work(text.size() * kSearchWork);
  int64_t done = 0;
  size_t place = 0;
  while (limit < 0 || done < limit) {
    const size_t at = old.empty() ? place : FindIn(text, old, place);
    if (at == std::string_view::npos) break;
    out.Append(text.substr(place, at - place));
    out.Append(with);
    ++done;
    place = at + old.size();
    if (!old.empty()) continue;
    if (place >= text.size()) break;
    const size_t bytes = Utf8LengthAt(text, place);
    out.Append(text.substr(place, bytes));
    place += bytes;
  }
  out.Append(text.substr(place));
  return out.Take();
}

Value StripValue(Runtime& runtime, const Value& value, const Value& chars, bool left, bool right) {
  if (!chars.IsNone() && !chars.IsString()) {
    Fail("strip arg must be None or str, not ", TypeName(chars));
  }
  std::string_view text = value.text();
  runtime.Work(text.size() * kSearchWork);
  std::set<char32_t> listed;
  if (chars.IsString()) {
    runtime.Work(chars.text().size() * 16 + text.size() * 8);
    for (size_t place = 0; place < chars.text().size();) {
      listed.insert(DecodeUtf8(chars.text(), &place));
    }
  }
  const auto goes = [&](char32_t c) { return chars.IsNone() ? IsSpace(c) : listed.count(c) != 0; };
  if (left) text = StripLeft(text, goes);
  if (right) text = StripRight(text, goes);
  if (text.size() == value.text().size()) return value;
  return runtime.String(std::string(text), value.markup());
}

}  // namespace sluice::text::jinja
