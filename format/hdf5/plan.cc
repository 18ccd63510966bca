// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/plan.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "codec/error.h"
#include "codec/utf8.h"

namespace gradcodec::hdf5 {
namespace {

using Paths = std::set<std::string, std::less<>>;

[[noreturn]] void contradiction(std::string_view path) {
  throw Error(Exit::bad_input, "the tree record puts two things at '" + escaped(path) + "'");
}

void add_parents(std::string_view path, Paths& groups) {
  // From the inside out: once a group is known, so are those around it.
  for (size_t slash = path.rfind('/'); slash != std::string_view::npos; slash = path.rfind('/')) {
    path = path.substr(0, slash);
    if (!groups.insert(std::string(path)).second) return;
  }
}

// One component of a path that stands for a name which cannot be one, and is not in `used`.
std::string stand_in(std::string_view name, const Paths& used) {
  constexpr size_t kShown = 200;
  std::string out;
  while (!name.empty() && out.size() < kShown) {
    const size_t len = std::max<size_t>(utf8_length(name), 1);
    const std::string_view character = name.substr(0, len);
    if (character == "/") {
      out += "%2F";
    } else if (character == "%") {
      out += "%25";
    } else {
      out += character;
    }
    name.remove_prefix(len);
  }
  if (out == ".") out = "%2E";
  if (!used.contains(out)) return out;
  for (size_t n = 1;; ++n) {
    const std::string numbered = out + "%" + std::to_string(n);
    if (!used.contains(numbered)) return numbered;
  }
}

std::vector<std::string> choose_paths(const std::vector<TensorInfo>& tensors, const Tree* tree) {
  std::vector<std::string> paths;
  Paths groups, used;
  for (const TensorInfo& info : tensors) {
    paths.push_back(info.name);
    if (tree != nullptr) {
      const auto record = tree->tensors.find(info.name);
      if (record != tree->tensors.end() && record->second.path) paths.back() = *record->second.path;
    }
    if (is_plain_path(paths.back())) {
      add_parents(paths.back(), groups);
    } else {
      paths.back().clear();
    }
  }
  if (tree != nullptr) {
    for (const auto& [path, group] : tree->groups) {
      groups.insert(path);
      add_parents(path, groups);
      for (const Link& link : group.links) {
        if (link.kind != Link::Kind::child) used.insert(path.empty() ? link.name : path + "/" + link.name);
      }
    }
  }
  // A dataset cannot be where a group is, nor where another dataset is.
  for (std::string& path : paths) {
    if (groups.contains(path) || (!path.empty() && !used.insert(path).second)) path.clear();
  }
  used.merge(groups);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!paths[i].empty()) continue;
    paths[i] = stand_in(tensors[i].name, used);
    used.insert(paths[i]);
  }
  return paths;
}

// The group at `path`, made with those around it where they are missing.
Node& group_at(Node& root, std::string_view path, size_t tensor) {
  Node* node = &root;
  node->first_tensor = std::min(node->first_tensor, tensor);
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    auto& child = node->children[std::string(rest.substr(0, slash))];
    if (child == nullptr) child = std::make_unique<Node>();
    if (child->kind != Node::Kind::group) contradiction(path);
    node = child.get();
    node->first_tensor = std::min(node->first_tensor, tensor);
    rest = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  }
  return *node;
}

void track_order(Node& node) {
  if (node.kind != Node::Kind::group) return;
  node.group.link_order = Order::indexed;
  for (auto& [name, child] : node.children) track_order(*child);
}

void list_tensors(const Node& node, std::vector<size_t>& order) {
  if (node.kind == Node::Kind::tensor) order.push_back(node.first_tensor);
  for (const auto& [name, child] : node.ordered()) list_tensors(*child, order);
}

}  // namespace

std::vector<std::pair<const std::string*, const Node*>> Node::ordered() const {
  std::vector<std::pair<const std::string*, const Node*>> out;
  for (const auto& [name, child] : children) out.emplace_back(&name, child.get());
  if (group.link_order == Order::none) return out;
  std::map<std::string_view, size_t> listed;
  for (size_t i = 0; i < group.links.size(); ++i) listed.emplace(group.links[i].name, i);
  const auto key = [&](const auto& entry) {
    const auto it = listed.find(*entry.first);
    return std::tuple(it == listed.end() ? kNone : it->second, entry.second->first_tensor);
  };
  std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return out;
}

Plan make_plan(const std::vector<TensorInfo>& tensors, const Tree* tree) {
  Plan plan;
  plan.paths = choose_paths(tensors, tree);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& path = plan.paths[i];
    const size_t slash = path.rfind('/');
    Node& parent = group_at(plan.root, slash == std::string::npos ? "" : std::string_view(path).substr(0, slash), i);
    auto& node = parent.children[slash == std::string::npos ? path : path.substr(slash + 1)];
    if (node != nullptr) contradiction(path);
    node = std::make_unique<Node>();
    node->kind = Node::Kind::tensor;
    node->first_tensor = i;
  }
  if (tree == nullptr) {
    track_order(plan.root);
  } else {
    for (const auto& [path, group] : tree->groups) {
      Node& node = group_at(plan.root, path, Node::kNone);
      node.group = group;
      for (const Link& link : group.links) {
        if (link.kind == Link::Kind::child) continue;
        auto& child = node.children[link.name];
        if (child != nullptr) contradiction(path + "/" + link.name);
        child = std::make_unique<Node>();
        child->kind = Node::Kind::link;
        child->link = link;
      }
    }
  }
  list_tensors(plan.root, plan.order);
  return plan;
}

}  // namespace gradcodec::hdf5
