#include "cli/load/dataset.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/json.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/load/lengths.h"

namespace sluice::load {
namespace {

constexpr size_t kEntryBytesMax = size_t{16} << 20;

// The bytes of a file one by one, and the line that they stand in.
class Bytes {
 public:
  Bytes(const RegularFile& file, const std::string& path) : file_(file), path_(path) {}

  // False at the end, and after an error.
  bool Next(char* byte) {
    if (at_ == size_) Read();
    if (at_ == size_) return false;
    *byte = block_[at_++];
    line_ += *byte == '\n';
    return true;
  }
  int line() const { return line_; }  // of the next byte
  const Status& status() const { return status_; }

 private:
  void Read() {
    ssize_t got = 0;
    do {
      got = read(file_.fd(), block_.data(), block_.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) status_ = FileError(path_, "read", errno);
    at_ = 0;
    size_ = got > 0 ? static_cast<size_t>(got) : 0;
  }

  const RegularFile& file_;
  const std::string& path_;
  std::array<char, 1 << 16> block_;
  size_t at_ = 0, size_ = 0;
  int line_ = 1;
  Status status_;
};

bool IsBlank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

class DatasetReader {
 public:
  DatasetReader(const RegularFile& file, const std::string& path, size_t most)
      : path_(path), most_(most), bytes_(file, path) {}

  Result<std::vector<DatasetEntry>> Read() {
    char first = ' ';
    while (IsBlank(first) && bytes_.Next(&first)) {
    }
    if (!IsBlank(first)) SLUICE_RETURN_IF_ERROR(first == '[' ? ReadList() : ReadLines(first));
    SLUICE_RETURN_IF_ERROR(bytes_.status());
    if (entries_.empty()) {
      return InvalidArgument(
          StrCat(Quote(path_), " of --dataset has no prompts; give it an object a line, as ",
                 R"({"prompt": "Hello", "output_len": 64})"),
          "dataset");
    }
    return std::move(entries_);
  }

 private:
  Status Wrong(int line, std::string_view what) const {
    return InvalidArgument(StrCat(Quote(path_), " of --dataset, line ", line, ": ", what),
                           "dataset");
  }

  Result<Json> Parse(const std::string& text, int line) const {
    auto json = ParseJson(text, "it");
    if (!json.ok()) return Wrong(line, json.status().message());
    if (!json->is_object()) return Wrong(line, "it is no object with a prompt");
    return json;
  }

  Status ReadLines(char first) {
    std::string text(1, first);
    int line = bytes_.line();
    for (char byte = 0; entries_.size() < most_;) {
      const bool more = bytes_.Next(&byte);
      if (more && byte != '\n') text += byte;
      if (text.size() > kEntryBytesMax) return Wrong(line, "it has more than 16 MiB");
      if (more && byte != '\n') continue;
      if (text.find_first_not_of(" \t\r") != std::string::npos) {
        SLUICE_ASSIGN_OR_RETURN(const Json json, Parse(text, line));
        SLUICE_RETURN_IF_ERROR(AddLine(json, line));
      }
      if (!more) break;
      text.clear();
      line = bytes_.line();
    }
    return OkStatus();
  }

  Status AddLine(const Json& json, int line) {
    DatasetEntry entry;
    const auto prompt = json.find("prompt");
    if (prompt != json.end() && prompt->is_string()) {
      entry.prompt = prompt->get<std::string>();
    } else if (prompt != json.end() && prompt->is_array() && !prompt->empty()) {
      std::vector<int32_t> ids;
      for (const Json& id : *prompt) {
        if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
          return Wrong(line, "its prompt is neither a text nor a list of token ids");
        }
        ids.push_back(id.get<int32_t>());
      }
      entry.prompt = std::move(ids);
    } else {
      return Wrong(line, "it has no prompt, which is a text or a list of token ids");
    }
    for (const char* name : {"output_len", "output_tokens", "max_tokens"}) {
      const auto length = json.find(name);
      if (length == json.end()) continue;
      if (!length->is_number_integer() || *length < 1 || *length > kLengthMax) {
        return Wrong(line, StrCat(name, " is ", DumpJson(*length).substr(0, 40),
                                  "; it must be a number of tokens from 1 to ", kLengthMax));
      }
      entry.output_tokens = length->get<int>();
      break;
    }
    entries_.push_back(std::move(entry));
    return OkStatus();
  }

  // Items of a list, behind its bracket: each is an object, whose end its braces tell.
  Status ReadList() {
    std::string text;
    int depth = 0, line = bytes_.line();
    bool in_string = false, escaped = false;
    for (char byte = 0; entries_.size() < most_ && bytes_.Next(&byte);) {
      if (depth == 0) {
        if (IsBlank(byte) || byte == ',') continue;
        if (byte == ']') return OkStatus();
        if (byte != '{') return Wrong(bytes_.line(), "an item of the list is no object");
        line = bytes_.line();
      }
      text += byte;
      if (text.size() > kEntryBytesMax) return Wrong(line, "an item has more than 16 MiB");
      if (in_string) {
        in_string = escaped || byte != '"';
        escaped = !escaped && byte == '\\';
        continue;
      }
      in_string = byte == '"';
      depth += byte == '{' ? 1 : byte == '}' ? -1 : 0;
      if (depth > 0) continue;
      SLUICE_ASSIGN_OR_RETURN(const Json json, Parse(text, line));
      SLUICE_RETURN_IF_ERROR(AddConversation(json, line));
      text.clear();
    }
    if (entries_.size() < most_) return Wrong(bytes_.line(), "the list ends in the middle");
    return OkStatus();
  }

  Status AddConversation(const Json& json, int line) {
    const auto turns = json.find("conversations");
    if (turns == json.end() || !turns->is_array()) {
      return Wrong(line, "an item has no list of conversations, as ShareGPT's have");
    }
    if (turns->size() < 2) return OkStatus();
    std::string texts[2];
    for (size_t i = 0; i < 2; ++i) {
      const Json& turn = (*turns)[i];
      const auto value = turn.is_object() ? turn.find("value") : turn.end();
      if (!turn.is_object() || value == turn.end() || !value->is_string()) {
        return Wrong(line, "a turn of a conversation has no text as its value");
      }
      texts[i] = value->get<std::string>();
    }
    if (texts[0].empty() || texts[1].empty()) return OkStatus();
    entries_.push_back({.prompt = std::move(texts[0]),
                        .output_tokens = std::nullopt,
                        .answer = std::move(texts[1])});
    return OkStatus();
  }

  const std::string& path_;
  const size_t most_;
  Bytes bytes_;
  std::vector<DatasetEntry> entries_;
};

}  // namespace

Result<std::vector<DatasetEntry>> ReadDataset(const std::string& path, size_t most) {
  SLUICE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  return DatasetReader(file, path, most).Read();
}

}  // namespace sluice::load
