// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/npz.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/format/dumps/made_files.h"

using namespace gradcodec;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string kArray = npy_of(header_text("<f4", "(2,)"), "abcdefgh");

MadeMember member(const std::string& name, const std::string& content = kArray, uint16_t method = 0) {
  MadeMember made;
  made.name = name;
  made.content = content;
  made.method = method;
  return made;
}

MadeZip zip_of(std::vector<MadeMember> members) {
  MadeZip zip;
  zip.members = std::move(members);
  return zip;
}

std::string read_all(Source& source) {
  std::string out;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    std::string elements(info.byte_size(), '\0');
    source.open(i)->read({0, info.size()}, std::as_writable_bytes(std::span(elements)));
    out += info.name + "=" + elements + ";";
  }
  return out;
}

std::string read_bytes(const std::string& bytes, SourceOptions options = {},
                       std::vector<std::string>* dropped = nullptr) {
  return read_all(*open_source(file_of(bytes), options, dropped));
}

std::string failure(const std::string& bytes) {
  return failure_of([&] { read_bytes(bytes); });
}

std::string failure_to_list(const std::string& bytes) {
  return failure_of([&] { open_source(file_of(bytes), {}, nullptr); });
}

std::string zip64_field(std::initializer_list<uint64_t> values) {
  std::string out = little_endian<uint16_t>(1) + little_endian(static_cast<uint16_t>(8 * values.size()));
  for (const uint64_t value : values) out += little_endian(value);
  return out;
}

std::string zip64_end(uint64_t count, uint64_t size, uint64_t offset, uint64_t record_offset) {
  return "PK\6\6" + little_endian<uint64_t>(44) + little_endian<uint32_t>(45 << 16 | 45) + std::string(8, '\0') +
         little_endian(count) + little_endian(count) + little_endian(size) + little_endian(offset) + "PK\6\7" +
         std::string(4, '\0') + little_endian(record_offset) + little_endian<uint32_t>(1);
}

}  // namespace

TEST_CASE("npz: stored and deflated members, in the directory's order") {
  const auto source = open_source(
      file_of(zip_of({member("b.npy"), member("a/c.npy", kArray, 8), member("a.npy.npy")}).bytes()), {}, nullptr);
  CHECK(source->kind() == DumpKind::npz);
  CHECK(read_all(*source) == "b=abcdefgh;a/c=abcdefgh;a.npy=abcdefgh;");
  CHECK(read_all(*source) == "b=abcdefgh;a/c=abcdefgh;a.npy=abcdefgh;");
  CHECK(open_source(file_of(MadeZip().bytes()), {}, nullptr)->tensors().empty());
}

TEST_CASE("npz: big-endian, Fortran order and bfloat16 as in npy") {
  const std::string swapped = npy_of(header_text(">f4", "(1, 2)"), "abcdefgh");
  const std::string fortran = npy_of(header_text("|i1", "(2, 2)", true), "abcd");
  CHECK(read_bytes(zip_of({member("s.npy", swapped), member("f.npy", fortran), member("g.npy", fortran, 8)}).bytes()) ==
        "s=dcbahgfe;f=acbd;g=acbd;");
  const auto source = open_source(file_of(zip_of({member("v.npy", npy_of(header_text("|V2", "()"), "ab"))}).bytes()),
                                  {true, false}, nullptr);
  CHECK(source->tensors()[0].dtype.code == DType::bf16);
}

TEST_CASE("npz: sizes only after the data, as written to a pipe") {
  MadeZip zip = zip_of({member("a.npy"), member("b.npy", kArray, 8)});
  for (MadeMember& m : zip.members) {
    m.flags = 8;
    m.data = (m.method == 8 ? deflated(kArray) : kArray) + "PK\7\x8" + std::string(12, 'x');
    m.compressed_size = static_cast<uint32_t>(m.data->size() - 16);
  }
  std::string bytes = zip.bytes();
  for (size_t at = bytes.find("PK\3\4"); at != bytes.npos; at = bytes.find("PK\3\4", at + 1))
    bytes.replace(at + 14, 12, 12, '\0');
  CHECK(read_bytes(bytes) == "a=abcdefgh;b=abcdefgh;");
}

