// Any bytes as a hub's list of files: what is chosen from it lies below its folder, once, and is
// neither a pickle nor over a limit. Up to the first newline an input is the selector.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "fetch/file_plan.h"

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::fetch;
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string selector(input.substr(0, line));
  const Result<HubListing> listing =
      ParseHubListing(input.substr(std::min(line + 1, input.size())));
  if (!listing.ok()) {
    CHECK(!listing.status().message().empty());
    return;
  }
  CHECK(listing->files.size() <= kListedFilesMax && listing->commit.size() == 40);
  const Result<FilePlan> plan = ChooseFiles(*listing, "owner/name", selector);
  if (!plan.ok()) {
    CHECK(!plan.status().message().empty());
    return;
  }
  CHECK(!plan->files.empty());
  std::set<std::string> names;
  const std::filesystem::path root("/cache/owner/name");
  for (const HubFile& file : plan->files) {
    CHECK(names.insert(file.name).second, file.name);
    CHECK(file.size.value_or(0) <= kFileBytesMax);
    const std::filesystem::path path = (root / file.name).lexically_normal();
    CHECK(path.string().starts_with("/cache/owner/name/"), path.string());
    CHECK(!file.name.ends_with(".bin") || file.name == selector, file.name);
  }
  CHECK(plan->gguf.empty() || names.contains(plan->gguf), plan->gguf);
}
