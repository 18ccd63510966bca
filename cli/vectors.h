// The conformance vectors of spec/vectors, as its README.md lays them out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace gradcodec {

struct Vector {
  std::string name;                           // of its folder
  std::string shows;                          // what for, in a line
  std::map<std::string, std::string> inputs;  // {in} and what else a decoder needs; paths, but for {top} and {dtype}
  std::string expected;                       // path of the dump; empty if the file is to be refused
  int exit = 0;  // of a file to be refused, the exit code; with a dump, one that is as right
};

// What `inputs` may have.
const std::vector<std::string>& vector_inputs();

// All vectors of the folder whose names match the glob (all, if it is empty), by name. Throws Error(usage) if there is
// none, Error(io), Error(bad_input) naming the vector.json that is none, or names a file that is not there.
std::vector<Vector> read_vectors(const std::string& folder, const std::string& glob);

}  // namespace gradcodec
