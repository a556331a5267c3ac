// PyTorch's file of weights: what torch.save writes is read, and whatever else may stand in a
// pickle or a zip file is refused in a sentence. A file that PyTorch itself wrote is among the
// heads of tests/golden.
#include "files/pytorch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/str_cat.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::string Raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

struct WrittenEntry {
  std::string name, content;
  uint16_t method = 0;
  bool wide = false;  // sizes and offset stand in the form of 64 bits
};

// As zip files are written, and with `wide` as large ones are.
std::string Zip(const std::vector<WrittenEntry>& entries, bool wide = false) {
  std::string file, directory;
  for (const WrittenEntry& entry : entries) {
    const auto size = static_cast<uint32_t>(entry.content.size());
    const auto names = Raw<uint16_t>(static_cast<uint16_t>(entry.name.size()));
    const auto begin = static_cast<uint32_t>(file.size());
    const std::string extra = entry.wide
                                  ? Raw<uint16_t>(1) + Raw<uint16_t>(24) + Raw<uint64_t>(size) +
                                        Raw<uint64_t>(size) + Raw<uint64_t>(begin)
                                  : "";
    const auto number = [&](uint32_t n) { return Raw<uint32_t>(entry.wide ? UINT32_MAX : n); };
    file += Raw<uint32_t>(0x04034b50) + std::string(4, '\0') + Raw(entry.method) +
            std::string(8, '\0') + Raw(size) + Raw(size) + names + Raw<uint16_t>(3) + entry.name +
            "pad" + entry.content;
    directory += Raw<uint32_t>(0x02014b50) + std::string(6, '\0') + Raw(entry.method) +
                 std::string(8, '\0') + number(size) + number(size) + names +
                 Raw(static_cast<uint16_t>(extra.size())) + std::string(10, '\0') + number(begin) +
                 entry.name + extra;
  }
  const uint64_t begin = file.size(), size = directory.size(), count = entries.size();
  file += directory;
  if (wide) {
    const uint64_t end = file.size();
    file += Raw<uint32_t>(0x06064b50) + std::string(28, '\0') + Raw(count) + Raw(size) + Raw(begin);
    file += Raw<uint32_t>(0x07064b50) + std::string(4, '\0') + Raw(end) + Raw<uint32_t>(1);
  }
  const auto number = [&](uint64_t n) { return wide ? UINT32_MAX : static_cast<uint32_t>(n); };
  return file + Raw<uint32_t>(0x06054b50) + std::string(6, '\0') +
         Raw(static_cast<uint16_t>(number(count))) + Raw(number(size)) + Raw(number(begin)) +
         std::string(2, '\0');
}

// Parts of pickles, in their instructions.
std::string Text(const std::string& text) {
  return "X" + Raw(static_cast<uint32_t>(text.size())) + text;
}
std::string Int(int32_t number) { return "J" + Raw(number); }
std::string Tuple(const std::string& items) { return "(" + items + "t"; }

// A tensor of two rows; a test spoils what it is about.
struct Tensor {
  std::string type = "FloatStorage", storage = "0";
  std::string offset = Int(1), shape = Int(2) + Int(3), strides = Int(3) + Int(1);

  std::string Pickled() const {
    return "ctorch._utils\n_rebuild_tensor_v2\n" +
           Tuple(Tuple(Text("storage") + "ctorch\n" + type + "\n" + Text(storage) + Text("cpu") +
                       Int(7)) +
                 "Q" + offset + Tuple(shape) + Tuple(strides) +
                 "\x89"
                 "ccollections\nOrderedDict\n)R") +
           "R";
  }
};

std::string Dictionary(const std::string& items) {
  return "\x80\x02"s + "ccollections\nOrderedDict\n)Rq\0("s + items + "u}" + Text("_metadata") +
         "h\0sb."s;
}
std::string Pickle(const Tensor& tensor) {
  return Dictionary(Text("fc.weight") + tensor.Pickled());
}

