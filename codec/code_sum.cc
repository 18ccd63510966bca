// SPDX-License-Identifier: Apache-2.0
#include "codec/code_sum.h"

#include "codec/number_text.h"

namespace gradcodec {
namespace {

const Decoder& leaf_of(const Decoder& decoder) {
  const Decoder* leaf = &decoder;
  while (leaf->inner() != nullptr) leaf = leaf->inner();
  return *leaf;
}

// Of a tensor's stored parameters, those of the schemes over the sum.
Bytes outer_params(const Decoder& decoder, bool below) {
  Bytes params = decoder.stored();
  const Decoder& leaf = leaf_of(decoder);
  if (!below) params.resize(params.size() - leaf.stored().size());
  return params;
}

size_t outer_schemes(const Decoder& decoder, bool below) {
  size_t count = below ? 1 : 0;
  for (const Decoder* at = decoder.inner(); at != nullptr; at = at->inner()) ++count;
  return count;
}

bool is_zero(const Summands& summands) { return summands.steps.front() == 0; }

std::string steps_text(const std::vector<float>& steps) {
  std::string text = steps.size() == 1 ? "step " : "steps ";
  for (const float& step : steps) {
    text += (&step == steps.data() ? "" : ", ") + number_text(static_cast<double>(step), 9);
  }
  return text;
}

}  // namespace

std::optional<std::string> sum_text(const SchemeChoice& choice) {
  // What an encoder remembers leaves no trace in its table.
  const SchemeChoice& leaf = choice.remembers() && choice.inner ? *choice.inner : choice;
  if (leaf.scheme->name() == kSketchScheme) return std::string(kTableSums) + leaf.stored_text();
  if (choice.carries_bytes() || !choice.scheme->adds_up(choice.params)) return std::nullopt;
  if (choice.scheme->name() == kSumScheme) return choice.stored_text();
  const std::string own = SchemeChoice{choice.scheme, choice.params, {}}.stored_text();
  if (choice.inner) {
    const std::optional<std::string> below = sum_text(*choice.inner);
    if (!below || below->starts_with(kTableSums)) return std::nullopt;
    return own + "/" + *below;
  }
  return choice.scheme->inner() == Inner::none ? std::string(kSumScheme) : own + "/sum:of=values";
}

bool sum_is_of_step(const SchemeChoice& sum) {
  const SchemeChoice& leaf = sum.inner ? *sum.inner : sum;
  return leaf.scheme->name() != kSketchScheme || choice_of(leaf.params, "scope") == "step";
}

void CodeSum::join(const Decoder& decoder, uint64_t weight) {
  const Summable* const summable = leaf_of(decoder).summable();
  if (summable == nullptr) throw Misfit{Exit::usage, "its symbols do not add up"};
  const Summands summands = summable->summands();
  const bool of_tables = summands.kind == Summands::tables;  // which stand below nothing
  const Bytes outer = of_tables ? Bytes() : outer_params(decoder, summands.below);
  if (!any_) {
    outer_ = of_tables ? 0 : outer_schemes(decoder, summands.below);
    outer_params_ = outer;
    summands_ = summands;
    summands_.weight = summands_.max_level = 0;
    any_ = true;
  }
  if (outer != outer_params_) throw Misfit{Exit::usage, "it keeps other elements, or another number of them"};
  if (summands.kind != summands_.kind || summands.steps.size() != summands_.steps.size()) {
    throw Misfit{Exit::usage, "it has another number of scales, " + std::to_string(summands.steps.size()) +
                                  " and not " + std::to_string(summands_.steps.size())};
  }
  if (summands.kind == Summands::symbols) {
    if (is_zero(summands_)) summands_.steps = summands.steps;
    if (!is_zero(summands) && summands.steps != summands_.steps) {
      throw Misfit{Exit::usage, "it has " + steps_text(summands.steps) + ", not " + steps_text(summands_.steps) +
                                    ": symbols add up where all workers quantize with one --shared-scale"};
    }
  }
  if (weight > kMaxSummed || summands.weight > (kMaxSummed - summands_.weight) / weight) {
    throw Misfit{Exit::limit, "with it the sum would be of more than 2^53 messages"};
  }
  if (summands.max_level > 0 && weight > (kMaxSum - summands_.max_level) / summands.max_level) {
    throw Misfit{Exit::limit,
                 "with it sums may pass 32767, and an alphabet has 65535 symbols at most: add up fewer, "
                 "or write a dump, which has no such limit"};
  }
  if (of_tables) join_table(summable->table(), weight);
  summands_.weight += weight * summands.weight;
  summands_.max_level += static_cast<uint32_t>(weight) * summands.max_level;
}

void CodeSum::join_table(const Table& table, uint64_t weight) {
  if (!tables_) tables_.emplace(table.layout());
  try {
    tables_->add(table, static_cast<double>(weight));
  } catch (const Error& error) {
    throw Misfit{error.code(), error.text()};
  }
}

Summands CodeSum::total() const {
  Summands summands = summands_;
  summands.factor = mean_ ? 1 / static_cast<double>(summands.weight) : 1;
  return summands;
}

Bytes CodeSum::stored() const {
  const Summands summands = total();
  if (summands.kind == Summands::symbols && !holds_sums(summands, outer_ > 0)) {
    throw Misfit{Exit::limit, "with it the sum may be more than float32 holds"};
  }
  Bytes out = outer_params_;
  put_bytes(out, stored_sum(summands));
  if (!tables_) return out;
  try {
    tables_->total().store(out);
  } catch (const Error& error) {
    throw Misfit{error.code(), "with it " + error.text()};
  }
  return out;
}

void CodeSum::add(const Decoder& decoder, uint64_t weight, const Code& code, Range range, ChunkSum& sum) const {
  const Decoder* leaf = &decoder;
  const Code* of = &code;
  const auto refuse_exceptions = [&] {
    if (of->exceptions.empty()) return;
    throw Misfit{Exit::unsupported,
                 "value " + std::to_string(of->exceptions.front().index) +
                     " of the chunk is kept by its bits (as what is not finite is), and does not add up with symbols: "
                     "write a dump"};
  };
  refuse_exceptions();
  while (leaf->inner() != nullptr) {
    range = leaf->inner_range(*of, range);
    leaf = leaf->inner();
    of = of->inner.get();
    refuse_exceptions();
  }
  if (summands_.kind == Summands::tables) return;  // `join` has added it
  const Summable& summable = *leaf->summable();
  if (summands_.kind == Summands::values) {
    if (summable.summands().below) range = leaf->inner_range(*of, range);
    if (!sum.any) sum.values.assign(static_cast<size_t>(range.count), 0);
    summable.add_values(*of, static_cast<double>(weight), sum.values);
  } else {
    if (!sum.any) sum.symbols.assign(static_cast<size_t>(range.count) * summands_.steps.size(), 0);
    summable.add_symbols(*of, static_cast<int32_t>(weight), sum.symbols);
  }
  sum.any = true;
}

void CodeSum::finish(const ChunkSum& sum, Code& code) const {
  Code* at = &code;
  const auto clear = [&] {
    at->params.clear();
    at->exceptions.clear();
  };
  for (size_t i = 0; i < outer_; ++i) {
    clear();
    at->streams.clear();
    at = &at->below();
  }
  clear();
  at->inner.reset();
  at->rest.reset();
  const Summands summands = total();
  if (summands.kind == Summands::tables) return at->streams.clear();
  if (summands.kind == Summands::symbols) return put_sums(sum.symbols, summands, at->streams);
  for (const double value : sum.values) {
    if (!holds_sum(value * summands.factor)) {
      throw Error(Exit::limit, "a sum is " + number_text(value, 4) + ", more than float32 holds");
    }
  }
  put_sums(sum.values, at->streams);
}

}  // namespace gradcodec
