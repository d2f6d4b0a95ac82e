// Sums of LEAVES leaves, a power of two, as one balanced tree with neighbours first. V is the type of the result, and
// ROUND(x) is x as memory holds it. Sums that wait for a neighbour are one of every size, as the digits of a binary
// counter.
struct Tree {
  V waiting[SIZES]; // LEAVES is below 2^SIZES
  V root;
};
__device__ inline void add_leaf(Tree &tree, i64 leaf, V sum) {
  tree.root = ROUND(sum);
  int size = 0;
  for (i64 carried = leaf; carried & 1; carried >>= 1, ++size)
    tree.root = ROUND((V)(tree.waiting[size] + tree.root));
  if (leaf + 1 < LEAVES)
    tree.waiting[size] = tree.root;
}
