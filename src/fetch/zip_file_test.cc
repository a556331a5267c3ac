#include "fetch/zip_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

namespace sluice::fetch {
namespace {

using files::ReadZipDirectory;
using files::ZipSource;
using ::testing::HasSubstr;

void Put(std::string* out, uint32_t value, int width) {
  for (int i = 0; i < width; ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

std::string Deflated(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// An archive of one file. What it says of the file may be changed by the tests.
struct Archive {
  std::string name = "pkg/model.gguf", text = std::string(700000, 'x') + "end";
  std::string packed = Deflated(text);
  uint32_t method = 8, flags = 0, crc = 0, bytes = 0, packed_bytes = 0, header = 0, entries = 1;
  std::string comment;

  Archive() {
    crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
    bytes = static_cast<uint32_t>(text.size());
    packed_bytes = static_cast<uint32_t>(packed.size());
  }

  std::string Bytes() const {
    std::string out;
    Put(&out, 0x04034b50, 4);
    out.append(22, '\0');  // what the directory says once more
    Put(&out, static_cast<uint32_t>(name.size()), 2);
    Put(&out, 3, 2);
    out += name + "xyz" + packed;
    const auto directory = static_cast<uint32_t>(out.size());
    Put(&out, 0x02014b50, 4);
    Put(&out, 0, 4);
    Put(&out, flags, 2);
    Put(&out, method, 2);
    Put(&out, 0, 4);
    Put(&out, crc, 4);
    Put(&out, packed_bytes, 4);
    Put(&out, bytes, 4);
    Put(&out, static_cast<uint32_t>(name.size()), 2);
    Put(&out, 2, 2);
    Put(&out, 1, 2);
    Put(&out, 0, 4);
    Put(&out, 0, 4);
    Put(&out, header, 4);
    out += name + "ab" + "c";
    const auto size = static_cast<uint32_t>(out.size()) - directory;
    Put(&out, 0x06054b50, 4);
    Put(&out, 0, 4);
    Put(&out, entries, 2);
    Put(&out, entries, 2);
    Put(&out, size, 4);
    Put(&out, directory, 4);
    Put(&out, static_cast<uint32_t>(comment.size()), 2);
    return out + comment;
  }
};

ZipSource SourceOf(const std::string& bytes) {
  return {bytes.size(), [&bytes](uint64_t offset, std::span<std::byte> out) -> Status {
            EXPECT_LE(offset + out.size(), bytes.size());
            if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
            return OkStatus();
          }};
}

// The text of the one file, or "error: " and why.
std::string Extracted(const std::string& bytes) {
  const ZipSource source = SourceOf(bytes);
  const auto entries = ReadZipDirectory(source);
  if (!entries.ok()) return "error: " + entries.status().message();
  if (entries->size() != 1) return "other entries";
  std::string text;
  const Status status =
      ExtractZipEntry(source, entries->front(), [&](std::span<const std::byte> piece) {
        text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        return OkStatus();
      });
  return status.ok() ? text : "error: " + status.message();
}

TEST(ZipFileTest, DeflatedAndStoredFilesComeOut) {
  Archive archive;
  EXPECT_EQ(Extracted(archive.Bytes()), archive.text);
  archive.comment = "made by a test";
  EXPECT_EQ(Extracted(archive.Bytes()), archive.text);
  archive.method = 0;
  archive.packed = archive.text;
  archive.packed_bytes = archive.bytes;
  EXPECT_EQ(Extracted(archive.Bytes()), archive.text);
  EXPECT_EQ(ReadZipDirectory(SourceOf(archive.Bytes()))->front().name, "pkg/model.gguf");
}

// The last piece that is unpacked may fill the buffer, with nothing behind it.
TEST(ZipFileTest, FilesOfWholePiecesComeOut) {
  Archive archive;
  archive.text.assign(size_t{256} << 10, 'x');
  archive.packed = Deflated(archive.text);
  archive.crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(archive.text.data()),
                                            static_cast<uInt>(archive.text.size())));
  archive.bytes = static_cast<uint32_t>(archive.text.size());
  archive.packed_bytes = static_cast<uint32_t>(archive.packed.size());
  EXPECT_EQ(Extracted(archive.Bytes()), archive.text);
}

TEST(ZipFileTest, AnArchiveThatContradictsItselfIsAnError) {
  const auto error = [](auto change) {
    Archive archive;
    change(archive);
    return Extracted(archive.Bytes());
  };
  EXPECT_THAT(error([](Archive& a) { ++a.crc; }), HasSubstr("error"));
  EXPECT_THAT(error([](Archive& a) { --a.bytes; }), HasSubstr("more of"));
  EXPECT_THAT(error([](Archive& a) { ++a.bytes; }), HasSubstr("instead of"));
  EXPECT_THAT(error([](Archive& a) { a.packed_bytes -= 4; }), HasSubstr("error"));
  EXPECT_THAT(error([](Archive& a) { a.packed_bytes += 4; }), HasSubstr("behind the end"));
  EXPECT_THAT(error([](Archive& a) { a.packed_bytes = 1u << 30; }), HasSubstr("no bytes of"));
  EXPECT_THAT(error([](Archive& a) { a.header = 1; }), HasSubstr("no bytes of"));
  EXPECT_THAT(error([](Archive& a) { a.header = 0xfffffff0; }), HasSubstr("no bytes of"));
  EXPECT_THAT(error([](Archive& a) { a.method = 12; }), HasSubstr("method 12"));
  EXPECT_THAT(error([](Archive& a) { a.flags = 1; }), HasSubstr("encrypted"));
  EXPECT_THAT(error([](Archive& a) { a.entries = 2; }), HasSubstr("says 2"));
  EXPECT_THAT(error([](Archive& a) { a.packed.assign(a.packed.size(), '\xff'); }),
              HasSubstr("not deflated"));
}

TEST(ZipFileTest, WhatIsCutOrNoArchiveIsAnError) {
  const std::string bytes = Archive().Bytes();
  for (size_t size = 0; size < bytes.size(); size += 13) {
    EXPECT_THAT(Extracted(bytes.substr(0, size)), HasSubstr("error")) << size;
  }
  EXPECT_THAT(Extracted(std::string(100000, 'P')), HasSubstr("no zip file"));
  EXPECT_THAT(Extracted("PK\x05\x06" + std::string(18, '\xff')), HasSubstr("error"));
}

}  // namespace
}  // namespace sluice::fetch
