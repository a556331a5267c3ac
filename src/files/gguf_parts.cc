#include "files/gguf_parts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/part_name.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/joined_tensors.h"

namespace sluice::files {
namespace {

constexpr char kCountKey[] = "split.count", kNumberKey[] = "split.no";
constexpr char kTensorsKey[] = "split.tensors.count";
constexpr int64_t kPartsMax = 1024;

class JoinedGguf : public GgufFile {
 public:
  JoinedGguf(std::shared_ptr<const GgufFile> first, std::shared_ptr<const TensorSource> tensors)
      : first_(std::move(first)), tensors_(std::move(tensors)) {
    for (const GgufEntry& entry : first_->entries()) {
      const bool split =
          entry.key == kCountKey || entry.key == kNumberKey || entry.key == kTensorsKey;
      if (!split) entries_.push_back(entry);
    }
  }

  const std::vector<FileTensor>& tensors() const override { return tensors_->tensors(); }
  const FileTensor* Find(std::string_view name) const override { return tensors_->Find(name); }
  void Release(const FileTensor& tensor) const override { tensors_->Release(tensor); }
  std::shared_ptr<std::byte> MapPrivately(const FileTensor& tensor) const override {
    return tensors_->MapPrivately(tensor);
  }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const override {
    return first_->metadata();
  }
  const std::vector<GgufEntry>& entries() const override { return entries_; }
  uint64_t alignment() const override { return first_->alignment(); }
  Result<std::optional<int64_t>> Integer(std::string_view key) const override {
    return first_->Integer(key);
  }
  Result<std::optional<double>> Number(std::string_view key) const override {
    return first_->Number(key);
  }
  Result<std::optional<bool>> Boolean(std::string_view key) const override {
    return first_->Boolean(key);
  }
  Result<std::optional<std::string>> String(std::string_view key) const override {
    return first_->String(key);
  }

 private:
  const std::shared_ptr<const GgufFile> first_;
  const std::shared_ptr<const TensorSource> tensors_;
  std::vector<GgufEntry> entries_;
};

Result<int64_t> IntegerOr(const GgufFile& file, const char* key, int64_t otherwise) {
  SLUICE_ASSIGN_OR_RETURN(const auto number, file.Integer(key));
  return number.value_or(otherwise);
}

// `number`: from 1, as in names; in the file they count from 0.
Status CheckPart(const GgufFile& file, const PartName& part, int number) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t count, IntegerOr(file, kCountKey, 1));
  SLUICE_ASSIGN_OR_RETURN(const int64_t own, IntegerOr(file, kNumberKey, 0));
  if (count == part.count && own == number - 1) return OkStatus();
  return BadModel(StrCat("the file says that it is number ", own, " (from 0) of ", count,
                         " parts, and its name says number ", number - 1, " of ", part.count,
                         "; fetch the parts again"));
}

// The first part's own file behind `path`, to which nothing was joined yet.
Result<PartName> NameOfFirst(int64_t count, const std::string& path) {
  if (count > kPartsMax) {
    return BadModel(StrCat("the file is one of ", count, " parts; the limit is ", kPartsMax));
  }
  const std::optional<PartName> part = ParsePartName(path);
  if (!part) {
    const PartName example{"NAME", 1, static_cast<int>(count), ".gguf"};
    return BadModel(StrCat("the file is one of ", count,
                           " parts, and the others cannot be found by "
                           "its name, which is not of the form ",
                           example.Of(1)));
  }
  if (part->number == 1) return *part;
  return BadModel(StrCat("the file is part ", part->number, " of ", part->count,
                         "; name the first, ", Quote(part->Of(1))));
}

}  // namespace

Result<std::shared_ptr<const GgufFile>> JoinGgufParts(std::shared_ptr<const GgufFile> file,
                                                      const std::string& path,
                                                      const OpenGgufPart& open) {
  const auto about = [](const std::string& name, const Status& status) {
    return status.code() == StatusCode::kBadModel ? status.WithContext(name) : status;
  };
  const auto count = IntegerOr(*file, kCountKey, 1);
  if (!count.ok()) return about(path, count.status());
  if (*count <= 1) return file;
  const auto part = NameOfFirst(*count, path);
  if (!part.ok()) return about(path, part.status());
  std::vector<JoinedSource> parts;
  for (int number = 1; number <= part->count; ++number) {
    const std::string name = part->Of(number);
    std::shared_ptr<const GgufFile> next = file;
    if (number > 1) {
      SLUICE_ASSIGN_OR_RETURN(next, open(name));
    }
    if (const Status status = CheckPart(*next, *part, number); !status.ok()) {
      return about(name, status);
    }
    parts.push_back({"", std::move(next)});
  }
  auto joined = JoinTensors(std::move(parts));
  if (!joined.ok()) return about(path, joined.status());
  const auto expected = IntegerOr(*file, kTensorsKey, std::ssize((*joined)->tensors()));
  if (!expected.ok()) return about(path, expected.status());
  if (std::cmp_not_equal((*joined)->tensors().size(), *expected)) {
    return about(
        path, BadModel(StrCat("its ", *count, " parts have ", (*joined)->tensors().size(),
                              " tensors, and the first says ", *expected, "; fetch them again")));
  }
  return std::shared_ptr<const GgufFile>(
      std::make_shared<JoinedGguf>(std::move(file), std::move(*joined)));
}

}  // namespace sluice::files
