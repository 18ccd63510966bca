// SPDX-License-Identifier: Apache-2.0
#include "format/files.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

using namespace gradcodec;
namespace fs = std::filesystem;

namespace {

class Scratch {
 public:
  Scratch() {
    char path[] = "/tmp/gradcodec-test-XXXXXX";
    REQUIRE(mkdtemp(path) != nullptr);
    path_ = path;
  }
  ~Scratch() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ / name; }
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {})); }

 private:
  fs::path path_;
};

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {(std::istreambuf_iterator<char>(in)), {}};
}

Exit refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return Exit::ok;
}

}  // namespace

TEST_CASE("a file that changes while it is read is noticed") {
  const Scratch scratch;
  write(scratch / "a", "12345678");
  const auto file = RandomFile::open(scratch / "a");
  file->check_unchanged();
  fs::last_write_time(scratch / "a", fs::last_write_time(scratch / "a") + std::chrono::seconds(1));
  CHECK(refusal([&] { file->check_unchanged(); }) == Exit::io);
  write(scratch / "b", "12345678");
  const auto longer = RandomFile::open(scratch / "b");
  write(scratch / "b", "123456789");
  CHECK(refusal([&] { longer->check_unchanged(); }) == Exit::io);
}

TEST_CASE("a file that ends early is damage, not a signal") {
  const Scratch scratch;
  write(scratch / "a", "12345678");
  const auto file = RandomFile::open(scratch / "a");
  fs::resize_file(scratch / "a", 4);
  Bytes out(8);
  CHECK(refusal([&] { file->read_at(0, out); }) == Exit::bad_input);
}

TEST_CASE("an output appears whole or not at all") {
  const Scratch scratch;
  write(scratch / "out", "old");
  {
    OutputFile output(scratch / "out", true, {});
    output.write(as_bytes("half"));
    CHECK(contents(scratch / "out") == "old");
    CHECK(scratch.entries() == 2);
  }
  CHECK(scratch.entries() == 1);
  CHECK(contents(scratch / "out") == "old");
  {
    OutputFile output(scratch / "out", true, {});
    output.write(as_bytes("new"));
    output.commit();
  }
  CHECK(scratch.entries() == 1);
  CHECK(contents(scratch / "out") == "new");
  CHECK(refusal([&] { OutputFile(scratch / "out", false, {}); }) == Exit::usage);
  {
    OutputFile output(scratch / "later", false, {});
    write(scratch / "later", "somebody else's");  // while we were writing
    CHECK(refusal([&] { output.commit(); }) == Exit::usage);
  }
  CHECK(contents(scratch / "later") == "somebody else's");
}

TEST_CASE("an output is never the input, nor a link that leads nowhere") {
  const Scratch scratch;
  write(scratch / "a", "text");
  fs::create_hard_link(scratch / "a", scratch / "b");
  fs::create_symlink("nowhere", scratch / "c");
  const Origin origin = InputStream(scratch / "a").origin();
  CHECK(refusal([&] { OutputFile(scratch / "a", true, origin); }) == Exit::usage);
  CHECK(refusal([&] { OutputFile(scratch / "b", true, origin); }) == Exit::usage);
  CHECK(refusal([&] { OutputFile(scratch / "b", true, {}, std::span(&origin, 1)); }) == Exit::usage);
  CHECK(refusal([&] { OutputFile(scratch / "c", true, {}); }) == Exit::usage);
  CHECK(contents(scratch / "a") == "text");
}

TEST_CASE("skipping is reading without looking") {
  const Scratch scratch;
  write(scratch / "a", "0123456789");
  InputStream input(scratch / "a");
  CHECK(input.skip(4));
  Bytes two(2);
  CHECK(input.read(two) == 2);
  CHECK(std::to_integer<char>(two[0]) == '4');
  CHECK_FALSE(input.skip(5));
  CHECK(input.skip(4));
  CHECK(input.position() == 10);
}
