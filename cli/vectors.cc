// SPDX-License-Identifier: Apache-2.0
#include "cli/vectors.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codec/error.h"
#include "codec/registry.h"

namespace gradcodec {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kFile = "vector.json";

[[noreturn]] void refuse(const std::string& text) { throw Error(Exit::bad_input, text + ", see README.md there"); }

std::string text_of(const std::string& key, const Json& value) {
  if (!value.is_string()) refuse("'" + escaped(key) + "' is no text");
  return value.get<std::string>();
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path path_of(const fs::path& folder, const std::string& key, const Json& value) {
  fs::path path = (folder / text_of(key, value)).lexically_normal();
  if (!is_there(path)) refuse("'" + escaped(key) + "' names " + escaped(path.string()) + ", which is not there");
  return path;
}

Vector parse_vector(const fs::path& folder, const Json& json) {
  if (!json.is_object()) refuse("is no object of JSON");
  Vector out;
  out.name = folder.filename();
  for (const auto& [key, value] : json.items()) {
    const auto path = [&, &key = key, &value = value] { return path_of(folder, key, value); };
    if (key == "shows") {
      out.shows = text_of(key, value);
    } else if (key == "expected") {
      out.expected = path();
    } else if (key == "exit") {
      if (!value.is_number_unsigned() || value < 1 || value > 255) refuse("'exit' is no code from 1 to 255");
      out.exit = value.get<int>();
    } else if (key == "file") {
      out.inputs["in"] = path();
    } else if (key == "top" || key == "dtype") {
      out.inputs[key] = text_of(key, value);
    } else if (key == "schema" || key == "side" || key == "at" || key == "state") {
      out.inputs[key] = path();
    } else {
      refuse("'" + escaped(key) + "' is not known");
    }
  }
  if (!out.inputs.contains("in")) refuse("names no 'file'");
  if (out.expected.empty() && out.exit == 0) refuse("has neither 'expected' nor 'exit'");
  return out;
}

Vector read_vector(const fs::path& folder) {
  const std::string path = folder / kFile;
  std::ifstream file(path);
  if (!file) throw Error(Exit::io, "cannot be read").in_file(path);
  try {
    return parse_vector(folder, Json::parse(file));
  } catch (const Json::exception& error) {
    throw Error(Exit::bad_input, "is no JSON: " + escaped(error.what())).in_file(path);
  } catch (Error& error) {
    throw error.in_file(path);
  }
}

}  // namespace

const std::vector<std::string>& vector_inputs() {
  static const std::vector<std::string> names = {"in", "schema", "side", "at", "state", "top", "dtype"};
  return names;
}

std::vector<Vector> read_vectors(const std::string& folder, const std::string& glob) {
  std::error_code failed;
  std::vector<fs::path> folders;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (is_there(at->path() / kFile)) folders.push_back(at->path());
  }
  if (failed) throw Error(Exit::io, "cannot be read: " + failed.message()).in_file(folder);
  std::sort(folders.begin(), folders.end());
  std::vector<Vector> out;
  for (const fs::path& each : folders) {
    if (glob.empty() || glob_matches(glob, each.filename().string())) out.push_back(read_vector(each));
  }
  if (!out.empty()) return out;
  throw Error(Exit::usage, folders.empty() ? "has no folders with a vector.json: are these the vectors of spec/vectors?"
                                           : "has no vector named like '" + escaped(glob) + "'")
      .in_file(folder);
}

}  // namespace gradcodec
