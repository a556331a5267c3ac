#include "cli/load/sse_reader.h"

#include "base/str_cat.h"

namespace sluice::load {

void SseReader::EndLine(const std::function<void(std::string_view data)>& on_data) {
  std::string_view line = line_;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (!begun_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  begun_ = true;
  if (line.empty()) {
    if (has_data_) on_data(data_);
    data_.clear();
    has_data_ = false;
  } else if (const size_t colon = line.find(':'); line.substr(0, colon) == "data") {
    std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

Status SseReader::Add(std::string_view bytes,
                      const std::function<void(std::string_view data)>& on_data) {
  while (!bytes.empty()) {
    // A line ends with CR, LF or both.
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > kEventBytesMax) {
      return Status(StatusCode::kTooLarge,
                    StrCat("an event of the stream has more than ", kEventBytesMax, " bytes"));
    }
    if (end == std::string_view::npos) break;
    after_cr_ = bytes[end] == '\r';
    EndLine(on_data);
    bytes.remove_prefix(end + 1);
  }
  return OkStatus();
}

}  // namespace sluice::load