TEST_CASE("npz: zip64 fields and end records") {
  MadeMember first = member("a.npy"), second = member("b.npy");
  first.size = first.compressed_size = 0xFFFFFFFF;
  first.extra = "xx" + little_endian<uint16_t>(3) + "abc" + zip64_field({kArray.size(), kArray.size()});
  first.local_extra = std::string(20, 'x');
  const uint64_t second_offset = 30 + 5 + 20 + kArray.size();
  second.header_offset = 0xFFFFFFFF;
  second.extra = zip64_field({second_offset});
  MadeZip zip = zip_of({first, second});
  CHECK(read_bytes(zip.bytes()) == "a=abcdefgh;b=abcdefgh;");
  const uint64_t offset = second_offset + 35 + kArray.size();
  const uint64_t size = 2 * 51 + first.extra.size() + second.extra.size();
  zip.before_end = zip64_end(2, size, offset, offset + size);
  CHECK(read_bytes(zip.bytes()) == "a=abcdefgh;b=abcdefgh;");
  zip.count = 0xFFFF;
  zip.directory_size = zip.directory_offset = 0xFFFFFFFF;
  CHECK(read_bytes(zip.bytes()) == "a=abcdefgh;b=abcdefgh;");
  zip.before_end = zip64_end(3, size, offset, offset + size);
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
  zip.before_end = zip64_end(uint64_t{1} << 60, size, offset, offset + size);
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: ") && Contains("more members"));
  zip.before_end = zip64_end(2, size, offset, offset + size + 1);
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
  zip.before_end = zip64_end(2, size, offset, ~uint64_t{0});
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
  zip.before_end = zip64_end(2, ~uint64_t{0}, offset, offset + size);
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
  zip.count = 1;
  zip.before_end = zip64_end(2, size, offset, offset + size);
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: ") && Contains("disagree"));
}

TEST_CASE("npz: a large mark without its zip64 field, or with a short one") {
  MadeMember m = member("a.npy");
  m.size = 0xFFFFFFFF;
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("no zip64 field"));
  m.extra = "\1";
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m.extra = little_endian<uint16_t>(1) + little_endian<uint16_t>(4) + "abcd";
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m.extra = zip64_field({~uint64_t{0}});
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m.method = 8;
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("deflate cannot"));
  m.compressed_size = 0xFFFFFFFF;
  m.extra = zip64_field({~uint64_t{0}, ~uint64_t{0}});
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m = member("a.npy");
  m.header_offset = 0xFFFFFFFF;
  m.extra = zip64_field({~uint64_t{0} - 3});
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("outside"));
}

TEST_CASE("npz: cut or lengthened anywhere it is refused") {
  const std::string whole = zip_of({member("a.npy"), member("b.npy", kArray, 8)}).bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    CHECK_THAT(failure_to_list(whole.substr(0, size)), StartsWith("3: "));
  }
  CHECK_THAT(failure(whole + "x"), StartsWith("3: "));
  CHECK_THAT(failure(whole + whole), StartsWith("3: "));
  CHECK_THAT(failure(whole.substr(0, 4) + "x" + whole.substr(4)), StartsWith("3: "));
  MadeZip commented = zip_of({member("a.npy")});
  commented.comment = "made by PK\5\6 a test that comments at some length";
  CHECK(read_bytes(commented.bytes()) == "a=abcdefgh;");
}

TEST_CASE("npz: a flipped bit gives other values only with the checksum's consent") {
  const std::string whole = zip_of({member("a.npy"), member("b.npy", kArray, 8)}).bytes();
  const std::string right = read_bytes(whole);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 5, 7}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
      INFO(at << " bit " << bit);
      std::string got;
      const std::string failed = failure_of([&] { got = read_bytes(bytes); });
      const bool same_values = got.find("=abcdefgh;") == 1 && got.rfind("=abcdefgh;") == got.size() - 10;
      CHECK((!failed.empty() || same_values));
    }
  }
}

TEST_CASE("npz: checksum and content of every member are verified before a value is used") {
  for (const uint16_t method : std::initializer_list<uint16_t>{0, 8}) {
    MadeMember m = member("a.npy", kArray, method);
    m.crc = 1;
    // Inflating the header reaches the end of so short a member; of a stored one only the header is looked at.
    CHECK(failure_to_list(zip_of({m}).bytes()).empty() == (method == 0));
    CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("CRC"));
  }
  MadeMember m = member("a.npy", kArray, 8);
  m.data = deflated(kArray) + "junk";
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m.data = deflated(kArray + "more");
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m.data = deflated(kArray.substr(0, kArray.size() - 1));
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m.data = std::string(200, '\xFF');
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
  m.data = deflated(kArray).substr(0, 30);
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: "));
}

