// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "codec/error.h"
#include "format/hdf5/io.h"

using namespace gradcodec;
using namespace gradcodec::hdf5;

namespace {

std::vector<TensorInfo> named(const std::vector<std::string>& names) {
  std::vector<TensorInfo> out;
  for (const std::string& name : names) out.push_back({name, {DType::f4, ""}, {1}});
  return out;
}

}  // namespace

TEST_CASE("names become paths, and those that cannot get another") {
  const std::vector<std::string> names = {"a/b", "a", "/a", "a/", "a//b", ".", "./x", "%", "a%2F%2Fb", "x/y/z", "x/y"};
  const Plan plan = make_plan(named(names), nullptr);
  CHECK(plan.paths[0] == "a/b");
  CHECK(plan.paths[4] == "a%2F%2Fb%1");  // "a%2F%2Fb" is a tensor's own name
  CHECK(plan.paths[7] == "%");
  CHECK(plan.paths[8] == "a%2F%2Fb");
  CHECK(plan.paths[9] == "x/y/z");
  const std::set<std::string> distinct(plan.paths.begin(), plan.paths.end());
  CHECK(distinct.size() == names.size());
  for (const std::string& path : plan.paths) {
    CHECK(is_plain_path(path));
    for (const std::string& other : plan.paths) CHECK_FALSE(other.starts_with(path + "/"));
  }
}

TEST_CASE("a reader finds tensors in the order they came, as far as groups allow") {
  CHECK(make_plan(named({"z", "g/b", "g/a", "c"}), nullptr).order == std::vector<size_t>{0, 1, 2, 3});
  CHECK(make_plan(named({"g/b", "z", "g/a"}), nullptr).order == std::vector<size_t>{0, 2, 1});
  const Tree by_name;
  CHECK(make_plan(named({"z", "a"}), &by_name).order == std::vector<size_t>{1, 0});
}

TEST_CASE("a tree that puts two things in one place is refused") {
  Tree tree;
  tree.groups["g"].links = {{.kind = Link::Kind::soft, .name = "sub", .target = "x"}};
  tree.groups["g/sub"] = {};
  CHECK_THROWS_AS(make_plan({}, &tree), Error);
  Tree on_group;
  on_group.groups[""].links = {{.kind = Link::Kind::soft, .name = "g", .target = "x"}};
  CHECK_THROWS_AS(make_plan(named({"g/t"}), &on_group), Error);
  // But a tensor gives way.
  const Plan plan = make_plan(named({"g"}), &on_group);
  CHECK(plan.paths[0] == "g%1");
}

TEST_CASE("boxes cover a range in order, and are few") {
  const std::vector<std::vector<uint64_t>> shapes = {{7}, {3, 5}, {2, 3, 4}, {1, 6, 1}, {2, 1, 3, 2}};
  for (const auto& shape : shapes) {
    uint64_t size = 1;
    for (const uint64_t dim : shape) size *= dim;
    for (uint64_t first = 0; first <= size; ++first) {
      for (uint64_t count = 0; first + count <= size; ++count) {
        const auto slabs = slabs_of(shape, {first, count});
        CHECK(slabs.size() <= 2 * shape.size());
        uint64_t next = first;
        for (const Slab& slab : slabs) {
          uint64_t at = 0, product = 1;
          for (size_t d = 0; d < shape.size(); ++d) {
            at = at * shape[d] + slab.start[d];
            product *= slab.count[d];
            CHECK(slab.start[d] + slab.count[d] <= shape[d]);
            // Contiguous: after the first dimension that is more than one, all are whole.
            if (d > 0 && slab.count[d - 1] > 1) CHECK(slab.count[d] == shape[d]);
          }
          CHECK(at == next);
          CHECK(product == slab.size);
          next += slab.size;
        }
        CHECK(next == first + count);
      }
    }
  }
  CHECK(slabs_of({4, 0}, {0, 0}).empty());
}
