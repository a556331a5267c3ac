#include "server/openai/files_api.h"

#include <ctime>
#include <utility>

#include "base/clock.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/errors.h"
#include "server/http/multipart.h"
#include "server/http/target.h"
#include "server/openai/list_page.h"
#include "server/shared/fields.h"

namespace sluice::server {
namespace {

constexpr PageSize kFilesPage = {.otherwise = 10'000, .max = 10'000};  // as OpenAI's
constexpr std::string_view kContent = "/content";

OrderedJson FileJson(const StoredFile& file) {
  return OrderedJson{{"id", file.id},
                     {"object", "file"},
                     {"bytes", file.content.size()},
                     {"created_at", file.created},
                     {"expires_at", file.created + FileStore::kAgeSecondsMax},
                     {"filename", file.filename},
                     {"purpose", file.purpose},
                     {"status", "processed"}};
}

HttpReply NoFile(const std::string& id) {
  return ErrorReply(Status(
      StatusCode::kNotFound,
      StrCat("there is no file ", Quote(id), " of this key; it may have been too old"), "file_id"));
}

Result<StoredFile> ReadFile(const HttpRequest& request) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<FormPart> parts,
                          ParseForm(request.content_type, request.body));
  StoredFile file;
  bool found = false;
  for (const FormPart& part : parts) {
    if (part.name == "purpose") {
      file.purpose = part.content;
    } else if (part.name == "file") {
      found = true;
      file.filename = part.filename;
      file.content = part.content;
    } else if (!part.name.starts_with("expires_after")) {  // files have an age of their own
      return InvalidArgument(
          StrCat("the field ", Quote(part.name), " is not known; send file and purpose"),
          part.name.substr(0, 64));
    }
  }
  if (!found) return InvalidArgument("file is missing; send it as a part of the form", "file");
  if (file.purpose != "batch") {
    return InvalidArgument(StrCat("purpose is ", Quote(file.purpose),
                                  "; it must be \"batch\", for which alone files are kept"),
                           "purpose");
  }
  if (file.filename.size() > kNameBytesMax) {
    return InvalidArgument(
        StrCat("the filename has ", file.filename.size(), " bytes; the limit is ", kNameBytesMax),
        "file");
  }
  if (file.content.empty()) return InvalidArgument("the file is empty; send lines of JSON", "file");
  return file;
}

}  // namespace

bool KeepFile(const std::string& owner, StoredFile* file, FileStore* files) {
  file->id = DrawPrivateId("file-");
  file->created = std::time(nullptr);
  return files->Put(owner, file->id, *file, NowMicros());
}

HttpReply CreateFile(const HttpRequest& request, FileStore* files) {
  Result<StoredFile> file = ReadFile(request);
  if (!file.ok()) return ErrorReply(file.status());
  if (!KeepFile(request.key_salt, &*file, files)) {
    return HttpErrorReply(413, "the file is larger than all that this server keeps of files");
  }
  return JsonReply(FileJson(*file));
}

HttpReply ListFiles(const HttpRequest& request, FileStore* files) {
  const std::string purpose = QueryValue(request.query, "purpose");
  std::vector<OrderedJson> list;
  for (const auto& file : files->List(request.key_salt, NowMicros())) {
    if (purpose.empty() || file->purpose == purpose) list.push_back(FileJson(*file));
  }
  const auto page = PageOf(std::move(list), request.query, kFilesPage);
  return page.ok() ? JsonReply(*page) : ErrorReply(page.status());
}

HttpReply FindFile(const HttpRequest& request, FileStore* files) {
  std::string id = request.path.substr(std::string_view(kFilePrefix).size());
  const bool content = id.ends_with(kContent);
  if (content) id.resize(id.size() - kContent.size());
  const auto file = files->Find(request.key_salt, id, NowMicros());
  if (file == nullptr) return NoFile(id);
  if (!content) return JsonReply(FileJson(*file));
  HttpReply reply;
  reply.content_type = "application/octet-stream";
  reply.body = file->content;
  return reply;
}

HttpReply DeleteFile(const HttpRequest& request, FileStore* files) {
  const std::string id = request.path.substr(std::string_view(kFilePrefix).size());
  if (!files->Remove(request.key_salt, id, NowMicros())) return NoFile(id);
  return JsonReply(OrderedJson{{"id", id}, {"object", "file"}, {"deleted", true}});
}

}  // namespace sluice::server