std::string Numbers() {
  std::string bytes;
  for (int i = 0; i < 7; ++i) bytes += Raw(static_cast<float>(i));
  return bytes;
}
std::vector<WrittenEntry> Entries(const std::string& pickle) {
  return {{"archive/data.pkl", pickle},
          {"archive/byteorder", "little"},
          {"archive/data/0", Numbers()},
          {"archive/version", "3\n"}};
}

Result<std::vector<FileTensor>> Parse(const std::string& bytes) {
  return ParsePytorch(std::as_bytes(std::span(bytes.data(), bytes.size())));
}
std::string PytorchError(const std::string& bytes) {
  const auto parsed = Parse(bytes);
  if (parsed.ok()) return "no error";
  EXPECT_EQ(parsed.status().code(), StatusCode::kBadModel);
  EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos) << parsed.status().message();
  return parsed.status().message();
}
std::string PytorchError(const Tensor& tensor) {
  return PytorchError(Zip(Entries(Pickle(tensor))));
}

TEST(PytorchFile, TensorsLieWhereThePickleSays) {
  for (const bool wide : {false, true}) {
    std::vector<WrittenEntry> entries = Entries(Pickle({}));
    for (WrittenEntry& entry : entries) entry.wide = wide;
    const std::string bytes = Zip(entries, wide);
    const auto tensors = Parse(bytes);
    ASSERT_TRUE(tensors.ok()) << tensors.status().message();
    ASSERT_EQ(tensors->size(), 1);
    const FileTensor& tensor = tensors->front();
    EXPECT_EQ(tensor.name, "fc.weight");
    EXPECT_EQ(tensor.dtype, DType::kF32);
    EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
    float numbers[6];
    ASSERT_EQ(tensor.data.size(), sizeof(numbers));
    std::memcpy(numbers, tensor.data.data(), sizeof(numbers));
    EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST(PytorchFile, AFileIsMapped) {
  const testing::TempFolder folder;
  const std::string path = folder.Write(kPytorchName, Zip(Entries(Pickle({}))));
  const auto opened = OpenPytorch(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const FileTensor* tensor = (*opened)->Find("fc.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ((*opened)->Find("fc"), nullptr);
  (*opened)->Release(*tensor);
  EXPECT_EQ(OpenPytorch(folder.path() + "/none").status().code(), StatusCode::kNotFound);
}

TEST(PytorchFile, AParameterIsItsTensor) {
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n" + Tuple(Tensor().Pickled() + "\x88" + "N") + "R";
  const std::string bytes = Zip(Entries(Dictionary(Text("fc.weight") + parameter)));
  const auto tensors = Parse(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_THAT(tensors->front().shape, ElementsAre(2, 3));
}

TEST(PytorchFile, WhatIsNoTensorIsLeftOut) {
  const std::string bytes = Zip(Entries(Dictionary(
      Text("step") + Int(5) + Text("list") + "](K\1K\2e" + Text("names") + "]" + Text("a") + "a")));
  const auto tensors = Parse(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_TRUE(tensors->empty());
}

TEST(PytorchFile, NothingIsCalledButWhatMakesTensors) {
  EXPECT_THAT(PytorchError(Zip(Entries("\x80\x02"
                                       "cposix\nsystem\n" +
                                       Tuple(Text("true")) + "R."))),
              HasSubstr("asks for \"posix.system\", which is no part of weights"));
  EXPECT_THAT(PytorchError(Zip(Entries("\x80\x02"
                                       "(" +
                                       Text("true") + "iposix\nsystem\n."))),
              HasSubstr("has the instruction 105, which weights do not need"));
  EXPECT_THAT(PytorchError(Zip(Entries("\x80\x02"
                                       "ctorch\nFloatStorage\n)R."))),
              HasSubstr("it calls \"torch"));
}

TEST(PytorchFile, TensorsThatDoNotFitAreNamed) {
  Tensor tensor;
  tensor.offset = Int(2);
  EXPECT_THAT(PytorchError(tensor), HasSubstr("\"fc.weight\" asks for more than the 28 bytes"));
  tensor = Tensor();
  tensor.shape = "\x8a\x08"s + Raw<int64_t>(INT64_MAX) + Int(3);
  EXPECT_THAT(PytorchError(tensor), HasSubstr("does not lie row by row"));
  tensor = Tensor();
  tensor.offset = "\x8a\x08"s + Raw<int64_t>(INT64_MAX);
  EXPECT_THAT(PytorchError(tensor), HasSubstr("asks for more than the 28 bytes"));
  tensor = Tensor();
  tensor.strides = Int(1) + Int(2);
  EXPECT_THAT(PytorchError(tensor), HasSubstr("\"fc.weight\" does not lie row by row"));
  tensor = Tensor();
  tensor.storage = "1";
  EXPECT_THAT(PytorchError(tensor),
              HasSubstr("in the storage \"1\", which the file does not have"));
  tensor = Tensor();
  tensor.type = "DoubleStorage";
  EXPECT_THAT(PytorchError(tensor), HasSubstr("asks for \"torch.DoubleStorage\""));
  tensor = Tensor();
  tensor.shape = Int(0) + Int(3);
  EXPECT_THAT(PytorchError(tensor), HasSubstr("a shape or strides that are none"));
  tensor = Tensor();
  tensor.shape = Int(1) + Int(1) + Int(1) + Int(2) + Int(3);
  EXPECT_THAT(PytorchError(tensor), HasSubstr("it has 5 dimensions; the limit is 4"));
  tensor = Tensor();
  tensor.offset = Int(-1);
  EXPECT_THAT(PytorchError(tensor), HasSubstr("do not fit together"));
  tensor = Tensor();
  const std::string named = Text("fc.weight") + tensor.Pickled();
  EXPECT_THAT(PytorchError(Zip(Entries(Dictionary(named + named)))),
              HasSubstr("\"fc.weight\" comes twice"));
}

TEST(PytorchFile, FilesOfOtherFormsAreRefused) {
  EXPECT_THAT(PytorchError("\x80\x02\x8a\x0al\xfc"), HasSubstr("wrote before 1.6"));
  EXPECT_THAT(PytorchError("no zip file"), HasSubstr("it is no zip file"));
  EXPECT_THAT(PytorchError(""), HasSubstr("it is no zip file"));
  EXPECT_THAT(PytorchError(Zip({{"a/weights", "1"}})), HasSubstr("no data.pkl"));
  EXPECT_THAT(PytorchError(Zip(Entries("\x80\x02"
                                       "]."))),
              HasSubstr("no dictionary of tensors"));
  std::vector<WrittenEntry> entries = Entries(Pickle({}));
  entries[1].content = "big";
  EXPECT_THAT(PytorchError(Zip(entries)), HasSubstr("the highest byte first"));
  entries = Entries(Pickle({}));
  entries[2].method = 8;
  EXPECT_THAT(PytorchError(Zip(entries)),
              HasSubstr("\"archive/data/0\" of the zip file is packed"));
  entries[2] = entries[0];
  EXPECT_THAT(PytorchError(Zip(entries)), HasSubstr("the entry \"archive/data.pkl\" twice"));
}

// Whatever is missing or other than it was, the reader says so or reads what is there.
TEST(PytorchFile, DamagedFilesDoNoHarm) {
  const std::string pickle = Pickle({});
  for (size_t size = 0; size < pickle.size(); ++size) {
    EXPECT_NE(PytorchError(Zip(Entries(pickle.substr(0, size)))), "no error") << size;
  }
  const std::string whole = Zip(Entries(pickle), /*wide=*/true);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(PytorchError(whole.substr(0, size)), "no error") << size;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (int change = 0; change <= i % 3; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto tensors = Parse(bytes);
    if (!tensors.ok()) continue;
    for (const FileTensor& tensor : *tensors) {
      EXPECT_GE(tensor.data.data(), reinterpret_cast<const std::byte*>(bytes.data()));
      EXPECT_LE(tensor.data.data() + tensor.data.size(),
                reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
    }
  }
}

}  // namespace
}  // namespace sluice::files
