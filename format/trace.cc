// SPDX-License-Identifier: Apache-2.0
#include "format/trace.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "format/crew.h"
#include "format/dump_tensor.h"
#include "format/trace_names.h"

namespace gradcodec {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kOnlyTensor = "array";  // what the only tensor of a message is called, as that of an .npy is
constexpr size_t kMostDigits = 18;
constexpr size_t kMostNamed = 3;

bool is_digit(char c) { return kDigits.find(c) != std::string_view::npos; }

// Of digits alone.
std::optional<uint64_t> number_of(std::string_view digits) {
  if (digits.empty()) return std::nullopt;
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > kMostDigits) return std::nullopt;
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// "'a', 'b' and 3 more".
std::string few_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    text += (i == 0 ? "'" : ", '") + escaped(names[i]) + "'";
  }
  if (names.size() > kMostNamed) text += " and " + std::to_string(names.size() - kMostNamed) + " more";
  return text;
}

std::string tensors_text(size_t count) { return std::to_string(count) + (count == 1 ? " tensor" : " tensors"); }

}  // namespace

TraceLayout TraceLayout::parse(std::string_view text) {
  constexpr std::pair<std::string_view, Part::Kind> kHoles[] = {
      {"{step}", Part::step}, {"{worker}", Part::worker}, {"{param}", Part::param}};
  TraceLayout out;
  out.text_ = text;
  while (!text.empty()) {
    const auto hole = std::find_if(std::begin(kHoles), std::end(kHoles),
                                   [&](const auto& known) { return text.starts_with(known.first); });
    if (hole != std::end(kHoles)) {
      out.parts_.push_back({hole->second});
      text.remove_prefix(hole->first.size());
      continue;
    }
    if (out.parts_.empty() || out.parts_.back().kind != Part::literal) out.parts_.emplace_back();
    out.parts_.back().text += text.front();
    text.remove_prefix(1);
  }
  out.check();
  return out;
}

void TraceLayout::check() const {
  const auto fail = [&](const std::string& why) {
    throw Error(Exit::usage, "layout '" + escaped(text_) + "': " + why);
  };
  if (!has_step() && !has_worker()) {
    fail(
        "has neither {step} nor {worker}; names such as step_10/worker_3/fc1.weight have the layout "
        "step_{step}/worker_{worker}/{param}");
  }
  for (const Part::Kind kind : {Part::step, Part::worker, Part::param}) {
    const auto count = std::count_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.kind == kind; });
    if (count > 1) fail("{step}, {worker} and {param} may each stand once");
  }
  for (size_t i = 0; i + 1 < parts_.size(); ++i) {
    const Part &a = parts_[i], &b = parts_[i + 1];
    if (a.kind != Part::literal && b.kind != Part::literal) fail("something must stand between what braces name");
    const bool number_before = a.kind == Part::step || a.kind == Part::worker;
    const bool number_behind = b.kind == Part::step || b.kind == Part::worker;
    if ((number_before && is_digit(b.text.front())) || (number_behind && is_digit(a.text.back()))) {
      fail("no digit may stand beside {step} or {worker}");
    }
  }
}

bool TraceLayout::has(Part::Kind kind) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) { return part.kind == kind; });
}

// From both ends towards {param}, which is what is left: numbers end where digits end, so that there is but one way.
std::optional<TraceLayout::Name> TraceLayout::match(std::string_view name) const {
  Name out;
  out.param = kOnlyTensor;
  const auto take = [&](const Part& part, bool front) {
    if (part.kind == Part::literal) {
      if (front ? !name.starts_with(part.text) : !name.ends_with(part.text)) return false;
      front ? name.remove_prefix(part.text.size()) : name.remove_suffix(part.text.size());
      return true;
    }
    size_t count = 0;
    while (count < name.size() && is_digit(name[front ? count : name.size() - 1 - count])) ++count;
    const std::optional<uint64_t> number = number_of(name.substr(front ? 0 : name.size() - count, count));
    if (!number) return false;
    (part.kind == Part::step ? out.step : out.worker) = *number;
    front ? name.remove_prefix(count) : name.remove_suffix(count);
    return true;
  };
  size_t first = 0, last = parts_.size();
  for (; first < last && parts_[first].kind != Part::param; ++first) {
    if (!take(parts_[first], true)) return std::nullopt;
  }
  if (first == last) return name.empty() ? std::optional(out) : std::nullopt;
  for (; parts_[last - 1].kind != Part::param; --last) {
    if (!take(parts_[last - 1], false)) return std::nullopt;
  }
  if (name.empty()) return std::nullopt;
  out.param = name;
  return out;
}

