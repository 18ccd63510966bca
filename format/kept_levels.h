// Levels that one message fitted and another keeps, so that both have the same and nothing is fitted twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "format/layout.h"
#include "format/stored_message.h"

namespace gradcodec {

using KeptLevels = std::map<std::string, std::vector<float>, std::less<>>;

// Of each tensor that `schema` does not code by raw: the levels that the tensor of the same name has in `message`.
// Throws Error(usage) naming the message's file if it has no such tensor, or codes it by another scheme text, or by a
// scheme that fits no levels.
KeptLevels keep_levels(const StoredMessage& message, const Schema& schema);

}  // namespace gradcodec
