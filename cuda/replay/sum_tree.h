// SPDX-License-Identifier: Apache-2.0
// Sum tree over any number of leaves: draws a leaf with a probability in proportion to its value.
//
//   level 0   the leaves                    15 0 2 ... 7 | 3 3 1 ... 0 | ...     padded with zeros to whole nodes
//   level 1   sum of each 16 leaves         98 | 41 | ...
//   ...                                     until one number is left, the total
//
// A node is always the sum of its children, computed afresh in a fixed order and never adjusted by a difference: the
// tree is a function of its leaves, no rounding error gathers, and every device gets the same bits. Sixteen children of
// eight bytes are two cache lines, and a million leaves need five levels instead of the twenty of a binary tree.
//
//   SumTree tree = make_sum_tree(num_leaves);   tree.nodes = memory of tree.num_nodes zeros;
//   tree.nodes[leaf] = value;  for (level = 1 .. num_levels-1) refresh_node(tree, level, leaf / 16^level);
//   TreePath path{};  leaf = find_leaf(tree, u * tree_total(tree), path);
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

constexpr int kTreeFanout = 16;
constexpr int kMaxTreeLevels = 12;  // 16^11 leaves and more than fit a memory

struct SumTree {
  double* nodes;                   // all levels, leaves first
  int64_t offset[kMaxTreeLevels];  // of each level in `nodes`
  int64_t length[kMaxTreeLevels];  // of each level, without padding; length[0] = number of leaves
  int num_levels;                  // the last one has length 1
  int64_t num_nodes;               // size of `nodes`
};

// Levels and sizes of a tree; `nodes` is left to the caller.
SEED_HD inline SumTree make_sum_tree(int64_t num_leaves) {
  SumTree tree{};
  int64_t length = num_leaves;
  for (;;) {
    const int64_t num_groups = (length + kTreeFanout - 1) / kTreeFanout;
    tree.offset[tree.num_levels] = tree.num_nodes;
    tree.length[tree.num_levels++] = length;
    tree.num_nodes += num_groups * kTreeFanout;
    if (length == 1) return tree;
    length = num_groups;
  }
}

SEED_HD inline double* tree_level(const SumTree& tree, int level) { return tree.nodes + tree.offset[level]; }

SEED_HD inline double tree_total(const SumTree& tree) { return *tree_level(tree, tree.num_levels - 1); }

// Sets one node of level 1 or higher to the sum of its children. The order of the additions is part of the result.
SEED_HD inline void refresh_node(const SumTree& tree, int level, int64_t node) {
  const double* child = tree_level(tree, level - 1) + node * kTreeFanout;
  double lane[4];
  for (int i = 0; i < 4; ++i) lane[i] = (child[i] + child[i + 4]) + (child[i + 8] + child[i + 12]);
  tree_level(tree, level)[node] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

// The part of [0, sum) that one of four values takes up.
struct Interval {
  double begin, end;
  int32_t chosen;
};

// Which of four values lies under `target`; the last one above zero where rounding leads past all of them.
SEED_HD inline Interval choose_of_four(const double* value, double target) {
  const double end[4] = {value[0], value[0] + value[1], value[0] + value[1] + value[2],
                         value[0] + value[1] + value[2] + value[3]};
  int32_t chosen = (target >= end[0]) + (target >= end[1]) + (target >= end[2]);
  while (chosen > 0 && !(value[chosen] > 0.0)) --chosen;
  return {chosen > 0 ? end[chosen - 1] : 0.0, end[chosen], chosen};
}

SEED_HD inline bool contains(const Interval& interval, double target) {
  return target >= interval.begin && target < interval.end;
}

// The way to the leaf that was found last: targets in ascending order have most of it in common. A zero-initialised one
// is empty. It saves work and changes no result.
struct TreePath {
  Interval group[kMaxTreeLevels];  // of a node's four groups of four children
  Interval child[kMaxTreeLevels];  // of the group's four
};

// The leaf under `target`, 0 <= target < total. Never one of value 0. Requires total > 0.
SEED_HD inline int64_t find_leaf(const SumTree& tree, double target, TreePath& path) {
  int64_t node = 0;
  bool known = true;  // the path so far is that of the last call
  for (int level = tree.num_levels - 1; level > 0; --level) {
    const double* child = tree_level(tree, level - 1) + node * kTreeFanout;
    Interval& group = path.group[level];
    if (!(known && contains(group, target))) {
      known = false;
      double sum[4];
      for (int i = 0; i < 4; ++i) sum[i] = (child[4 * i] + child[4 * i + 1]) + (child[4 * i + 2] + child[4 * i + 3]);
      group = choose_of_four(sum, target);
    }
    target -= group.begin;
    Interval& one = path.child[level];
    if (!(known && contains(one, target))) {
      known = false;
      one = choose_of_four(child + 4 * group.chosen, target);
    }
    target -= one.begin;
    node = node * kTreeFanout + 4 * group.chosen + one.chosen;
  }
  return node;
}

}  // namespace seed