TEST_CASE("npz: a member is exactly as long as its header and shape say") {
  for (const uint16_t method : std::initializer_list<uint16_t>{0, 8}) {
    for (size_t size = 0; size < kArray.size(); ++size) {
      CHECK_THAT(failure_to_list(zip_of({member("a.npy", kArray.substr(0, size), method)}).bytes()), StartsWith("3: "));
    }
    CHECK_THAT(failure_to_list(zip_of({member("a.npy", kArray + "x", method)}).bytes()),
               StartsWith("3: ") && Contains("too long"));
    const std::string huge = npy_of(header_text("<f4", "(1000000000000000000,)"), "abcd");
    CHECK_THAT(failure_to_list(zip_of({member("a.npy", huge, method)}).bytes()),
               StartsWith("3: ") && Contains("a.npy"));
    const std::string long_header = "\x93NUMPY" + std::string("\2\0\xF0\xFF\xFF\xFF", 6);
    CHECK_THAT(failure_to_list(zip_of({member("a.npy", long_header, method)}).bytes()),
               StartsWith("3: ") && Contains("4294967292"));
  }
}

TEST_CASE("npz: directories that lie") {
  MadeMember m = member("b.npy");
  m.header_offset = 0;  // the first member's
  CHECK_THAT(failure(zip_of({member("a.npy"), m}).bytes()), StartsWith("3: ") && Contains("local header"));
  MadeMember twin = member("b.npy");
  CHECK_THAT(failure(zip_of({member("a.npy"), member("a.npy")}).bytes()), StartsWith("3: ") && Contains("twice"));
  m = member("a.npy", kArray + zip_of({member("b.npy")}).bytes());
  twin.header_offset = static_cast<uint32_t>(35 + kArray.size());
  CHECK_THAT(failure(zip_of({m, twin}).bytes()), StartsWith("3: ") && Contains("overlaps"));
  m = member("a.npy");
  m.compressed_size = m.size = 100000;
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("more than the file has"));
  m.compressed_size = static_cast<uint32_t>(kArray.size());
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("stored"));
  m = member("a.npy", kArray, 8);
  m.size = 1032 * static_cast<uint32_t>(deflated(kArray).size()) + 1;
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("deflate cannot"));
  m.size = *m.size - 1;
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && !Contains("deflate cannot"));
  m = member("a.npy");
  m.local_method = 8;
  CHECK_THAT(failure(zip_of({m}).bytes()), StartsWith("3: ") && Contains("differs"));
  MadeZip zip = zip_of({member("a.npy"), member("b.npy")});
  for (const uint16_t count : std::initializer_list<uint16_t>{0, 1, 3, 65535}) {
    zip.count = count;
    CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
  }
  zip = zip_of({member("a.npy")});
  zip.directory_offset = 0;
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
  zip = zip_of({member("a.npy")});
  zip.directory_size = 0xFFFFFFF0;
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
  zip = zip_of({member("a.npy")});
  zip.before_directory = "gap";
  CHECK(read_bytes(zip.bytes()) == "a=abcdefgh;");  // a hole is no harm
  zip.before_end = "gap";
  CHECK_THAT(failure(zip.bytes()), StartsWith("3: "));
}

TEST_CASE("npz: names must be names") {
  for (const std::string& name : {std::string(".npy"), std::string("\xFF.npy"), std::string("a\0.npy", 6)}) {
    CHECK_THAT(failure_to_list(zip_of({member(name)}).bytes()), StartsWith("3: "));
  }
  CHECK_THAT(failure_to_list(zip_of({member("\x1b[2J.npy", kArray + "x")}).bytes()), Contains("\\x1b[2J"));
  CHECK(read_bytes(zip_of({member("\xC3\xA9.npy"), member("/a//b/.npy")}).bytes()) ==
        "\xC3\xA9=abcdefgh;/a//b/=abcdefgh;");
}

