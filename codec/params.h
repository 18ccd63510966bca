// Parameters of schemes: typed, ranged and documented once. Help, parsing and the stored text all come from here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gradcodec {

// So many, or so many in a hundred: "250", "1%".
struct Amount {
  double value = 0;
  bool percent = false;
  bool operator==(const Amount&) const = default;

  // Of `total` things: the number itself, at most total; or the share, rounded up, at least 1 if there is any.
  uint64_t of(uint64_t total) const;
};

using Value = std::variant<int64_t, double, std::string, std::vector<int64_t>, Amount>;

struct ParamSpec {
  enum Kind : uint8_t {
    integer,
    real,
    choice,  // one word of `choices`
    list,    // integers, rising, joined by '-'
    amount,  // a whole number, or a percentage of at most 100 with a % behind it
  } kind;
  std::string_view name, help;
  double min = 0, max = 0;        // of numbers, and of each in a list; both allowed
  std::string_view choices = {};  // words joined by '|'
  bool required = false;
  std::string_view fallback = {};  // text of the value if none is given; empty: then there is none
  bool decoder_needs = false;      // kept in the file's scheme text; no real, no amount
  std::string_view example = {};   // a text that is in range; empty: the fallback, or `min`
};

using Params = std::map<std::string, Value, std::less<>>;

// The value that `text` stands for. Throws Error(usage) that names the parameter, its range and an example.
Value parse_value(const ParamSpec& spec, std::string_view text);

// The one text of a value of an integer, a choice or a list.
std::string value_text(const Value& value);

std::string range_text(const ParamSpec& spec);    // "a whole number from 1 to 8", "one of l2, max"
std::string example_text(const ParamSpec& spec);  // a value: "4"

// A parameter that is there, of that kind.
int64_t integer_of(const Params& params, std::string_view name);
double real_of(const Params& params, std::string_view name);
std::string_view choice_of(const Params& params, std::string_view name);
const std::vector<int64_t>& list_of(const Params& params, std::string_view name);
Amount amount_of(const Params& params, std::string_view name);

}  // namespace gradcodec
