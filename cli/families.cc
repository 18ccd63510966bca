// SPDX-License-Identifier: Apache-2.0
#include "cli/families.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace gradcodec {
namespace {

using Texts = std::vector<std::string>;

std::string number_text(double number) {
  std::array<char, 32> out;
  return {out.data(), std::to_chars(out.data(), out.data() + out.size(), number).ptr};
}

// front + value + back for each value.
Family over(const std::string& front, const Texts& values, const std::string& back = "") {
  Family out;
  for (const std::string& value : values) out.settings.push_back(front + value + back);
  return out;
}

Texts counts(int first, int last) {
  Texts out;
  for (int i = first; i <= last; ++i) out.push_back(std::to_string(i));
  return out;
}

// Every n to 16, then eight to a doubling: n times `factor` plus `more`, up to `last`.
Texts doubling(int last, int factor = 1, int more = 0) {
  Texts out;
  for (int n = 1, step = 1; n * factor + more <= last; n += step) {
    if (n == 16 * step) step *= 2;
    out.push_back(std::to_string(n * factor + more));
  }
  return out;
}

// What a scheme may be told as its NMSE, from 10 to 1.2e-6, fifteen a decade.
Texts errors() {
  constexpr std::array kDigits = {100, 90, 80, 70, 60, 50, 45, 40, 35, 30, 25, 20, 17, 14, 12};
  Texts out;
  double divisor = 10;
  for (int decade = 0; decade <= 6; ++decade, divisor *= 10) {
    for (const int digits : kDigits) out.push_back(number_text(digits / divisor));
  }
  return out;
}

Texts shares() {
  return {"0.1%", "0.2%", "0.5%", "1%",  "2%",  "3%",  "5%",  "7%",  "10%", "15%",
          "20%",  "25%",  "30%",  "35%", "40%", "50%", "60%", "70%", "80%", "90%"};
}

// What is sought by trial, whatever is asked for. `inner_nmse`: of what a sparsifier keeps.
std::vector<Family> sought(const std::string& inner_nmse) {
  return {over("dqsg:levels=", doubling(65535, 2, 1)),
          over("dqsg:levels=", doubling(65535, 2, 1), ",bucket=512"),
          over("qsgd:s=", doubling(32767)),
          {{"terngrad"}},
          {{"natural"}},
          over("maxnorm:bits=", counts(1, 15)),
          over("multiscale:bits=", {"1-3", "2-4", "2-6", "3-6", "4-8", "6-10", "8-12", "10-14"}),
          over("nuqsgd:s=", counts(1, 30)),
          over("alq:s=", doubling(126)),
          over("amq:s=", doubling(126)),
          over("tqsgd:bits=", counts(1, 8)),
          over("tnqsgd:bits=", counts(1, 8)),
          over("tbqsgd:bits=", counts(2, 8)),
          over("rotq:bits=", counts(2, 4)),
          {{"drive"}},
          over("eden:bits=", counts(1, 4)),
          over("randk:k=", shares()),
          over("randk:k=", shares(), "/dither:nmse=" + inner_nmse),
          over("topk:k=", shares()),
          over("topk:k=", shares(), "/dither:nmse=" + inner_nmse),
          {{"sign"}},
          {{"onebit"}},
          over("uniform:bits=", counts(2, 16))};
}

std::vector<Family> joined(std::vector<Family> front, std::vector<Family> back) {
  std::move(back.begin(), back.end(), std::back_inserter(front));
  return front;
}

}  // namespace

std::vector<Family> families_for_nmse(double nmse) {
  const std::string text = number_text(nmse);
  std::vector<Family> asked = {{{"dither:nmse=" + text + ",steps=class"}, true},
                               {{"lowrank:rank=16+dither:nmse=" + text + ",steps=class"}, true}};
  for (const char* front : {"dither:nmse=", "choose:nmse=", "lattice:nmse=", "rotate/dither:nmse="}) {
    asked.push_back({{front + text}, true});
  }
  return joined(std::move(asked), sought(number_text(std::max(nmse / 4, 1e-8))));
}

std::vector<Family> families_for_bits(double bits) {
  std::vector<Family> front = {over("dither:nmse=", errors()),
                               over("dither:nmse=", errors(), ",steps=class"),
                               over("lowrank:rank=16+dither:nmse=", errors(), ",steps=class"),
                               {{"choose:bits=" + number_text(bits)}, true},
                               over("lattice:nmse=", errors()),
                               over("rotate/dither:nmse=", errors())};
  return joined(std::move(front), sought("0.03"));
}

}  // namespace gradcodec
