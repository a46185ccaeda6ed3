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
//   leaf = find_leaf(tree, u * total(tree));
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

// The leaf under `target`, 0 <= target < total. Never one of value 0: where rounding leads past the last child of a
// node, its last child above zero is taken. Requires total > 0.
SEED_HD inline int64_t find_leaf(const SumTree& tree, double target) {
  int64_t node = 0;
  for (int level = tree.num_levels - 1; level > 0; --level) {
    const double* child = tree_level(tree, level - 1) + node * kTreeFanout;
    int chosen = 0;
    double before_chosen = 0.0, before = 0.0;
    for (int i = 0; i < kTreeFanout; ++i) {
      if (child[i] > 0.0) {
        chosen = i;
        before_chosen = before;
        before += child[i];
        if (target < before) break;
      }
    }
    target -= before_chosen;
    node = node * kTreeFanout + chosen;
  }
  return node;
}

}  // namespace seed
