// Losses that `adaquant` needs and its text leaves out, from an attribute of the dump (--loss-attribute).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "format/pipeline.h"

namespace gradcodec {

// `text`, with a loss of 1 for each that it leaves out: what every file of it stores is the same. Throws Error(usage)
// unless the last scheme of it is adaquant and leaves out at least one.
std::string with_any_loss(const std::string& text);

// For each tensor that `schema` codes by `chosen`, that scheme with the losses of the tensor's step; a first loss that
// is left out is that of the dump's first step. Throws Error: usage or bad_input, saying what to do.
std::map<std::string, SchemeChoice, std::less<>> with_losses(const std::string& text, const std::string& attribute,
                                                             const Source& source, const Schema& schema,
                                                             const SchemeChoice& chosen);

// Whether the last scheme of the text is adaquant and leaves out a loss.
bool lacks_losses(std::string_view text);

// The scheme of such a text for the messages of a trace: with the losses of the step that the given tensor of the dump
// belongs to. `first`: a tensor of the first step. `source` outlives it. Throws Error now and when it is called: usage
// or bad_input, saying what to do.
std::function<SchemeChoice(const TensorInfo&)> losses_of_trace(const std::string& text, const std::string& attribute,
                                                               const Source& source, const TensorInfo& first);

}  // namespace gradcodec
