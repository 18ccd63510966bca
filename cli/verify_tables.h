// The findings of verify as tables for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "codec/checks/finding.h"

namespace gradcodec {

std::string finding_title(const TensorFindings& findings);  // the tensor, and the stage if it has one

// A table, what it leaves out and why, and the likeliest cause if something is broken. `all`: each linear test and lag,
// else the worst. `one_message`: of a file, where no number of trials can be asked for.
void print_findings(const TensorFindings& findings, bool all, bool one_message);

// The heading of one line a tensor, and the line.
std::vector<std::string> finding_heading();
std::vector<std::string> finding_line(const TensorFindings& findings, bool one_message);

// How the most likely cause of a broken finding is put. `one_message`: the file may belong to another dump.
std::string cause_of(const std::string& check, bool one_message);

const Finding* find_check(const TensorFindings& findings, std::string_view name);  // null if there is none

}  // namespace gradcodec