std::optional<TraceLayout> TraceLayout::guess(const std::vector<TensorInfo>& tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [](const TensorInfo& t) { return parse_trace_name(t.name).in_trace(); });
  if (found == tensors.end()) return std::nullopt;
  std::vector<Part> parts;  // one for each part of the path
  bool step = false, worker = false;
  for (std::string_view left = found->name;;) {
    const size_t end = left.find('/');
    const std::string_view part = left.substr(0, end);
    const TraceName name = parse_trace_name(part);
    const std::string word(part.substr(0, part.find_last_not_of(kDigits) + 1));
    if (name.step && !std::exchange(step, true)) {
      parts.push_back({Part::step, word + "{step}"});
    } else if (name.worker && !std::exchange(worker, true)) {
      parts.push_back({Part::worker, word + "{worker}"});
    } else {
      parts.push_back({Part::literal, std::string(part)});
    }
    if (end == std::string_view::npos) break;
    left.remove_prefix(end + 1);
  }
  // The last run of other parts is the tensor's own name.
  size_t last = parts.size();
  while (last > 0 && parts[last - 1].kind != Part::literal) --last;
  size_t first = last;
  while (first > 0 && parts[first - 1].kind == Part::literal) --first;
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > first && i < last) continue;
    text += (i == 0 ? "" : "/") + (i == first && first < last ? "{param}" : parts[i].text);
  }
  return parse(text);
}

// What is known of the names before it is known which tensors are replayed.
class Trace::Builder {
 public:
  Builder(const Source& source, const TraceLayout& layout, const TraceOptions& options,
          std::vector<std::string>& left_out)
      : all_(source.tensors()), layout_(layout), options_(options), left_out_(left_out) {}

  void run() {
    sort_names();
    if (cells_.empty()) throw Error(Exit::usage, nothing());
    keep_common();
  }

  using Key = std::pair<uint64_t, uint64_t>;                   // step, worker
  using ByParam = std::map<std::string, size_t, std::less<>>;  // ordinals

  const std::map<Key, ByParam>& cells() const { return cells_; }
  const std::vector<std::string>& params() const { return params_; }
  size_t first() const { return first_->second; }

 private:
  void sort_names() {
    std::vector<std::string> unfit, no_floats;
    for (size_t i = 0; i < all_.size(); ++i) {
      const TensorInfo& info = all_[i];
      const std::optional<TraceLayout::Name> name = layout_.match(info.name);
      if (!name) {
        unfit.push_back(info.name);
        continue;
      }
      if (!info.dtype.is_float()) {
        no_floats.push_back(info.name);
        continue;
      }
      if (name->worker >= kMostWorkers) {
        throw Error(Exit::limit,
                    "is of worker " + std::to_string(name->worker) + ", and messages know workers below 2^32")
            .in_tensor(info.name);
      }
      if (!first_ || name->step < first_->first) first_ = {name->step, i};
      if (name->step < options_.first_step || name->step > options_.last_step) continue;
      const auto [other, is_new] = cells_[{name->step, name->worker}].emplace(name->param, i);
      if (!is_new) {
        throw Error(Exit::usage, "'" + escaped(all_[other->second].name) + "' and '" + escaped(info.name) +
                                     "' are the same tensor of the same step and worker under the layout '" +
                                     escaped(layout_.text()) + "'");
      }
    }
    if (!unfit.empty() && !options_.drop) {
      throw Error(Exit::usage, std::to_string(unfit.size()) + " of " + std::to_string(all_.size()) +
                                   " names do not fit the layout '" + escaped(layout_.text()) + "': " + few_of(unfit) +
                                   ": give another --layout, or leave them out by --drop-unsupported");
    }
    if (!unfit.empty()) {
      left_out_.push_back(tensors_text(unfit.size()) + " whose names do not fit the layout: " + few_of(unfit));
    }
    if (!no_floats.empty())
      left_out_.push_back(tensors_text(no_floats.size()) + " of no float type: " + few_of(no_floats));
  }

  std::string nothing() const {
    if (first_)
      return "has no step from " + std::to_string(options_.first_step) + " to " + std::to_string(options_.last_step);
    return "has no tensor of floats that fits the layout '" + escaped(layout_.text()) + "'";
  }

  static std::string place_text(const Key& key) {
    return "step " + std::to_string(key.first) + ", worker " + std::to_string(key.second);
  }

