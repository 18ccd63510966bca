// A scheme in short, for lists: made from what it declares, so that no list is kept by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codec/promise.h"
#include "codec/scheme.h"

namespace gradcodec {

// Parameters as they are written, in brackets what may be left out: "s=N[,norm=l2|max][,bucket=N]". N is a whole
// number, F any number. What stands below follows: "k=N|N%[/SCHEME]". Empty if there is nothing to write.
std::string short_params(const Scheme& scheme);

// The same of a preset; and the parameters that it needs, with values: ":k=1%".
std::string short_params(std::span<const ParamSpec> params);
std::string example_params(std::span<const ParamSpec> params);

// A whole text that parse_scheme takes, with no more parameters than it needs: "topk:k=1%", "rotate/qsgd:s=4".
std::string example_of(const Scheme& scheme);

// What is promised, in short: unbiased, "unbiased, clipped" (for values that are limited first), "exact along x",
// contraction, "biased, bounded" (each error), biased: from the most to the least.
std::string_view promise_word(const Promise& promise);

// The word that says less of the two; "exact" says the most.
std::string_view lesser_promise(std::string_view a, std::string_view b);

// What its encoder promises with those parameters; beside these words "unbiased, if near" (if side information is), "as
// below" where it says no more than the scheme below, "with memory" where that is what counts.
std::string promise_word(const Scheme& scheme);

}  // namespace gradcodec
