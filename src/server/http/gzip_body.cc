#include "server/http/gzip_body.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/errors.h"

namespace sluice::server {
namespace {

constexpr size_t kFirstBytes = 16u << 10;
// Added to the window's bits, it asks zlib for gzip's format in place of its own.
constexpr int kGzipFormat = 16;

// zlib's state over one body.
class Inflater {
 public:
  Inflater(std::string_view compressed, bool gzip) : gzip_(gzip) {
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));  // zlib only reads it
    left_ = compressed.size();
    ready_ = inflateInit2(&stream_, MAX_WBITS + (gzip ? kGzipFormat : 0)) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `space` from its beginning and gives how many bytes that were: less than its size once
  // the end has come. Nothing: the body is broken or ends early.
  std::optional<size_t> Fill(char* space, size_t size) {
    stream_.next_out = reinterpret_cast<Bytef*>(space);
    stream_.avail_out = static_cast<uInt>(size);
    while (ready_ && !ended_ && stream_.avail_out > 0) {
      const auto piece =
          static_cast<uInt>(std::min<size_t>(left_, std::numeric_limits<uInt>::max()));
      stream_.avail_in = piece;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      left_ -= piece - stream_.avail_in;
      if (result == Z_STREAM_END) {
        // A gzip file may be several, one behind the other (RFC 1952, 2.2).
        ended_ = left_ == 0;
        if (!ended_ && (!gzip_ || inflateReset(&stream_) != Z_OK)) return std::nullopt;
      } else if (result != Z_OK) {
        return std::nullopt;
      }
    }
    if (!ready_) return std::nullopt;
    return size - stream_.avail_out;
  }
  bool ended() const { return ended_; }

 private:
  const bool gzip_;
  z_stream stream_{};
  size_t left_ = 0;  // compressed bytes
  bool ready_ = false;
  bool ended_ = false;
};

HttpReply TooMuch() {
  return HttpErrorReply(429,
                        "the requests that this client has sent hold its share of the memory; try "
                        "again when some are answered");
}

}  // namespace

std::optional<HttpReply> InflateBody(HttpRequest* request, size_t bytes_max) {
  const std::string coding = Lower(request->content_encoding);
  if (coding.empty() || coding == "identity") return std::nullopt;
  const bool gzip = coding == "gzip" || coding == "x-gzip";
  if (!gzip && coding != "deflate") {
    return HttpErrorReply(415, StrCat("the Content-Encoding ", Quote(coding),
                                      " is not supported; send gzip, deflate or none"));
  }
  Inflater inflater(request->body, gzip);
  std::string text;
  while (!inflater.ended()) {
    const size_t before = text.size();
    const size_t next = std::min(std::max(kFirstBytes, 2 * before), bytes_max + 1);
    // While it grows there are the compressed body, what there was of the text, and what will be.
    if (!request->lease->Resize(static_cast<int64_t>(request->body.size() + before + next))) {
      return TooMuch();
    }
    text.resize(next);
    const std::optional<size_t> filled = inflater.Fill(text.data() + before, next - before);
    if (!filled) {
      return HttpErrorReply(400, StrCat("the body is not what Content-Encoding says: it is broken "
                                        "as ",
                                        coding, " or ends early"));
    }
    text.resize(before + *filled);
    if (text.size() > bytes_max) {
      return HttpErrorReply(413, StrCat("the body inflates to more than ", bytes_max,
                                        " bytes, the limit (--max-body-bytes)"));
    }
  }
  text.shrink_to_fit();
  request->body = std::move(text);
  // It shrinks, so the budget cannot refuse.
  (void)request->lease->Resize(static_cast<int64_t>(request->body.capacity()));
  return std::nullopt;
}

}  // namespace sluice::server