  // Those that all messages have, in the same shape; in the order in which the first message has them.
  void keep_common() {
    const auto& [first_key, first_cell] = *cells_.begin();
    std::map<std::string, size_t> ordinals(first_cell.begin(), first_cell.end());
    std::map<std::string, std::string> faults;
    for (const auto& [key, cell] : cells_) {
      for (const auto& [param, ordinal] : ordinals) {
        const auto found = cell.find(param);
        if (found == cell.end()) {
          faults.emplace(param, "is there at " + place_text(first_key) + " and not at " + place_text(key));
        } else if (all_[found->second].shape != all_[ordinal].shape) {
          faults.emplace(param, "is of shape " + shape_text(all_[ordinal].shape) + " at " + place_text(first_key) +
                                    " and " + shape_text(all_[found->second].shape) + " at " + place_text(key));
        }
      }
      for (const auto& [param, ordinal] : cell) {
        if (ordinals.count(param) > 0) continue;
        faults.emplace(param, "is there at " + place_text(key) + " and not at " + place_text(first_key));
      }
    }
    for (const auto& [param, fault] : faults) {
      if (!options_.drop) {
        throw Error(Exit::bad_input, fault +
                                         ": all messages of a trace have the same tensors (--drop-unsupported leaves "
                                         "out those that differ)")
            .in_tensor(param);
      }
    }
    if (!faults.empty()) {
      std::vector<std::string> names;
      for (const auto& [param, fault] : faults) names.push_back(param);
      left_out_.push_back(tensors_text(names.size()) + " that not all messages have in one shape: " + few_of(names));
    }
    std::vector<std::pair<size_t, std::string>> order;
    for (const auto& [param, ordinal] : ordinals) {
      if (faults.count(param) == 0) order.emplace_back(ordinal, param);
    }
    std::sort(order.begin(), order.end());
    for (auto& [ordinal, param] : order) params_.push_back(std::move(param));
    if (params_.empty()) throw Error(Exit::usage, "has no tensor that all messages have in one shape");
  }

  const std::vector<TensorInfo>& all_;
  const TraceLayout& layout_;
  const TraceOptions& options_;
  std::vector<std::string>& left_out_;
  std::map<Key, ByParam> cells_;
  std::vector<std::string> params_;
  std::optional<std::pair<uint64_t, size_t>> first_;  // step and ordinal
};

Trace::Trace(std::unique_ptr<Source> source, const TraceOptions& options) : source_(std::move(source)) {
  if (!options.layout.empty()) {
    layout_ = TraceLayout::parse(options.layout);
  } else if (std::optional<TraceLayout> guessed = TraceLayout::guess(source_->tensors())) {
    layout_ = std::move(*guessed);
  } else {
    throw Error(Exit::usage,
                "has no names with a step or a worker, such as step_10/worker_3/fc1.weight: say how they are made by "
                "--layout, as 'step_{step}/worker_{worker}/{param}'");
  }
  Builder built(*source_, layout_, options, left_out_);
  built.run();
  first_ = built.first();
  std::set<uint64_t> workers;
  for (const auto& [key, cell] : built.cells()) workers.insert(key.second);
  workers_.assign(workers.begin(), workers.end());
  const std::vector<TensorInfo>& all = source_->tensors();
  for (const std::string& param : built.params()) {
    tensors_.push_back({param, {}, all[built.cells().begin()->second.find(param)->second].shape});
    check_tensor_info(tensors_.back());
  }
  for (const auto& [key, cell] : built.cells()) {
    if (steps_.empty() || steps_.back().number != key.first) steps_.push_back({key.first, {}});
    Cell& made = steps_.back().cells.emplace_back();
    made.worker =
        static_cast<size_t>(std::lower_bound(workers_.begin(), workers_.end(), key.second) - workers_.begin());
    for (const std::string& param : built.params()) made.ordinals.push_back(cell.find(param)->second);
  }
}

uint64_t Trace::values() const {
  uint64_t total = 0;
  for (const TensorInfo& info : tensors_) {
    if (__builtin_add_overflow(total, info.size(), &total)) return ~uint64_t{0};
  }
  return total;
}

std::vector<size_t> Trace::workers_at(size_t step) const {
  std::vector<size_t> out;
  for (const Cell& cell : steps_[step].cells) out.push_back(cell.worker);
  return out;
}

const Trace::Cell& Trace::cell(size_t step, size_t worker) const {
  const std::vector<Cell>& cells = steps_[step].cells;
  return *std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) { return cell.worker == worker; });
}

TensorValues Trace::read(size_t step, size_t worker) {
  TensorValues out;
  for (const size_t ordinal : cell(step, worker).ordinals) {
    const TensorInfo& info = source_->tensors()[ordinal];
    in_tensor(info, [&] {
      const DumpTensor tensor(info, source_->open(ordinal));
      std::vector<float>& values = out.emplace_back(static_cast<size_t>(info.size()));
      const std::span<const float> read = tensor.read({0, info.size()}, values);
      if (read.data() != values.data()) std::copy(read.begin(), read.end(), values.begin());
    });
  }
  return out;
}

const TensorInfo& Trace::first_tensor(size_t step, size_t worker) const {
  return source_->tensors()[cell(step, worker).ordinals[0]];
}

const TensorInfo& Trace::first_tensor() const { return source_->tensors()[first_]; }

}  // namespace gradcodec