TEST_CASE("npz: what is no array is refused, or left out when that is asked") {
  const std::string object = npy_of(header_text("|O", "(2,)"), "abcdefgh");
  MadeMember locked = member("locked.npy");
  locked.flags = 1;
  for (const MadeMember& odd : {member("README.txt", "text"), member("o.npy", object), member("o.npy", object, 8),
                                locked, member("bz.npy", kArray, 12), member("zstd.npy", kArray, 93)}) {
    const std::string bytes = zip_of({member("a.npy"), odd, member("b.npy")}).bytes();
    CHECK_THAT(failure_to_list(bytes), StartsWith("6: ") && Contains(odd.name));
    std::vector<std::string> dropped;
    CHECK(read_bytes(bytes, {false, true}, &dropped) == "a=abcdefgh;b=abcdefgh;");
    REQUIRE(dropped.size() == 1);
    CHECK_THAT(dropped[0], Contains(odd.name));
    CHECK(read_bytes(bytes, {false, true}, nullptr) == "a=abcdefgh;b=abcdefgh;");
  }
  // Damage is never dropped.
  CHECK_THAT(failure_of([&] {
               read_bytes(zip_of({member("a.npy", "junk")}).bytes(), {false, true});
             }),
             StartsWith("3: "));
}

TEST_CASE("npz: empty members and directories are left out, with a word") {
  std::vector<std::string> dropped;
  CHECK(read_bytes(zip_of({member("d/", ""), member("marker", ""), member("a.npy"), member("e.bin", "", 0)}).bytes(),
                   {}, &dropped) == "a=abcdefgh;");
  REQUIRE(dropped.size() == 3);
  CHECK_THAT(dropped[0], Contains("d/") && Contains("directory"));
  CHECK_THAT(dropped[1], Contains("marker") && Contains("empty"));
}

TEST_CASE("npz: the sink's file reads back, twice the same") {
  char dir[] = "/tmp/gradcodec-test-XXXXXX";
  REQUIRE(mkdtemp(dir) != nullptr);
  const std::string path = std::string(dir) + "/a.npz";
  const std::vector<TensorInfo> infos = {
      {"a", DType::parse("f4"), {2}}, {"\xC3\xA9/b", DType::parse("i1"), {}}, {"e", DType::parse("f8"), {0, 3}}};
  const auto write = [&](bool all) {
    OutputFile output(path, true, {});
    const auto sink = make_sink(DumpKind::npz, output, infos, {});
    sink->begin(infos[0]);
    sink->write(as_bytes("abcd"));
    if (!all) return;
    sink->write(as_bytes("efgh"));
    sink->end();
    sink->begin(infos[1]);
    sink->write(as_bytes("x"));
    sink->end();
    sink->begin(infos[2]);
    sink->end();
    sink->finish();
  };
  write(false);
  CHECK(access(path.c_str(), F_OK) != 0);
  std::string files[2];
  for (std::string& bytes : files) {
    write(true);
    const auto file = RandomFile::open(path);
    bytes.resize(file->size());
    file->read_at(0, std::as_writable_bytes(std::span(bytes)));
  }
  CHECK(files[0] == files[1]);
  CHECK(read_bytes(files[0]) == "a=abcdefgh;\xC3\xA9/b=x;e=;");
  {
    OutputFile output(path, true, {});
    make_sink(DumpKind::npz, output, {}, {})->finish();
  }
  CHECK(open_source(path, {}, nullptr)->tensors().empty());
  {
    OutputFile output(path, true, {});
    const TensorInfo long_name{std::string(65532, 'n'), DType::parse("f4"), {}};
    CHECK_THAT(failure_of([&] { make_sink(DumpKind::npz, output, {long_name}, {}); }), StartsWith("6: "));
  }
  std::remove(path.c_str());
  rmdir(dir);
}

TEST_CASE("npz: a full disk is an error, not an abort") {
  if (access("/dev/full", W_OK) != 0) return;
  const TensorInfo info{"a", DType::parse("i1"), {4 << 20}};
  OutputFile output("/dev/full", true, {});
  const auto sink = make_sink(DumpKind::npz, output, {info}, {});
  CHECK_THAT(failure_of([&] {
               sink->begin(info);
               sink->write(Bytes(4 << 20));
               sink->end();
               sink->finish();
             }),
             StartsWith("4: ") && Contains("/dev/full"));
}
